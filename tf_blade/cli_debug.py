"""What the debugging commands of `tf-blade` do; see cli_commands.py.

What they use is imported when they run: it brings the compiler and the runtime, which other
commands can do without (`doctor` says when they are missing).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Group
from rich.text import Text

from tf_blade import api, cli_commands
from tf_blade.cli_commands import Outcome
from tf_blade.cli_progress import show_progress
from tf_blade.config import Config
from tf_blade.errors import InputError
from tf_blade.report import Report, to_plain

if TYPE_CHECKING:
    from tf_blade.dump.read import Dump

Read = TypeVar("Read")


def replay(options: argparse.Namespace, driver: api.Driver | None) -> Outcome:
    from tf_blade.debug.replay import replay as run_alone
    from tf_blade.debug.tables import replay_renderable
    from tf_blade.dump.read import read_dump

    tolerance = _with_tolerance(Config(), options)  # refuses impossible ones
    dump = read_dump(options.dump)
    with show_progress(options.json) as progress:
        clusters = run_alone(
            dump,
            options.cluster,
            rtol=None if options.rtol is None else tolerance.rtol,
            atol=None if options.atol is None else tolerance.atol,
            seconds=options.seconds,
            progress=progress,
        )
    equal = all(cluster.equal for cluster in clusters)
    data = {
        "dump": options.dump,
        "equal": equal,
        "clusters": [{**to_plain(cluster), "equal": cluster.equal} for cluster in clusters],
    }
    return Outcome(data, replay_renderable(clusters), exit_code=0 if equal else 1)


def bisect(options: argparse.Namespace, driver: api.Driver | None) -> Outcome:
    from tf_blade.debug.bisect import bisect as find_culprits
    from tf_blade.debug.tables import bisection_renderable

    config = _with_tolerance(cli_commands.read_config(options), options)
    folder = options.dump or config.dump_dir
    made = None if folder else tempfile.mkdtemp(prefix="tf_blade_dump_")
    found = None
    try:
        with show_progress(options.json) as progress:
            found = find_culprits(
                options.input,
                folder or str(made),
                config=config,
                inputs=options.inputs,
                signatures=options.signature,
                progress=progress,
            )
    finally:
        if made is not None and (found is None or found.status != "differs"):
            shutil.rmtree(made)
            if found is not None:
                found.dump = ""
    data = {
        "model": options.input,
        "status": found.status,
        "reason": found.reason,
        "mismatches": [{"signature": name, **to_plain(c)} for name, c in found.mismatches],
        "culprits": [to_plain(culprit) for culprit in found.culprits],
        "clusters": found.clusters,
        "tries": found.tries,
        "dump": found.dump,
    }
    differs = found.status == "differs"
    return Outcome(data, bisection_renderable(options.input, found), exit_code=int(differs))


def inspect(options: argparse.Namespace, driver: api.Driver | None) -> Outcome:
    if not options.trace and options.html:
        raise InputError("--html is for the trace: give --trace, too.")
    if options.fusions:
        return _fusions(options, driver)
    if not options.trace:
        return cli_commands.inspect(options, driver)
    from tf_blade.debug.trace import read_trace, trace_page, trace_renderable

    page = _page_to_write(options.html)
    report, traces = _of_dump(options, driver, read_trace)
    data: dict[str, Any] = {
        "report": report.to_dict(),
        "trace": [to_plain(trace) for trace in traces],
    }
    if page is None:
        shown = trace_renderable(traces) if traces else Text("nothing was compiled")
        return Outcome(data, shown)
    _write_whole(page, trace_page(f"tf-blade trace of {options.input}", traces))
    data["html"] = options.html
    return Outcome(data, Group(Text(f"written: {options.html}", style="bold")))


def _fusions(options: argparse.Namespace, driver: api.Driver | None) -> Outcome:
    from tf_blade.debug.fusions import fusions_renderable, read_fusions

    report, clusters = _of_dump(options, driver, read_fusions)
    data = {"report": report.to_dict(), "fusions": [to_plain(c) for c in clusters]}
    return Outcome(data, fusions_renderable(clusters))


def _of_dump(
    options: argparse.Namespace, driver: api.Driver | None, read: Callable[[Dump], list[Read]]
) -> tuple[Report, list[Read]]:
    """A dry run's report, and what `read` finds in the dump that it writes."""
    from tf_blade.dump.read import read_dump

    config = cli_commands.read_config(options)
    with tempfile.TemporaryDirectory(prefix="tf_blade_trace_") as scratch:
        config = dataclasses.replace(config, dump_dir=config.dump_dir or scratch)
        with show_progress(options.json) as progress:
            report = api.inspect(
                driver or api.default_driver(),
                options.input,
                config=config,
                signatures=options.signature,
                progress=progress,
            )
        found = read(read_dump(str(config.dump_dir))) if report.cluster_count else []
    return report, found


COMMANDS: Mapping[str, Callable[[argparse.Namespace, api.Driver | None], Outcome]] = {
    "replay": replay,
    "bisect": bisect,
    "inspect": inspect,
}


def _with_tolerance(config: Config, options: argparse.Namespace) -> Config:
    given = {"rtol": options.rtol, "atol": options.atol}
    return dataclasses.replace(config, **{k: v for k, v in given.items() if v is not None})


def _page_to_write(path: str | None) -> Path | None:
    """The page's path. Raises InputError, before long work, if it can't be written."""
    if path is None:
        return None
    page = Path(path)
    if page.is_dir():
        raise InputError(f"'{page}' is a folder; --html names the file to write.")
    folder = page.absolute().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"can't write '{page}': '{folder}' is no folder that can be written to.")
    return page


def _write_whole(path: Path, text: str) -> None:
    """Writes a file that is absent (or as it was) or complete at any time."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
