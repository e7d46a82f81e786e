"""The machine and the TensorFlow that numbers were measured with."""

from __future__ import annotations

import ctypes
import os
import platform
import resource

from tf_blade.report import Baseline


def baseline() -> Baseline:
    """TensorFlow's version and settings, and the CPU. Imports TensorFlow."""
    import tensorflow as tf

    cpus = available_cpus()
    return Baseline(
        tensorflow=tf.__version__,
        onednn=onednn_enabled(),
        intra_op_threads=tf.config.threading.get_intra_op_parallelism_threads() or cpus,
        inter_op_threads=tf.config.threading.get_inter_op_parallelism_threads() or cpus,
        cpu=cpu_model(),
        cpu_count=cpus,
    )


def onednn_enabled() -> bool:
    """Whether TensorFlow runs its oneDNN kernels (TF_ENABLE_ONEDNN_OPTS, or its own default)."""
    import tensorflow as tf

    library = os.path.join(os.path.dirname(tf.__file__), "libtensorflow_framework.so.2")
    try:
        # tensorflow::IsMKLEnabled(): no Python function tells what the kernels themselves ask.
        enabled = ctypes.CDLL(library)["_ZN10tensorflow12IsMKLEnabledEv"]
    except (OSError, AttributeError):
        return os.environ.get("TF_ENABLE_ONEDNN_OPTS", "0").lower() in ("1", "true")
    enabled.restype = ctypes.c_bool
    return bool(enabled())


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def cpu_model() -> str:
    """The CPU's model name, or the architecture where the system doesn't tell."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def cpu_features() -> list[str]:
    """Instruction set extensions by the system's names, sorted."""
    return sorted((_cpuinfo("flags") or _cpuinfo("Features")).split())


def cpu_target() -> str:
    """The best code generation target that this CPU runs, or "" if it runs none."""
    features = set(cpu_features())
    if platform.machine() in ("aarch64", "arm64"):
        return "aarch64"
    v3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
    v4 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
    if not v3 <= features:
        return ""
    return "x86-64-v4" if v4 <= features else "x86-64-v3"


def peak_memory_bytes() -> int:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cpuinfo(key: str) -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    return value.strip()
    except OSError:
        pass
    return ""
