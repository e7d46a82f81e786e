"""CUDA's compiler: finding it, and images of kernels for several GPUs."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tf_blade.compiler.build.build import TIMEOUT_SECONDS, first_message
from tf_blade.errors import CompileError, CompilerNotFoundError

# Compute capabilities, as nvcc names them: A100 and H100. Later ones run the last one's PTX.
ARCHITECTURES = ("80", "90")
# As for processors: products and sums are rounded one by one.
_FLAGS = ("-std=c++17", "-O3", "-fmad=false", "-diag-suppress=177")


@functools.cache
def find_nvcc() -> str:
    """The path of nvcc: $NVCC, on the PATH, or where CUDA is installed.

    Raises: CompilerNotFoundError.
    """
    for candidate in (os.environ.get("NVCC", ""), "nvcc", "/usr/local/cuda/bin/nvcc"):
        found = shutil.which(candidate) if candidate else None
        if found:
            return found
    raise CompilerNotFoundError("nvcc was not found. Install CUDA's compiler, or set $NVCC")


def build_image(kernels: str, architectures: Sequence[str] = ARCHITECTURES) -> bytes:
    """Compiles CUDA C++ for the given GPUs into one image, which the driver can load.

    Raises: CompilerNotFoundError, or CompileError with nvcc's first message.
    """
    nvcc = find_nvcc()
    with tempfile.TemporaryDirectory(prefix="tf-blade-") as folder:
        source, image = Path(folder, "kernels.cu"), Path(folder, "kernels.fatbin")
        source.write_text(kernels)
        targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
        last = architectures[-1]
        targets.append(f"-gencode=arch=compute_{last},code=compute_{last}")
        command = [nvcc, *_FLAGS, *targets, "-fatbin", str(source), "-o", str(image)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"{nvcc}: {error}") from error
        if done.returncode != 0:
            raise CompileError(f"{nvcc}: {first_message(done.stderr or done.stdout)}")
        return image.read_bytes()
