"""Builds the C++ parts with CMake against the installed TensorFlow.

    python setup.py build_ext --inplace     # development: into tf_blade/, incremental
    pip install --no-build-isolation .      # users: against their own TensorFlow

What is built: tf_blade/_lib/libtf_blade_ops.so (the op library), tf_blade/_runtime*.so (the Python
module), tf_blade/_lib/build_info.json (what they were built for), tf_blade/_lib/*_abi.h (the
headers of generated code).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_namespace_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent

# Printed by a Python that has TensorFlow: importing it here would slow every build down.
ASK_TENSORFLOW = """
import json, sys
import tensorflow as tf
flags = tf.sysconfig.get_compile_flags()
json.dump({
    "tensorflow": tf.__version__,
    "include": tf.sysconfig.get_include(),
    "library_dir": tf.sysconfig.get_lib(),
    "link_flags": tf.sysconfig.get_link_flags(),
    "definitions": [flag[2:] for flag in flags if flag.startswith("-D")],
}, sys.stdout)
"""


def tensorflow_config(cache: Path) -> dict:
    """How to compile against the installed TensorFlow; remembered until another is installed."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise SystemExit("tf-blade is built against TensorFlow: pip install tensorflow first")
    key = f"{spec.origin} {os.stat(spec.origin).st_mtime_ns} {sys.version}"
    if cache.exists():
        config = json.loads(cache.read_text())
        if config.get("key") == key:
            return config
    answer = subprocess.run(
        [sys.executable, "-c", ASK_TENSORFLOW],
        check=True,
        stdout=subprocess.PIPE,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    config = {"key": key, **json.loads(answer.stdout)}
    cache.write_text(json.dumps(config))
    return config


def tensorflow_library(config: dict) -> Path:
    """libtensorflow_framework.so.N, named in the link flags as -l:NAME."""
    for flag in config["link_flags"]:
        if flag.startswith("-l:"):
            return Path(config["library_dir"]) / flag[3:]
    raise SystemExit(f"can't find TensorFlow's library in its link flags: {config['link_flags']}")


class CMakeBuild(build_ext):
    """Runs CMake and Ninja, then puts what they made where Python expects it."""

    def run(self) -> None:
        build = ROOT / "build" / "dev" if self.inplace else Path(self.build_temp).resolve()
        build.mkdir(parents=True, exist_ok=True)
        config = tensorflow_config(build / "tensorflow.json")
        import pybind11

        out = build / "out"
        definitions = {
            "CMAKE_BUILD_TYPE": "Release",
            "BLADE_OUTPUT_DIR": out,
            "TF_INCLUDE_DIR": config["include"],
            "TF_LIBRARY": tensorflow_library(config),
            "TF_VERSION": config["tensorflow"],
            "TF_COMPILE_DEFINITIONS": ";".join(config["definitions"]),
            "pybind11_DIR": pybind11.get_cmake_dir(),
            "Python_EXECUTABLE": sys.executable,
        }
        arguments = [f"-D{name}={value}" for name, value in definitions.items()]
        call("cmake", "-S", ROOT, "-B", build, "-G", "Ninja", *arguments)
        call("cmake", "--build", build, *(["-j", self.parallel] if self.parallel else []))

        library = out / "_lib"
        for header in ("blade_abi.h", "cuda/cuda_abi.h"):
            shutil.copy(ROOT / "cc" / header, library)
        info = {
            "tensorflow": config["tensorflow"],
            "definitions": config["definitions"],
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "compiler": compiler_name(build),
        }
        (library / "build_info.json").write_text(json.dumps(info, indent=1) + "\n")
        target = ROOT if self.inplace else Path(self.build_lib).resolve()
        for file in (f for f in out.rglob("*") if f.is_file()):
            to = target / "tf_blade" / file.relative_to(out)
            to.parent.mkdir(parents=True, exist_ok=True)
            replace(file, to)

    def get_outputs(self) -> list[str]:
        return []


def call(*command: object) -> None:
    """Runs a command whose output says what went wrong."""
    try:
        subprocess.run([str(word) for word in command], check=True)
    except FileNotFoundError:
        raise SystemExit("cmake isn't installed: pip install cmake ninja") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"the C++ build failed (exit code {error.returncode}), see above"
        ) from None


def replace(source: Path, target: Path) -> None:
    """Copies to a new file: a process that has the old one mapped must keep it."""
    if target.exists() and target.read_bytes() == source.read_bytes():
        return
    staging = target.with_name(target.name + ".new")
    shutil.copy2(source, staging)
    staging.replace(target)


def compiler_name(build: Path) -> str:
    """E.g. "GNU 12.2.0", as CMake found it."""
    values = {}
    for file in build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"):
        for line in file.read_text().splitlines():
            for name in ("CMAKE_CXX_COMPILER_ID", "CMAKE_CXX_COMPILER_VERSION"):
                if line.startswith(f"set({name} "):
                    values[name] = line.split('"')[1]
    return " ".join(values[name] for name in sorted(values))


setup(
    packages=find_namespace_packages(include=["tf_blade", "tf_blade.*"]),
    package_data={"": ["*.h"], "tf_blade": ["_lib/*", "_runtime*.so"]},
    ext_modules=[Extension("tf_blade._runtime", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
