"""Named arrays in .npz files that hold nothing but numbers, strings as their bytes and lengths."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

_BYTES, _LENGTHS = ".bytes", ".lengths"


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays; those of strings are object arrays of bytes."""
    stored: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.dtype != object:
            stored[name] = array
            continue
        strings = [bytes(s) for s in array.reshape(-1)]
        stored[name + _BYTES] = np.frombuffer(b"".join(strings), np.uint8)
        lengths = np.array([len(s) for s in strings], np.int64)
        stored[name + _LENGTHS] = lengths.reshape(array.shape)
    np.savez(path, **stored)  # type: ignore[arg-type]  # a name is no option


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """What `save_arrays` wrote. Raises OSError, ValueError, KeyError or EOFError on other files."""
    with np.load(path, allow_pickle=False) as stored:
        found = {}
        for name in stored.files:
            if name.endswith(_LENGTHS):
                whole = name.removesuffix(_LENGTHS)
                found[whole] = _strings(stored[whole + _BYTES].tobytes(), stored[name])
            elif not name.endswith(_BYTES):
                found[name] = stored[name]
        return found


def _strings(data: bytes, lengths: np.ndarray) -> np.ndarray:
    ends = np.cumsum(lengths.reshape(-1))
    strings = np.empty(lengths.size, object)
    strings[:] = [data[end - n : end] for n, end in zip(lengths.reshape(-1), ends, strict=True)]
    return strings.reshape(lengths.shape)
