"""The index of a checkpoint (`variables.index`): which tensor lies where in which data file.

TensorFlow's reader checks a tensor's bytes only when it is read. Reading the index here lets a
truncated checkpoint be found at once, without reading gigabytes. The file is a LevelDB table whose
values are BundleEntryProtos, the first one (empty key) a BundleHeaderProto.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import tensor_bundle_pb2

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_BLOCK_TRAILER_BYTES = 5  # compression type, crc32c
_SNAPPY = 1  # compression type; TensorFlow 1 used it, later ones don't compress


class BundleError(ValueError):
    """The index file is damaged, or a data file is missing or shorter than the index says."""


def check(prefix: str) -> None:
    """Raises BundleError unless every tensor the index names lies within its data file."""
    index_path = f"{prefix}.index"
    with open(index_path, "rb") as file:
        data = file.read()
    try:
        _check_entries(prefix, data)
    except (IndexError, struct.error, DecodeError) as error:
        raise BundleError(f"'{index_path}' is damaged or truncated") from error


def _check_entries(prefix: str, data: bytes) -> None:
    ends: dict[int, int] = {}
    shards = 1
    for key, value in _table_entries(data):
        if not key:
            header = tensor_bundle_pb2.BundleHeaderProto.FromString(value)
            shards = header.num_shards
            continue
        entry = tensor_bundle_pb2.BundleEntryProto.FromString(value)
        end = entry.offset + entry.size
        ends[entry.shard_id] = max(ends.get(entry.shard_id, 0), end)
    for shard, end in sorted(ends.items()):
        path = f"{prefix}.data-{shard:05d}-of-{shards:05d}"
        if not os.path.isfile(path):
            raise BundleError(f"the data file '{path}' is missing")
        size = os.path.getsize(path)
        if size < end:
            raise BundleError(f"'{path}' is truncated: it has {size} bytes, the index needs {end}")


def _table_entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    footer = data[-_FOOTER_BYTES:]
    if len(footer) < _FOOTER_BYTES or struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
        raise IndexError("no table footer")
    _, at = _varint(footer, 0)  # metaindex block: offset, size
    _, at = _varint(footer, at)
    offset, at = _varint(footer, at)
    size, _ = _varint(footer, at)
    for _, handle in _block_entries(_block(data, offset, size)):
        block_offset, at = _varint(handle, 0)
        block_size, _ = _varint(handle, at)
        yield from _block_entries(_block(data, block_offset, block_size))


def _block(data: bytes, offset: int, size: int) -> bytes:
    if offset + size + _BLOCK_TRAILER_BYTES > len(data):
        raise IndexError("a block ends behind the file")
    block = data[offset : offset + size]
    return _unsnap(block) if data[offset + size] == _SNAPPY else block


def _block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    restarts = struct.unpack("<I", block[-4:])[0]
    end = len(block) - 4 * (restarts + 1)
    at, key = 0, b""
    while at < end:
        shared, at = _varint(block, at)
        unshared, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        yield key, block[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _unsnap(data: bytes) -> bytes:
    """Decompresses a raw Snappy block."""
    length, at = _varint(data, 0)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        kind = tag & 3
        if kind == 0:  # literal
            size = tag >> 2
            if size >= 60:
                extra = size - 59
                size = int.from_bytes(data[at : at + extra], "little")
                at += extra
            out += data[at : at + size + 1]
            at += size + 1
            continue
        if kind == 1:  # copy, 11-bit offset
            size, back = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[at]
            at += 1
        else:  # copy, 16- or 32-bit offset
            width = 2 if kind == 2 else 4
            size, back = (tag >> 2) + 1, int.from_bytes(data[at : at + width], "little")
            at += width
        for _ in range(size):  # may overlap what it writes
            out.append(out[-back])
    if len(out) != length:
        raise IndexError("a compressed block has the wrong length")
    return bytes(out)
