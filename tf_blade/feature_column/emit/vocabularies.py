"""Vocabularies as static data of generated code: the flat hash tables of kernels/vocabulary.h."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from tf_blade.feature_column.emit.expressions import int64, string
from tf_blade.feature_column.spec import Vocabulary

_MASK = 2**64 - 1


def vocabulary_data(name: str, vocabulary: Vocabulary) -> str:
    """Definitions of a constant `name`, a StringTable or IntTable."""
    lines: list[str] = []
    values = "nullptr"
    if vocabulary.values:
        values = f"{name}_values"
        lines.append(_array("BladeInt", values, map(int64, vocabulary.values)))
    keys = vocabulary.keys
    if keys and isinstance(keys[0], bytes):
        texts = [key for key in keys if isinstance(key, bytes)]
        offsets = np.cumsum([0, *map(len, texts)])
        hashes = [int(h) for h in fingerprints(texts)]
        slots = place(hashes)
        entries = (f"{{{hashes[p - 1] >> 32}u, {p}}}" if p else "{0, 0}" for p in slots)
        lines += [
            _array("StringSlot", f"{name}_slots", entries),
            _array("U32", f"{name}_offsets", (str(offset) for offset in offsets)),
            f"static const char {name}_bytes[] = {string(b''.join(texts))};",
            f"static const StringTable {name} = "
            f"{{{len(slots) - 1}, {name}_slots, {name}_offsets, {name}_bytes, {values}}};",
        ]
    else:
        numbers = [key for key in keys if isinstance(key, int)]
        slots = place([hash_of_int(key) for key in numbers])
        entries = (f"{{{int64(numbers[p - 1])}, {p}}}" if p else "{0, 0}" for p in slots)
        lines += [
            _array("IntSlot", f"{name}_slots", entries),
            f"static const IntTable {name} = {{{len(slots) - 1}, {name}_slots, {values}}};",
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


def _array(kind: str, name: str, items: Iterable[str]) -> str:
    texts = list(items)
    rows = [", ".join(texts[i : i + 16]) for i in range(0, len(texts), 16)]
    return f"static const {kind} {name}[] = {{\n    " + ",\n    ".join(rows) + ",\n};"
