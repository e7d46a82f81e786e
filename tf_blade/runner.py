"""Loads a SavedModel folder and calls its signatures with numpy arrays."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import config_pb2, saved_model_pb2
from tensorflow.python.eager import context

from tf_blade.c_session import Call, Session
from tf_blade.errors import SavedModelError, SignatureError, TfBladeError
from tf_blade.garbage import give_back
from tf_blade.saved_model.signatures import read_signatures
from tf_blade.servable import why_not_servable
from tf_blade.signatures import load_ops_for

Feeds = Mapping[str, Any]  # input name -> numpy array (or tf.SparseTensor)
Answers = dict[str, np.ndarray]


class Model(Protocol):
    """What can be asked for answers."""

    def run(self, signature: str, feeds: Feeds) -> Answers: ...


class StoredModel(Model, Protocol):
    """One that lies in a SavedModel folder."""

    directory: str
    tags: tuple[str, ...]


class Runner:
    """A SavedModel folder, loaded fresh: variables are as they were saved.

    Args:
      directory: the SavedModel's folder.
      tags: tags of its MetaGraph.
      grappler: whether TensorFlow may optimise the graph. What it takes for a large one is wasted
        if only a few answers are wanted.
      in_session: whether it runs in a C++ session, as in a server, or in TensorFlow's Python
        functions. None: models of the TF1 format in a session, because Python's loader makes an
        object for every node, several times; others in Python, where their object graph is.

    Attributes:
      in_session: where it runs.
      grappler: as given.

    Raises:
      SavedModelError: TensorFlow can't load the model.
      RuntimeLibraryError: the model holds our op and its library can't be loaded.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        tags: tuple[str, ...],
        grappler: bool = True,
        in_session: bool | None = None,
    ) -> None:
        self.directory = os.fspath(directory)
        self.tags = tags
        self.grappler = grappler
        if in_session is None:
            in_session = prefers_session(self.directory, tags)
        self.in_session = in_session
        self._session: Session | None = None
        self._model: Any = None
        if in_session:
            self._session = load_session(self.directory, tags, grappler)
        else:
            self._model = load_saved_model(self.directory, tags)

    def function(self, signature: str) -> Any:
        """The concrete function of a signature. Raises SignatureError if there is none."""
        signatures = self._model.signatures
        self._find(signature, signatures)
        return signatures[signature]

    def run(self, signature: str, feeds: Feeds) -> Answers:
        """Calls a signature once. Composite outputs come as their parts, `name/0`, `name/1` ….

        Raises what TensorFlow raises when the model fails on these feeds.
        """
        if self._session is not None:
            return dict(sorted(self._bind(signature, feeds).outputs().items()))
        function, tensors = self.function(signature), to_tensors(feeds)
        with contextlib.nullcontext() if self.grappler else _without_grappler():
            results = function(**tensors)
        answers: Answers = {}
        for name, value in results.items():
            parts = tf.nest.flatten(value, expand_composites=True)
            for i, part in enumerate(parts):
                answers[name if len(parts) == 1 else f"{name}/{i}"] = part.numpy()
        return dict(sorted(answers.items()))

    def call(self, signature: str, feeds: Feeds) -> Callable[[], object]:
        """A call to be timed: feeds are tensors already, results are waited for on the CPU."""
        if self._session is not None:
            return self._bind(signature, feeds).run
        function, tensors = self.function(signature), to_tensors(feeds)
        return lambda: function(**tensors)

    def close(self) -> None:
        """Gives the model's memory back; it can't be called any more."""
        if self._session is not None:
            self._session.close()
            self._session = None
        self._model = None
        give_back()

    def _bind(self, signature: str, feeds: Feeds) -> Call:
        assert self._session is not None
        self._find(signature, self._session.signatures)
        arrays = {n: v.numpy() if isinstance(v, tf.Tensor) else v for n, v in feeds.items()}
        return self._session.bind(signature, arrays)

    def _find(self, signature: str, known: Iterable[str]) -> None:
        if signature not in known:
            has = ", ".join(known)
            raise SignatureError(f"'{self.directory}' has no signature '{signature}' (has: {has}).")


