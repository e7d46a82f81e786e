"""Other ways to run a SavedModel, as rivals of the `models` benchmark.

A peer says which packages it needs, converts a model once (`convert`), and binds one request
(`open`) to a call with `run()` and `outputs()`, like `session.Call`. Whatever it can't do is an
exception whose text is the reason. All use one thread a core, as TensorFlow does.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.cases import ModelCase
from benchmarks.columns.variants import VARIANTS, session_config

TENSORFLOW = "tf"  # the original, which is always there
_OPSET = 18
_REASON_LENGTH = 300


class Bound(Protocol):
    """A model with its feeds."""

    def run(self) -> object: ...
    def outputs(self) -> dict[str, np.ndarray]: ...


class PeerError(Exception):
    """Why a peer can't run a model."""


class Peer:
    """One way of running a model. Attributes: its name, and the packages it needs."""

    name = ""
    packages: tuple[str, ...] = ()

    def missing(self) -> str:
        """The packages that aren't installed, "" if none."""
        return ", ".join(p for p in self.packages if importlib.util.find_spec(p) is None)

    def convert(self, case: ModelCase, folder: Path) -> None:
        """Writes what `open` reads into the folder. Raises PeerError."""

    def open(
        self, case: ModelCase, folder: Path, feeds: Mapping[str, np.ndarray]
    ) -> contextlib.AbstractContextManager[Bound]:
        """The model loaded and bound to the feeds."""
        raise NotImplementedError


class Xla(Peer):
    """TensorFlow with auto-clustering; the process needs `environment(["xla"])`."""

    name = "xla"

    @contextlib.contextmanager
    def open(
        self, case: ModelCase, folder: Path, feeds: Mapping[str, np.ndarray]
    ) -> Iterator[Bound]:
        from benchmarks.session import Session

        with Session(case.saved_model, config=session_config(VARIANTS["xla"])) as session:
            yield session.bind(case.signature, feeds)


class OnnxRuntime(Peer):
    """ONNX Runtime's CPU provider, on what tf2onnx makes of the model."""

    name = "ort"
    packages = ("onnx", "tf2onnx", "onnxruntime")

    def convert(self, case: ModelCase, folder: Path) -> None:
        arguments = ["--saved-model", str(case.saved_model), "--signature_def", case.signature]
        arguments += ["--tag", "serve", "--opset", str(_OPSET), "--output", str(_onnx(folder))]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.to_onnx", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        said = done.stdout + done.stderr
        unsupported = [line for line in said.splitlines() if "Unsupported ops" in line]
        if unsupported:  # it goes on all the same, to a file that can't be loaded
            raise PeerError("tf2onnx: " + unsupported[0].partition("Unsupported ops")[2][2:])
        if done.returncode != 0 or not _onnx(folder).exists():
            lines = said.strip().splitlines() or ["no output"]
            raise PeerError(f"tf2onnx: {lines[-1]}")

    @contextlib.contextmanager
    def open(
        self, case: ModelCase, folder: Path, feeds: Mapping[str, np.ndarray]
    ) -> Iterator[Bound]:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = len(os.sched_getaffinity(0))
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Its threads go on spinning after a run, and would take the cores from the next rival.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(
            str(_onnx(folder)), options, providers=["CPUExecutionProvider"]
        )
        names = _Names(case)
        given = {x.name: feeds[names.input(x.name)] for x in session.get_inputs()}
        yield _OrtCall(session, given, [names.output(x.name) for x in session.get_outputs()])


class _OrtCall:
    def __init__(self, session: Any, given: Mapping[str, np.ndarray], outputs: list[str]) -> None:
        import onnxruntime

        self._outputs, self._session = outputs, session
        self._feeds = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))
            if value.dtype.kind != "O" and value.ndim
            else _ort_strings(value)
            for name, value in given.items()
        }
        self._has_strings = any(isinstance(v, np.ndarray) for v in self._feeds.values())

    def run(self) -> object:
        if self._has_strings:
            return self._session.run(None, self._feeds)
        return self._session.run_with_ort_values(None, self._feeds)

    def outputs(self) -> dict[str, np.ndarray]:
        found: Any = self.run()
        arrays = [x if isinstance(x, np.ndarray) else x.numpy() for x in found]
        return dict(zip(self._outputs, arrays, strict=True))


