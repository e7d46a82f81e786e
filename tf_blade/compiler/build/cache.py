"""The kernel cache: executables, and what is known of them, by the hash of all that they are made
from.

Any number of processes may use one folder at once: entries are written under a temporary name and
renamed. An entry that can't be read back whole counts as missing and is made again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tf_blade.compiler.build.container import unpack

MAX_BYTES = 1 << 30
# The cache is swept when it has grown past its limit, down to this share of it.
_SWEEP_TO = 0.8


class Cache:
    """A folder of entries of one kind. Problems with the folder (full disk, no permission) lose the
    caching, never the entry.

    Args:
      folder: made when the first entry is written. Caches of several kinds may share it.
      max_bytes: the least recently used entries go when the folder holds more, of all kinds.
      suffix: of the files of this kind.
      check: raises ValueError for bytes that are no entry of this kind, or a damaged one.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int = MAX_BYTES,
        *,
        suffix: str = "blade",
        check: Callable[[bytes], object] = unpack,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._suffix = suffix
        self._check = check

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.{self._suffix}"

    def get(self, key: str) -> bytes | None:
        """The entry stored under `key`, checked; None when there is none."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        try:
            self._check(data)
        except ValueError:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # it was used just now
        return data

    def put(self, key: str, data: bytes) -> None:
        """Stores an entry; readers see all of it or nothing."""
        path = self._path(key)
        temporary = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except OSError:
            if temporary:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return
        self._sweep()

    def _sweep(self) -> None:
        entries: list[tuple[float, int, Path]] = []
        for path in self._folder.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self._max_bytes:
            return
        for _, size, path in sorted(entries):
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
            if total <= self._max_bytes * _SWEEP_TO:
                return
