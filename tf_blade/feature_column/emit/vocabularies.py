"""Vocabularies as static data of generated code: the flat hash tables of kernels/vocabulary.h.

The arrays are string literals of their bytes (targets are little-endian): a compiler reads a
literal of 40 MB in a second, and needs minutes for the same numbers one by one.
"""

from __future__ import annotations

import re

import numpy as np
import tensorflow as tf

from tf_blade.feature_column.emit.expressions import string
from tf_blade.feature_column.spec import Vocabulary

_MASK = 2**64 - 1


def vocabulary_data(name: str, vocabulary: Vocabulary) -> str:
    """Definitions of a constant `name`, a StringTable or IntTable."""
    lines: list[str] = []
    values = "nullptr"
    if vocabulary.values:
        values, definition = _data("BladeInt", f"{name}_values", np.array(vocabulary.values, "<i8"))
        lines.append(definition)
    keys = vocabulary.keys
    if keys and isinstance(keys[0], bytes):
        texts = [key for key in keys if isinstance(key, bytes)]
        hashes = fingerprints(texts)
        places = np.array(place(hashes.tolist()), np.int64)
        entries = np.zeros((len(places), 2), "<u4")
        entries[:, 0] = np.where(places > 0, hashes[places - 1] >> np.uint64(32), 0)
        entries[:, 1] = places
        slots, slots_definition = _data("StringSlot", f"{name}_slots", entries)
        starts = np.cumsum([0, *map(len, texts)]).astype("<u4")
        offsets, offsets_definition = _data("U32", f"{name}_offsets", starts)
        lines += [
            slots_definition,
            offsets_definition,
            f"static const char {name}_bytes[] = {string(b''.join(texts))};",
            f"static const StringTable {name} = "
            f"{{{len(places) - 1}, {slots}, {offsets}, {name}_bytes, {values}}};",
        ]
    else:
        numbers = [key for key in keys if isinstance(key, int)]
        places = np.array(place([hash_of_int(key) for key in numbers]), np.int64)
        entries = np.zeros((len(places), 2), "<i8")
        if numbers:
            entries[:, 0] = np.where(places > 0, np.array(numbers, "<i8")[places - 1], 0)
        entries[:, 1] = places
        slots, slots_definition = _data("IntSlot", f"{name}_slots", entries)
        lines += [
            slots_definition,
            f"static const IntTable {name} = {{{len(places) - 1}, {slots}, {values}}};",
        ]
    return "\n".join(lines)


def fingerprints(keys: list[bytes]) -> np.ndarray:
    """Fingerprint64 of each key, u64 [n]."""
    if not keys:
        return np.zeros(0, np.uint64)
    with tf.device("CPU"):
        data = tf.fingerprint(
            tf.constant(keys, tf.string)
        ).numpy()  # the hash's bytes, lowest first
    return data.reshape(len(keys), 8).copy().view("<u8")[:, 0]


def hash_of_int(key: int) -> int:
    """HashOfInt of kernels/vocabulary.h."""
    x = key * 0x9E3779B97F4A7C15 & _MASK
    return x ^ (x >> 32)


def place(hashes: list[int]) -> list[int]:
    """The table's slots: position + 1 of the key that each holds, 0 where it is free.

    At most half of them are taken, which keeps searches short and makes sure that they end.
    """
    size = 1
    while size < 2 * len(hashes) or size < 2:
        size *= 2
    slots = [0] * size
    for position, value in enumerate(hashes):
        at = value & (size - 1)
        while slots[at]:
            at = (at + 1) & (size - 1)
        slots[at] = position + 1
    return slots


_ESCAPES = tuple(f"\\{code:03o}" for code in range(256))
_LINE = 256  # bytes


def _data(kind: str, name: str, array: np.ndarray) -> tuple[str, str]:
    """A pointer to a constant array of `kind`, and its definition."""
    data = array.tobytes()
    lines = [
        # A zero needs one digit where no digit follows.
        re.sub(r"\\000(?=\\)", r"\\0", "".join([_ESCAPES[c] for c in data[i : i + _LINE]]))
        for i in range(0, len(data), _LINE)
    ]
    text = "\n    ".join(f'"{line}"' for line in lines)
    definition = f"alignas(8) static const char {name}[] =\n    {text};"
    return f"reinterpret_cast<const {kind}*>({name})", definition