def _ort_strings(value: np.ndarray) -> np.ndarray:
    if value.dtype.kind != "O":
        return value
    texts = [x.decode(errors="replace") for x in value.ravel()]
    return np.array(texts, dtype=object).reshape(value.shape)


class OpenVino(Peer):
    """OpenVINO's CPU plugin, which reads SavedModels itself; in f32, set to the lowest latency."""

    name = "openvino"
    packages = ("openvino",)

    @contextlib.contextmanager
    def open(
        self, case: ModelCase, folder: Path, feeds: Mapping[str, np.ndarray]
    ) -> Iterator[Bound]:
        import openvino

        core = openvino.Core()
        properties = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0)),
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = core.compile_model(core.read_model(str(case.saved_model)), "CPU", properties)
        names, request = _Names(case), compiled.create_infer_request()
        for port in compiled.inputs:
            value = feeds[names.input(port.get_any_name())]
            tensor = openvino.Tensor(np.ascontiguousarray(value).reshape(value.shape))
            request.set_tensor(port, tensor)
        outputs = [names.output(port.get_any_name()) for port in compiled.outputs]
        yield _OpenVinoCall(request, compiled.outputs, outputs)


class _OpenVinoCall:
    def __init__(self, request: Any, ports: list[Any], outputs: list[str]) -> None:
        self._request, self._ports, self._outputs = request, ports, outputs
        self.run = request.infer

    def outputs(self) -> dict[str, np.ndarray]:
        self._request.infer()
        values = [np.array(self._request.get_tensor(port).data) for port in self._ports]
        return dict(zip(self._outputs, values, strict=True))


class _Names:
    """What the signature calls the tensors that a converter names after the graph's."""

    def __init__(self, case: ModelCase) -> None:
        from tensorflow.core.protobuf import saved_model_pb2

        content = (case.saved_model / "saved_model.pb").read_bytes()
        (found, *_) = [
            meta.signature_def[case.signature]
            for meta in saved_model_pb2.SavedModel.FromString(content).meta_graphs
            if case.signature in meta.signature_def
        ]
        self._inputs, self._outputs = _by_any_name(found.inputs), _by_any_name(found.outputs)

    def input(self, name: str) -> str:
        """Raises PeerError for a tensor that is no input of the signature."""
        return _look_up(self._inputs, name, "input")

    def output(self, name: str) -> str:
        return _look_up(self._outputs, name, "output")


def _by_any_name(tensors: Mapping[str, Any]) -> dict[str, str]:
    by_tensor = {
        name: key for key, info in tensors.items() for name in (info.name, info.name.split(":")[0])
    }
    return by_tensor | {key: key for key in tensors}


def _look_up(known: Mapping[str, str], name: str, what: str) -> str:
    for candidate in (name, name.split(":")[0]):
        if candidate in known:
            return known[candidate]
    # What becomes an argument of a function is in lower case.
    found = {key for other, key in known.items() if other.lower() == name.lower()}
    if len(found) == 1:
        return found.pop()
    raise PeerError(f"the converted model has an {what} '{name}' that the signature hasn't")


def _onnx(folder: Path) -> Path:
    return folder / "model.onnx"


PEERS: dict[str, Peer] = {peer.name: peer for peer in (Xla(), OnnxRuntime(), OpenVino())}


def parse(text: str) -> list[str]:
    """The peers in a comma-separated list; `tf` is always a rival and may be named or not.

    Raises ValueError for a name that is none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name != TENSORFLOW and name not in PEERS]
    if unknown:
        known = ", ".join([TENSORFLOW, *PEERS])
        raise ValueError(f"no peer called {', '.join(unknown)}; there are {known}")
    return [name for name in PEERS if name in names]


def reason(error: BaseException) -> str:
    """An exception in one line: what a converter says at length."""
    lines = [line.strip() for line in str(error).splitlines()]
    # OpenVINO's first lines say where in its own source it stopped.
    noise = ("Exception from", "Check '", "FrontEnd API failed", "Summary:", "Model wasn't")
    told = [line for line in lines if line and not line.startswith(noise)]
    text = "; ".join(told) or type(error).__name__
    return text if len(text) <= _REASON_LENGTH else text[: _REASON_LENGTH - 1] + "…"
