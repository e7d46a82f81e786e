"""Runs of executables outside this process: a folder of files that a program of cc/tools works off.

    folder = JobFolder(path)
    folder.add("softmax", executable, [Tensor(x)], [Tensor(y)])
    outcomes = folder.run(["qemu-aarch64-static", "run_jobs"])

The program may run under an emulator, or the folder be carried to another machine: this file needs
nothing but numpy.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

_JOBS, _CASES = "jobs.txt", "cases.json"


@dataclass(frozen=True)
class Tensor:
    """An input or an expected output: `array`, or one of shape `dims` that repeats its elements."""

    array: np.ndarray
    dims: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape if self.dims is None else self.dims


@dataclass
class Outcome:
    """What became of a job.

    reason: why the executable refused, or "". message: what is wrong with its answers, or "".
    max_error: the largest difference of floats from what was expected. details: what else the
    program said: times, the device.
    """

    name: str
    reason: str = ""
    message: str = ""
    max_error: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)


class JobFolder:
    """The folder at `path`, new or written before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True, exist_ok=True)
        cases = path / _CASES
        self._cases: list[dict[str, Any]] = json.loads(cases.read_text()) if cases.exists() else []
        self._lines = (path / _JOBS).read_text().splitlines() if cases.exists() else []

    def add(
        self,
        name: str,
        executable: bytes,
        inputs: Sequence[Tensor],
        expected: Sequence[Tensor],
        *,
        image: bytes = b"",
        repeats: int = 0,
        relative: float = 2e-5,
        absolute: float = 2e-6,
    ) -> None:
        """Adds a run.

        Args:
          executable: the container. image: of its CUDA kernels.
          expected: its outputs; floats may differ by `absolute` + `relative` times their size.
          repeats: how often to time it, where the program can.
        """
        files = [self._file(data) for data in (executable, image) if data]
        self._lines.append(" ".join(["executable", *files]))
        for tensor in inputs:
            dims = "x".join(map(str, tensor.shape)) or "-"
            content = self._file(_content(tensor.array))
            self._lines.append(f"input {_dtype_name(tensor.array.dtype)} {dims} {content}")
        outputs: list[dict[str, Any]] = []
        for tensor in expected:
            array = np.ascontiguousarray(tensor.array)
            output = {
                "dtype": array.dtype.str,
                "dims": list(tensor.shape),
                "expected": self._file(array.tobytes()),
                "file": f"{len(self._cases)}-{len(outputs)}.output",
            }
            outputs.append(output)
            self._lines.append(f"output {_dtype_name(array.dtype)} {output['file']}")
        self._lines.append(f"run {repeats}")
        self._cases.append(
            {"name": name, "outputs": outputs, "relative": relative, "absolute": absolute}
        )

    def save(self) -> None:
        (self._path / _JOBS).write_text("\n".join([*self._lines, ""]))
        (self._path / _CASES).write_text(json.dumps(self._cases))

    def run(self, command: Sequence[str]) -> list[Outcome]:
        """What `command` makes of all jobs. Raises RuntimeError if it fails."""
        self.save()
        done = subprocess.run(
            [*command, _JOBS], cwd=self._path, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: {done.stderr.strip() or done.returncode}")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return [self._outcome(*pair) for pair in zip(self._cases, lines, strict=True)]

    def _outcome(self, case: dict[str, Any], said: dict[str, Any]) -> Outcome:
        outcome = Outcome(case["name"], said.pop("reason"))
        dims, status = said.pop("dims"), said.pop("status")
        outcome.details = said
        if status != 0:
            outcome.message = outcome.reason
            return outcome
        for number, (output, shape) in enumerate(zip(case["outputs"], dims, strict=True)):
            if shape != output["dims"]:
                outcome.message = f"output {number} is of shape {shape}, not {output['dims']}"
                return outcome
            dtype = np.dtype(output["dtype"])
            got = np.fromfile(self._path / output["file"], dtype)
            (self._path / output["file"]).unlink()
            expected = np.fromfile(self._path / output["expected"], dtype)
            self._compare(outcome, case, number, got, np.resize(expected, got.shape))
        return outcome

    @staticmethod
    def _compare(
        outcome: Outcome, case: dict[str, Any], number: int, got: np.ndarray, expected: np.ndarray
    ) -> None:
        if got.dtype.kind != "f":
            right = got == expected
        else:
            right = np.isclose(got, expected, case["relative"], case["absolute"], equal_nan=True)
            with np.errstate(invalid="ignore"):
                errors = np.abs(got - expected)
            outcome.max_error = max(outcome.max_error, float(np.nanmax(errors, initial=0.0)))
        if not right.all() and not outcome.message:
            at = int(np.argmin(right))
            outcome.message = (
                f"output {number}: {(~right).sum()} elements differ, the first is number {at}: "
                f"{got[at]}, not {expected[at]}"
            )

    def _file(self, content: bytes) -> str:
        """The name of a file with this content."""
        name = hashlib.sha256(content).hexdigest()[:24]
        (self._path / name).write_bytes(content)
        return name


def _content(array: np.ndarray) -> bytes:
    if array.dtype.kind != "O":
        return np.ascontiguousarray(array).tobytes()
    return b"".join(len(s).to_bytes(4, "little") + s for s in array.reshape(-1).tolist())


def _dtype_name(dtype: np.dtype) -> str:
    """The IR's name: f32, i64, bool; objects are strings, and numpy knows nothing of bf16."""
    named = {"b": "bool", "O": "string", "V": "bf16"}
    return named.get(dtype.kind, f"{dtype.kind}{8 * dtype.itemsize}")
