"""A shared library that exports `blade_executable`, as the executable of a node."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from ctypes import POINTER, Structure, c_char_p, c_int, c_uint, c_void_p
from dataclasses import dataclass
from pathlib import Path

from tf_blade.compiler.build.container import pack
from tf_blade.compiler.emit.abi import abi_version
from tf_blade.errors import InputError


@dataclass(frozen=True)
class Kernel:
    """container: the library, as it travels in a model."""

    container: bytes
    n_inputs: int
    n_outputs: int


class _Variant(Structure):
    """BladeVariant."""

    _fields_ = (("isa", c_char_p), ("run", c_void_p))


class _Executable(Structure):
    """BladeExecutable, as far as it is read here."""

    _fields_ = (
        ("abi_version", c_uint),
        ("n_inputs", c_int),
        ("n_outputs", c_int),
        ("n_variants", c_int),
        ("variants", POINTER(_Variant)),
    )


def read_kernel(path: str | Path) -> Kernel:
    """Reads a shared library for this machine's family of processors.

    Raises: InputError if it can't be opened, exports no `blade_executable`, or was built with
      another version of blade_abi.h.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file '{path}'.")
    with tempfile.TemporaryDirectory(prefix="tf-blade-") as folder:
        # A copy: one that is built anew in the same place would not be opened again.
        copy = shutil.copy(path, os.path.join(folder, "kernel.so"))
        try:
            function = ctypes.CDLL(copy).blade_executable
        except OSError as error:
            reason = str(error).replace(copy, str(path))
            raise InputError(f"'{path}' can't be opened: {reason}.") from error
        except AttributeError:
            raise InputError(
                f"'{path}' does not export blade_executable (see blade_abi.h, docs/patterns.md)."
            ) from None
        payload = Path(copy).read_bytes()
    function.restype = POINTER(_Executable)
    found = function().contents
    if found.abi_version != abi_version():
        raise InputError(
            f"'{path}' was built for version {found.abi_version} of blade_abi.h, this is version "
            f"{abi_version()}. Compile it again with the header in tf_blade.patterns.include_dir()."
        )
    isas = [found.variants[i].isa.decode() for i in range(found.n_variants)]
    if not isas:
        raise InputError(f"'{path}' has no variant for any processor.")
    return Kernel(pack(found.abi_version, isas, payload), found.n_inputs, found.n_outputs)
