"""Writes a folder so that it is either absent or complete, whatever happens on the way.

Work goes into a staging folder beside the target, on the same file system; one rename makes it the
target. The staging folder's name tells which process made it, so that a later run can remove what
a killed one left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from tf_blade.errors import InputError, OutputExistsError

_STAGING, _ASIDE = ".tf_blade_staging.", ".tf_blade_replaced."
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def check_output(output: Path, source: Path | None, overwrite: bool) -> None:
    """Refuses targets that can't or shouldn't be written. Touches nothing.

    Raises:
      OutputExistsError: the target exists and overwrite is off, or is no SavedModel.
      InputError: target and source are the same folder or one is inside the other.
    """
    if source is not None:
        out, src = output.resolve(), source.resolve()
        if out == src:
            raise InputError(
                f"the output '{output}' is the input itself. Choose another output folder."
            )
        if src in out.parents or out in src.parents:
            inner, outer = ("output", "input") if src in out.parents else ("input", "output")
            raise InputError(
                f"the {inner} folder is inside the {outer} folder ('{source}', '{output}'). "
                "Choose an output folder outside of the input."
            )
    if not os.path.lexists(output):
        ancestor = next(p for p in output.resolve().parents if p.exists())
        if not ancestor.is_dir():
            raise InputError(f"can't make '{output}': '{ancestor}' is a file.")
        if not os.access(ancestor, os.W_OK):
            raise InputError(f"can't make '{output}': no permission to write in '{ancestor}'.")
        return
    if not overwrite:
        raise OutputExistsError(
            f"'{output}' exists. Pass overwrite=True (--overwrite) to replace it, or choose "
            "another folder."
        )
    holds_model = any((output / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt"))
    if not output.is_dir() or (any(output.iterdir()) and not holds_model):
        raise OutputExistsError(
            f"'{output}' exists and is not a SavedModel: it is not replaced. Remove it yourself or "
            "choose another folder."
        )


@contextlib.contextmanager
def atomic_output(output: Path, overwrite: bool) -> Iterator[Path]:
    """Yields an empty staging folder that becomes `output` when the block ends without exception.

    On an exception the staging folder (and parents made for it) are removed and `output` is as it
    was. Raises OutputExistsError if somebody else made `output` meanwhile.
    """
    target = output.resolve()
    made = _make_parents(target.parent)
    _remove_stale(target)
    staging = target.parent / f"{_STAGING}{target.name}.{_owner()}"
    staging.mkdir()
    done = False
    try:
        yield staging
        _publish(staging, target, overwrite)
        done = True
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if not done:
            for parent in reversed(made):
                with contextlib.suppress(OSError):  # no longer empty: somebody uses it
                    parent.rmdir()


def _make_parents(parent: Path) -> list[Path]:
    """Makes missing parents; returns those it made, outermost first."""
    missing = [p for p in (parent, *parent.parents) if not p.exists()]
    parent.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _publish(staging: Path, target: Path, overwrite: bool) -> None:
    if not target.exists():
        _rename_new(staging, target)
        return
    if not overwrite:
        raise OutputExistsError(f"'{target}' was made by somebody else meanwhile; nothing written.")
    if _exchange(staging, target):
        return  # the old folder is the staging folder now, and goes with it
    aside = target.parent / f"{_ASIDE}{target.name}.{_owner()}"
    os.rename(target, aside)
    os.rename(staging, target)
    shutil.rmtree(aside, ignore_errors=True)


def _rename_new(staging: Path, target: Path) -> None:
    try:
        os.rename(staging, target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise OutputExistsError(
                f"'{target}' was made by somebody else meanwhile; nothing written."
            ) from error
        raise


def _exchange(first: Path, second: Path) -> bool:
    """Swaps two folders in one step, where kernel and file system can."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    old, new = os.fsencode(first), os.fsencode(second)
    return renameat2(_AT_FDCWD, old, _AT_FDCWD, new, _RENAME_EXCHANGE) == 0


# -- leftovers of killed processes --------------------------------------------------------


def _owner() -> str:
    """Host, process id and its start time: names one process, even after ids are reused."""
    return f"{socket.gethostname()}.{os.getpid()}.{_start_time(os.getpid())}"


def _start_time(pid: int) -> str:
    try:
        # Field 22, counted after the command name, which may hold blanks and brackets.
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "0"


def _remove_stale(target: Path) -> None:
    """Removes what dead processes of this host left; a replaced model without successor returns."""
    for prefix in (_ASIDE, _STAGING):
        start = f"{prefix}{target.name}.{socket.gethostname()}."
        for path in target.parent.iterdir():
            if not path.name.startswith(start):
                continue
            pid, _, started = path.name[len(start) :].partition(".")
            if not pid.isdigit() or _start_time(int(pid)) == started != "0":
                continue
            if prefix == _ASIDE and not target.exists():
                os.rename(path, target)
            else:
                shutil.rmtree(path, ignore_errors=True)
