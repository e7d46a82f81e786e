"""Progress of long work on a terminal; silent everywhere else."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from tf_blade.progress import Progress, silent


@contextlib.contextmanager
def show_progress(quiet: bool) -> Iterator[Progress]:
    """Yields a Progress that draws on stderr, if that is a terminal and `quiet` is off."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich import progress as rich_progress
    from rich.console import Console

    bar = rich_progress.Progress(
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(bar_width=30),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("start", total=None)

        def show(stage: str, done: int = 0, total: int = 0) -> None:
            bar.update(task, description=stage, completed=done, total=total or None)

        yield show
