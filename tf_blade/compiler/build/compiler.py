"""The C++ compiler: finding one, and how it is called for each CPU target."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

from tf_blade.errors import CompilerNotFoundError

_COMMON = (
    "-std=c++17 -O3 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti "
    "-fno-asynchronous-unwind-tables "
    # Vectorised loops without -ffast-math: what is allowed is said loop by loop (omp simd).
    # Integers wrap around, and nothing looks at errno or floating-point exception flags.
    "-fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=off -fwrapv"
).split()


@dataclass(frozen=True)
class _Target:
    """arch: as in a target triple. march: GCC's and clang's name of the instruction set. mcpu: the
    same for zig. vector: flags that choose the vector width."""

    arch: str
    march: str
    mcpu: str
    vector: tuple[str, ...] = ()


_TARGETS = {
    "x86-64-v2": _Target("x86_64", "x86-64-v2", "x86_64_v2"),
    "x86-64-v3": _Target("x86_64", "x86-64-v3", "x86_64_v3", ("-mprefer-vector-width=256",)),
    "x86-64-v4": _Target("x86_64", "x86-64-v4", "x86_64_v4", ("-mprefer-vector-width=512",)),
    "aarch64": _Target("aarch64", "armv8-a", "generic"),
}
_MISSING = (
    "no C++ compiler{what} was found. Get one of these three ways: install g++ (Debian and Ubuntu: "
    "apt-get install {package}); install clang; or `pip install ziglang`. Another compiler can be "
    "named with Config(compiler=…) or $CXX."
)


@dataclass(frozen=True)
class Compiler:
    """command: how it is started. family: gcc, clang or zig. version: its version line."""

    command: tuple[str, ...]
    family: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} ({self.version})"

    @property
    def name(self) -> str:
        """What to call it in messages."""
        return "zig" if self.family == "zig" else self.command[0]

    def compile_command(self, target: str, source: str, output: str, *defines: str) -> list[str]:
        """The command that makes an object file for a CPU target."""
        t = _TARGETS[target]
        flags = [*_COMMON, *t.vector, *(f"-D{d}" for d in defines)]
        if self.family == "zig":
            # -nostdinc++: or zig builds its C++ standard library first, which takes minutes.
            flags += ["-target", _zig_target(target), f"-mcpu={t.mcpu}", "-nostdinc++"]
        else:
            flags.append(f"-march={t.march}")
        return [*self.command, *flags, "-c", "-x", "c++", source, "-o", output]

    def link_command(self, target: str, objects: list[str], output: str) -> list[str]:
        """The command that makes the shared object. It needs the C and math libraries only."""
        if self.family == "zig":
            flags = ["-target", _zig_target(target), "-shared", "-nostdlib++", "-s"]
        else:
            # Executables are many and small: no padding between code and data. Nothing of the C++
            # library is used, so with --as-needed nothing of it is linked.
            flags = ["-shared", "-fPIC", "-s", "-Wl,--build-id=none", "-Wl,--as-needed"]
            flags.append("-Wl,-z,noseparate-code")
        return [*self.command, *flags, *objects, "-lm", "-o", output]


def _zig_target(target: str) -> str:
    # glibc 2.17 is what TensorFlow's manylinux wheels ask for.
    return f"{_TARGETS[target].arch}-linux-gnu.2.17"


def find_compiler(name: str | None = None, target: str | None = None) -> Compiler:
    """The compiler to use: `name`, else $CXX, g++, clang++, or the ziglang package.

    Args:
      name: a command or path. None: the first found.
      target: a CPU target that it must compile for. None: this machine's family.

    Raises: CompilerNotFoundError, which names the three ways to get one.
    """
    arch = _TARGETS[target].arch if target else platform.machine().replace("arm64", "aarch64")
    if name:
        found = _try(name, arch)
        if found is None:
            raise CompilerNotFoundError(f"the compiler '{name}' can't be run. " + _missing(arch))
        return found
    candidates = [os.environ.get("CXX", ""), "g++", "clang++", "zig"]
    if arch != platform.machine():
        candidates = [os.environ.get("CXX", ""), f"{arch}-linux-gnu-g++", "zig"]
    for candidate in filter(None, candidates):
        found = _try(candidate, arch)
        if found is not None:
            return found
    raise CompilerNotFoundError(_missing(arch))


def _missing(arch: str) -> str:
    cross = arch != platform.machine()
    text = _MISSING.format(
        what=f" for {arch}" if cross else "",
        package=f"g++-{arch.replace('_', '-')}-linux-gnu" if cross else "g++",
    )
    return text[0].upper() + text[1:] if text else text


def _try(name: str, arch: str) -> Compiler | None:
    """The compiler of that name, or None when it doesn't run or makes code for another family."""
    command: tuple[str, ...]
    if os.path.basename(name) == "zig" and not shutil.which(name):
        if importlib.util.find_spec("ziglang") is None:
            return None
        command = (sys.executable, "-m", "ziglang", "c++")
    else:
        path = shutil.which(name)
        if path is None:
            return None
        command = (path, "c++") if os.path.basename(name) == "zig" else (path,)
    found = _identify(command)
    if found is not None and found.family != "zig" and _machine(found) != arch:
        return None
    return found


@functools.cache
def _identify(command: tuple[str, ...]) -> Compiler | None:
    if command[-1] == "c++":
        text = _output([*command[:-1], "version"])
        return Compiler(command, "zig", text.strip()) if text else None
    text = _output([*command, "--version"])
    if not text:
        return None
    first = text.splitlines()[0].strip()
    return Compiler(command, "clang" if "clang" in first else "gcc", first)


@functools.cache
def _machine(compiler: Compiler) -> str:
    text = _output([*compiler.command, "-dumpmachine"]) or ""
    return re.split("-", text.strip())[0].replace("amd64", "x86_64").replace("arm64", "aarch64")


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