class Recorded:
    """A model that is asked every question once, so that it need not stay in memory.

    Only for a model that keeps no state.

    Args:
      runner: gives the model when a question is new.
    """

    def __init__(self, runner: Callable[[], Runner]) -> None:
        self._runner = runner
        # By signature and identity of the feeds, which are kept.
        self._answers: dict[tuple[str, int], tuple[Feeds, Answers]] = {}

    def run(self, signature: str, feeds: Feeds) -> Answers:
        key = signature, id(feeds)
        if key not in self._answers:
            self._answers[key] = feeds, self._runner().run(signature, feeds)
        return dict(self._answers[key][1])


def to_tensors(feeds: Feeds) -> dict[str, Any]:
    return {
        name: tf.constant(value) if isinstance(value, np.ndarray) else value
        for name, value in feeds.items()
    }


def load_saved_model(directory: str, tags: tuple[str, ...] | None) -> Any:
    """`tf.saved_model.load`, with our op library loaded first if the model needs it.

    Raises SavedModelError if TensorFlow can't load the model, RuntimeLibraryError if our library
    can't be loaded.
    """
    load_ops_for(directory)
    try:
        return tf.saved_model.load(directory, tags=list(tags) if tags else None)
    except TfBladeError:
        raise
    except Exception as error:  # TensorFlow raises anything here, from KeyError to OpError
        raise SavedModelError(
            f"TensorFlow can't load '{directory}': {first_line(error)}"
        ) from error


def load_session(directory: str, tags: tuple[str, ...], grappler: bool) -> Session:
    """A SavedModel in a C++ session, with our op library loaded first if the model needs it.

    Raises SavedModelError if TensorFlow can't load the model, RuntimeLibraryError if our library
    can't be loaded.
    """
    load_ops_for(directory)
    config = config_pb2.ConfigProto()
    config.CopyFrom(context.context().config)  # threads and devices, as the user set them
    if not grappler:
        _leave_graphs_alone(config)
    try:
        return Session(directory, tags, config.SerializeToString())
    except RuntimeError as error:
        raise SavedModelError(
            f"TensorFlow can't load '{directory}': {first_line(error)}"
        ) from error


@contextlib.contextmanager
def _without_grappler() -> Iterator[None]:
    """Within this, functions that this thread calls for the first time run as they are written."""
    current = context.context()
    before = current.function_call_options
    config = config_pb2.ConfigProto.FromString(before.config_proto_serialized)
    _leave_graphs_alone(config)
    current.function_call_options = context.FunctionCallOptions(before.executor_type, config)
    try:
        yield
    finally:
        current.function_call_options = before


def _leave_graphs_alone(config: config_pb2.ConfigProto) -> None:
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = config_pb2.OptimizerOptions.L0


def prefers_session(directory: str, tags: tuple[str, ...]) -> bool:
    """Whether the model is of the TF1 format and a session runs every signature of it.

    Where a placeholder lacks a value, Python's loader says which.
    """
    try:
        data = Path(directory, "saved_model.pb").read_bytes()
        metas = saved_model_pb2.SavedModel.FromString(data).meta_graphs
    except (OSError, DecodeError):
        return False
    chosen = [m for m in metas if set(m.meta_info_def.tags) == set(tags)]
    if len(chosen) != 1 or chosen[0].object_graph_def.nodes:
        return False
    signatures = read_signatures(chosen[0]).values()
    return not any(why_not_servable(chosen[0].graph_def, found) for found in signatures)


def first_line(error: BaseException, limit: int = 300) -> str:
    """The part of an exception's message that fits in a sentence."""
    message = str(getattr(error, "message", None) or error)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    if text.startswith("Graph execution error"):
        # TensorFlow puts stack traces first; what happened stands before the failing node's name.
        ends = [i for i, line in enumerate(lines) if line.startswith("[[{{")]
        reason = lines[ends[0] - 1] if ends and ends[0] else lines[-1]
        text = re.sub(r"\s*\[Op:\w+\]$", "", reason.partition("[[{{")[0].strip())
        node = re.search(r"\{\{node (.+?)\}\}", message)
        text += f" (node '{node[1]}')" if node else ""
    elif text.endswith(":") and len(lines) > 1:
        text = f"{text} {lines[1]}"
    return text if len(text) <= limit else text[: limit - 1] + "…"
