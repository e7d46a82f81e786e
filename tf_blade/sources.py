"""Turns everything that `optimize` accepts into a SavedModel folder."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2

from tf_blade.errors import InputError, TfBladeError
from tf_blade.function_source import save_function
from tf_blade.graph_def_source import save_graph_def
from tf_blade.runner import first_line

_ACCEPTED = (
    "the path of a SavedModel folder, an object from tf.saved_model.load, a Keras model, a "
    "tf.function or ConcreteFunction, or a pair (frozen GraphDef, output names)"
)


@dataclass(frozen=True)
class Source:
    """A SavedModel folder to read from.

    Attributes:
      directory: the folder.
      description: where the model came from, for messages and the report.
      temporary: the folder was made from an object and goes away afterwards.
    """

    directory: Path
    description: str
    temporary: bool


@contextlib.contextmanager
def open_source(model: Any) -> Iterator[Source]:
    """Yields a SavedModel folder for any accepted kind of model.

    Args:
      model: one of
        - the path of a SavedModel folder, of TF1 or TF2 format (used in place, never changed);
        - an object from `tf.saved_model.load`, or a tf.Module with `signatures`: saved with them;
        - a Keras 3 model (`model.export`) or tf_keras model (`model.save`);
        - a `tf.function` with an input_signature or called once, or a ConcreteFunction: becomes
          signature "serving_default" with the function's argument names as inputs, and
          "output_0", "output_1" … (or a returned dict's keys) as outputs;
        - a frozen GraphDef: `(graph_def, output_names)`, or a dict with "graph_def", "outputs" and
          optionally "inputs"; `graph_def` is a GraphDef proto or a .pb file's path, names are
          tensor or node names; inputs are its placeholders unless named. Becomes signature
          "serving_default" with these names.

    Raises InputError for anything else, or if the model can't be saved.
    """
    if isinstance(model, str | os.PathLike):
        yield Source(Path(model), str(model), temporary=False)
        return
    description, save = _saver(model)
    with tempfile.TemporaryDirectory(prefix="tf_blade_source_") as folder:
        directory = Path(folder) / "model"
        try:
            save(str(directory))
        except TfBladeError:
            raise
        except Exception as error:  # savers raise anything, mostly about the user's model
            raise InputError(
                f"can't save the {description} as a SavedModel: {first_line(error)} "
                "Save it yourself and pass the folder."
            ) from error
        yield Source(directory, description, temporary=True)


def _saver(model: Any) -> tuple[str, Any]:
    """What the object is, and a function that saves it to a folder."""
    keras = _loaded_class("keras", "Model")
    if keras is not None and isinstance(model, keras):
        if hasattr(model, "get_metrics_result"):  # Keras 3; the keras of TF <= 2.15 is tf_keras
            return "Keras model", lambda path: _export_keras(model, path)
        return "Keras model", lambda path: _save_tf_keras(model, path)
    tf_keras = _loaded_class("tf_keras", "Model")
    if tf_keras is not None and isinstance(model, tf_keras):
        return "tf_keras model", lambda path: _save_tf_keras(model, path)
    if isinstance(model, tf.types.experimental.ConcreteFunction | _polymorphic_type()):
        return "function", lambda path: save_function(model, path)
    if isinstance(model, graph_pb2.GraphDef):
        raise InputError(
            "a GraphDef alone doesn't say what its outputs are. "
            "Pass a pair: (graph_def, ['output_name', …])."
        )
    if isinstance(model, tuple) and len(model) == 2:
        graph_def, outputs = model
        return "GraphDef", lambda path: save_graph_def(graph_def, outputs, None, path)
    if isinstance(model, dict) and "graph_def" in model:
        unknown = set(model) - {"graph_def", "outputs", "inputs"}
        if unknown or "outputs" not in model:
            raise InputError(
                "a GraphDef source is a dict with the keys 'graph_def', 'outputs' and, if you "
                f"like, 'inputs'; this one has: {', '.join(sorted(map(str, model)))}."
            )
        graph_def, outputs, inputs = model["graph_def"], model["outputs"], model.get("inputs")
        return "GraphDef", lambda path: save_graph_def(graph_def, outputs, inputs, path)
    if isinstance(model, tf.__internal__.tracking.Trackable):
        signatures = getattr(model, "signatures", None)
        if not signatures:
            raise InputError(
                f"the {type(model).__name__} has no signatures to call. Pass one of its "
                "tf.functions, or save it with tf.saved_model.save(…, signatures=…)."
            )
        return "loaded SavedModel", lambda path: _save_loaded(model, signatures, path)
    raise InputError(f"can't optimise a {type(model).__name__}. Pass {_ACCEPTED}.")


def _loaded_class(module: str, name: str) -> type | None:
    """A class of a module that somebody has imported: whoever holds its objects has."""
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) else None


def _polymorphic_type() -> type:
    kind: type = tf.types.experimental.GenericFunction
    return kind


def _export_keras(model: Any, path: str) -> None:
    if not model.built:
        raise InputError("the Keras model has no weights yet. Call it once on sample data first.")
    model.export(path, verbose=False)


def _save_tf_keras(model: Any, path: str) -> None:
    if not model.built or (model.inputs is None and model._saved_model_inputs_spec is None):
        raise InputError(
            "the tf_keras model has no input shapes yet. Call it once on sample data first."
        )
    model.save(path, save_format="tf", include_optimizer=False)


def _save_loaded(model: Any, signatures: Any, path: str) -> None:
    # The object doesn't remember its folder, and its variables may have changed since.
    for signature in signatures.values():
        for op in signature.graph.get_operations():
            if op.type in ("VariableV2", "Variable"):
                raise InputError(
                    f"the loaded model has a reference variable ('{op.name}'), which TensorFlow "
                    "can't save again. Pass its SavedModel folder instead."
                )
    tf.saved_model.save(model, path, signatures=dict(signatures))
