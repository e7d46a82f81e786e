"""Every choice a user can make about optimising, in one frozen dataclass."""

from __future__ import annotations

import dataclasses
import difflib
import os
import platform
import sys
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tf_blade.errors import ConfigError

CPU_TARGETS = ("x86-64-v3", "x86-64-v4", "aarch64")
LOOKUPS = ("codegen", "library", "off")


def default_cpu_targets() -> tuple[str, ...]:
    """The instruction sets that executables carry code for unless the user says otherwise."""
    if platform.machine() in ("aarch64", "arm64"):
        return ("aarch64",)
    return ("x86-64-v3", "x86-64-v4")


@dataclass(frozen=True)
class Config:
    """Options of `tf_blade.optimize`. `Config()` is right for most models.

    Attributes:
      tags: tags of the MetaGraph to optimise, such as ("serve",). None: the only one, or the one
        tagged "serve".
      freeze: turn variables that no signature writes into constants, so that the compiler can use
        their values. False: all variables stay variables.
      freeze_threshold_bytes: variables larger than this stay variables even so (one copy on disk,
        none extra in memory).
      cpu_targets: instruction sets to generate code for, out of "x86-64-v3" (AVX2), "x86-64-v4"
        (AVX-512) and "aarch64" (NEON). The best one the serving machine has is used.
      compiler: path or name of the C++ compiler (g++, clang++ or zig). None: the first found.
      jobs: compilers that run at once. None: as many as this process may use CPUs.
      cache_dir: where compiled kernels are kept. None: $TF_BLADE_CACHE, else ~/.cache/tf-blade.
      lookups: how embedding columns run: "codegen" (generated kernels), "library" (kernels that
        need no compiler), "off" (in TensorFlow).
      repeated_rows: find, in each request, the columns that hold the same in every row (one user,
        many items), look them up once and compute once what they add to a dense layer.
      dump_dir: write everything about each cluster here: its nodes, the IR after each stage, the
        source of its kernels, recorded inputs (docs/debugging.md). None: nowhere.
      check: compare the optimised model's answers with the original's before writing anything.
      rtol, atol: the check passes where |optimised - original| <= atol + rtol * scale, with
        scale = max(|original|, root mean square of that output). Tying the error to the output's
        scale keeps a value that cancelled to nearly zero from failing on rounding noise. For
        outputs of 16-bit floats rtol is at least four units of their last place. Strings,
        integers and booleans must be equal.
      allow_mismatch: write the output even if the check fails (the report tells).
      batch_sizes: batch sizes of synthesised inputs, used when no inputs are given.
      timing_seconds: time to spend measuring original against optimised. 0: don't measure.
      keep_slower: keep the optimised model even if it was measured and is not faster. False: the
        output is then the input, and the report says so.
    """

    tags: tuple[str, ...] | None = None
    freeze: bool = True
    freeze_threshold_bytes: int = 32 << 20
    cpu_targets: tuple[str, ...] = field(default_factory=default_cpu_targets)
    compiler: str | None = None
    jobs: int | None = None
    cache_dir: str | None = None
    lookups: str = "codegen"
    repeated_rows: bool = True
    dump_dir: str | None = None
    check: bool = True
    rtol: float = 1e-4
    atol: float = 1e-6
    allow_mismatch: bool = False
    batch_sizes: tuple[int, ...] = (1, 2, 7, 32)
    timing_seconds: float = 10.0
    keep_slower: bool = False

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for f in dataclasses.fields(self):
            object.__setattr__(self, f.name, _coerce(f.name, hints[f.name], getattr(self, f.name)))
        self._require("tags", self.tags is None or len(self.tags) > 0, "at least one tag, or None")
        self._require("freeze_threshold_bytes", self.freeze_threshold_bytes >= 0, "0 or more")
        self._require("cpu_targets", len(self.cpu_targets) > 0, "at least one target")
        for target in self.cpu_targets:
            self._require("cpu_targets", target in CPU_TARGETS, f"out of {', '.join(CPU_TARGETS)}")
        families = {target.startswith("x86") for target in self.cpu_targets}
        self._require("cpu_targets", len(families) == 1, "x86-64 targets or aarch64, not both")
        self._require("lookups", self.lookups in LOOKUPS, f"one of {', '.join(LOOKUPS)}")
        self._require("jobs", self.jobs is None or self.jobs >= 1, "1 or more, or None")
        self._require("rtol", 0 <= self.rtol < 1, "between 0 and 1")
        self._require("atol", 0 <= self.atol < float("inf"), "0 or more, and finite")
        self._require("batch_sizes", len(self.batch_sizes) > 0, "at least one batch size")
        self._require("batch_sizes", all(b >= 1 for b in self.batch_sizes), "1 or more each")
        self._require("timing_seconds", 0 <= self.timing_seconds < float("inf"), "0 or more")

    def _require(self, key: str, ok: bool, expected: str) -> None:
        if not ok:
            raise ConfigError(
                f"config key '{key}' is {getattr(self, key)!r}; it must be {expected}."
            )

    @property
    def cache_path(self) -> Path:
        """The kernel cache's folder, which need not exist yet."""
        chosen = self.cache_dir or os.environ.get("TF_BLADE_CACHE") or "~/.cache/tf-blade"
        return Path(chosen).expanduser()

    @property
    def job_count(self) -> int:
        """How many compilers may run at once."""
        return self.jobs or len(os.sched_getaffinity(0))

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: str = "config") -> Config:
        """A Config from key/value pairs. Raises ConfigError on an unknown key or a bad value."""
        known = [f.name for f in dataclasses.fields(cls)]
        for key in values:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                hint = (
                    f"Did you mean '{close[0]}'?" if close else f"Known keys: {', '.join(known)}."
                )
                raise ConfigError(f"{where}: unknown key '{key}'. {hint}")
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Config:
        """Reads `key = value` lines of a TOML file (keys at the top level, as the fields above).

        Raises ConfigError if the file can't be read or isn't TOML, on an unknown key or bad value.
        """
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        try:
            with open(path, "rb") as file:
                values = tomllib.load(file)
        except OSError as error:
            raise ConfigError(f"can't read the config file '{path}': {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"'{path}' is not valid TOML: {error}.") from error
        return cls.from_dict(values, where=str(path))


def _coerce(key: str, hint: Any, value: Any) -> Any:
    """Lists become tuples and ints floats where the field says so; other types are refused."""
    choices = typing.get_args(hint) if typing.get_origin(hint) is not tuple else (hint,)
    for choice in choices or (hint,):
        if typing.get_origin(choice) is tuple:
            item = typing.get_args(choice)[0]
            if isinstance(value, list | tuple) and all(_is(v, item) for v in value):
                return tuple(value)
        elif choice is float and _is(value, int):
            return float(value)
        elif choice is str and isinstance(value, os.PathLike):
            return os.fspath(value)
        elif _is(value, choice):
            return value
    expected = str(getattr(hint, "__name__", hint) if not typing.get_args(hint) else hint)
    expected = expected.replace(", ...", ", …").replace("| None", "or None")
    raise ConfigError(f"config key '{key}' is {value!r}; it must be of type {expected}.")


def _is(value: Any, kind: type) -> bool:
    # bool is an int to Python, but `jobs = true` is a mistake.
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
