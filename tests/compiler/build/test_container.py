"""The container's bytes."""

from __future__ import annotations

import hashlib
import struct

import pytest

from tf_blade.compiler.build.container import Container, ContainerError, pack, unpack

PAYLOAD = b"\x7fELF" + bytes(range(200))


def test_reads_back_what_was_packed():
    packed = pack(1, ["x86-64-v4", "x86-64-v3"], PAYLOAD)
    assert unpack(packed) == Container(1, ("x86-64-v4", "x86-64-v3"), PAYLOAD)


def test_layout():
    expected = b"TFBLADE1" + struct.pack("<III", 7, 1, 7) + b"aarch64"
    expected += hashlib.sha256(PAYLOAD).digest() + struct.pack("<Q", len(PAYLOAD)) + PAYLOAD
    assert pack(7, ["aarch64"], PAYLOAD) == expected


def test_every_truncation_is_found():
    packed = pack(1, ["x86-64-v3"], PAYLOAD)
    for length in range(len(packed)):
        with pytest.raises(ContainerError):
            unpack(packed[:length])


def test_every_changed_byte_of_magic_hash_and_payload_is_found():
    packed = pack(1, [], PAYLOAD)
    for position in [*range(8), *range(12, len(packed))]:
        damaged = bytearray(packed)
        damaged[position] ^= 1
        with pytest.raises(ContainerError):
            unpack(bytes(damaged))


def test_bytes_after_the_payload_are_found():
    with pytest.raises(ContainerError, match="1 bytes after the payload"):
        unpack(pack(1, [], PAYLOAD) + b"x")
