"""The op library: loading it into TensorFlow, and what its clusters have done since."""

from __future__ import annotations

import ctypes
import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from tf_blade.errors import RuntimeLibraryError

_LIBRARY = Path(__file__).parent / "_lib" / "libtf_blade_ops.so"
_BUILD_INFO = _LIBRARY.with_name("build_info.json")

_lock = threading.Lock()
_module: ModuleType | None = None
_functions: ctypes.CDLL | None = None


@dataclass(frozen=True)
class ClusterCounters:
    """One cluster's counts in this process.

    Attributes:
    launches: how often its compiled form ran.
    repeated_rows: how many columns, in all launches, held the same in every row and were computed
      once: columns of lookups, and single columns of what goes into matrix products.
    fallbacks: cause -> how often its original subgraph ran instead.
    """

    launches: int = 0
    repeated_rows: int = 0
    fallbacks: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Counters:
    """What happened to all clusters in this process; `clusters` maps a name to its counts."""

    clusters: dict[str, ClusterCounters] = field(default_factory=dict)

    @property
    def launches(self) -> int:
        """Launches of all clusters."""
        return sum(cluster.launches for cluster in self.clusters.values())

    @property
    def fallbacks(self) -> dict[str, int]:
        """Fallbacks of all clusters: cause -> count."""
        total: Counter[str] = Counter()
        for cluster in self.clusters.values():
            total.update(cluster.fallbacks)
        return dict(total)


def library_path() -> Path:
    """Where the op library is (or should be): for servers and C++ programs that load it."""
    return _LIBRARY


def build_info() -> dict[str, object]:
    """What the op library was built for: `tensorflow`, `definitions`, `python`, `compiler`.

    Raises: RuntimeLibraryError if it was not built.
    """
    try:
        info = json.loads(_BUILD_INFO.read_text())
    except FileNotFoundError:
        raise RuntimeLibraryError(
            f"the op library is missing: {_LIBRARY} was not built. In a checkout run "
            "'python setup.py build_ext --inplace', elsewhere 'pip install --no-build-isolation "
            "tf-blade'"
        ) from None
    except ValueError as error:
        raise RuntimeLibraryError(
            f"{_BUILD_INFO} is damaged ({error}): build tf-blade again"
        ) from None
    assert isinstance(info, dict)
    return info


def load_ops() -> ModuleType:
    """Registers our ops with TensorFlow, once; returns the module of their Python wrappers.

    Raises: RuntimeLibraryError if the library is missing, was built for another TensorFlow, or
        can't be opened.
    """
    global _module, _functions
    with _lock:
        if _module is not None:
            return _module
        built_for = str(build_info()["tensorflow"])

        import tensorflow as tf

        _check_version(built_for, tf.__version__)
        try:
            module = tf.load_op_library(str(_LIBRARY))
        except (tf.errors.OpError, OSError, RuntimeError) as error:
            raise RuntimeLibraryError(
                f"{_LIBRARY} can't be opened: {error}. It was built for TensorFlow {built_for}: "
                "build tf-blade again"
            ) from error
        functions = ctypes.CDLL(str(_LIBRARY))
        functions.tf_blade_counters_json.restype = ctypes.c_char_p
        functions.tf_blade_reset_counters.restype = None
        _module, _functions = module, functions
        return module


def counters() -> Counters:
    """Launches and fallbacks of every cluster since the process began (or `reset_counters()`)."""
    if _functions is None:
        return Counters()
    text = _functions.tf_blade_counters_json().decode(errors="replace")
    return Counters({name: ClusterCounters(**counts) for name, counts in json.loads(text).items()})


def reset_counters() -> None:
    """Sets all counters to zero."""
    if _functions is not None:
        _functions.tf_blade_reset_counters()


def _check_version(built_for: str, running: str) -> None:
    """TensorFlow's C++ interface changes with every minor version."""
    if built_for.split(".")[:2] != running.split(".")[:2]:
        raise RuntimeLibraryError(
            f"the op library was built for TensorFlow {built_for}, this is TensorFlow {running}. "
            f"Install TensorFlow {built_for}, or build tf-blade again: 'pip install "
            "--no-build-isolation --force-reinstall --no-deps tf-blade' ('python setup.py "
            "build_ext --inplace' in a checkout)"
        )
