"""The container: an executable as the byte string that travels in a model.

Layout, little endian; `cc/executable.h` reads it:

    "TFBLADE1"                      8 bytes
    abi_version                     u32
    isa_count, then for each ISA    u32; u32 length, name
    sha256 of the payload           32 bytes
    payload size                    u64
    payload                         an ELF shared object that exports `blade_executable`
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

MAGIC = b"TFBLADE1"


class ContainerError(ValueError):
    """Bytes that are no container, or a damaged one."""


@dataclass(frozen=True)
class Container:
    """abi_version: of cc/blade_abi.h. isas: what the payload has code for. payload: an ELF file."""

    abi_version: int
    isas: tuple[str, ...]
    payload: bytes


def pack(abi_version: int, isas: Sequence[str], payload: bytes) -> bytes:
    """The container's bytes."""
    parts = [MAGIC, struct.pack("<II", abi_version, len(isas))]
    for isa in isas:
        name = isa.encode()
        parts += [struct.pack("<I", len(name)), name]
    parts += [hashlib.sha256(payload).digest(), struct.pack("<Q", len(payload)), payload]
    return b"".join(parts)


def unpack(data: bytes) -> Container:
    """Reads and checks a container. Raises ContainerError, saying what is wrong with it."""
    reader = _Reader(data)
    if reader.take(len(MAGIC)) != MAGIC:
        raise ContainerError("not a container: it does not begin with TFBLADE1")
    abi_version, count = reader.numbers("<II")
    isas = tuple(
        reader.take(reader.numbers("<I")[0]).decode("ascii", "replace") for _ in range(count)
    )
    digest = reader.take(32)
    (size,) = reader.numbers("<Q")
    payload = reader.take(size)
    if reader.position != len(data):
        raise ContainerError(f"{len(data) - reader.position} bytes after the payload")
    if hashlib.sha256(payload).digest() != digest:
        raise ContainerError("the payload does not match its hash")
    return Container(abi_version, isas, payload)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.position : self.position + count]
        if len(piece) != count:
            raise ContainerError(f"ends after {len(self.data)} bytes, in the middle of a field")
        self.position += count
        return piece

    def numbers(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))
