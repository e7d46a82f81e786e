"""The result of `optimize`: a SavedModel folder that can be called like the original."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from tf_blade.errors import SignatureError
from tf_blade.output_dir import atomic_output, check_output
from tf_blade.report import REPORT_FILE, Report
from tf_blade.runner import load_saved_model
from tf_blade.signatures import (
    choose_signatures,
    default_signature,
    read_meta_graph,
)


class OptimizedModel:
    """A SavedModel that runs optimised. Made by `tf_blade.optimize` and `tf_blade.load`.

    Attributes:
      directory: its folder. Without an output_dir it is temporary and goes with this object.
      report: what was done (an empty Report for a folder that `optimize` didn't write).
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        report: Report,
        tags: tuple[str, ...] | None = None,
        *,
        temporary: bool = False,
    ) -> None:
        self.directory = Path(directory)
        self.report = report
        self._tags = tags
        self._loaded: Any = None
        self._call_forms: dict[str, _CallForm | None] = {}
        if temporary:
            weakref.finalize(self, shutil.rmtree, str(self.directory), ignore_errors=True)

    @property
    def model(self) -> Any:
        """The object that `tf.saved_model.load` gives, loaded on first use.

        Raises SavedModelError if TensorFlow can't load it, RuntimeLibraryError if the op library
        can't be loaded.
        """
        if self._loaded is None:
            self._loaded = load_saved_model(str(self.directory), self._tags)
        return self._loaded

    @property
    def signatures(self) -> Mapping[str, Any]:
        """Signature name -> concrete function taking keyword tensors, returning a dict."""
        found: Mapping[str, Any] = self.model.signatures
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the signature "serving_default" (else the first one).

        Takes either the original's own arguments, where the SavedModel records them (Keras models
        and functions do), or the signature's inputs as a dict or as keywords; a lone input may be
        passed as it is. Returns the original's output structure where the SavedModel records it,
        else a dict of output name -> tensor.

        Raises SignatureError if the arguments don't fit.
        """
        name = default_signature(self.signatures)
        function = self.signatures[name]
        specs = function.structured_input_signature[1]
        if name not in self._call_forms:
            self._call_forms[name] = _find_call_form(self.model, function)
        form = self._call_forms[name]
        feeds = _bind(args, kwargs, specs, form, name)
        results = function(**feeds)
        if form is None:
            return results
        return tf.nest.pack_sequence_as(
            form.output_structure, [results[key] for key in form.output_names], True
        )

    def save(self, directory: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Writes a copy of the SavedModel folder, whole or not at all.

        Raises OutputExistsError if the folder exists and overwrite is off, InputError if it is
        inside this model's own folder.
        """
        target = Path(directory)
        check_output(target, self.directory, overwrite)
        with atomic_output(target, overwrite) as staging:
            shutil.copytree(self.directory, staging, dirs_exist_ok=True)

    def __repr__(self) -> str:
        return f"OptimizedModel('{self.directory}', {self.report.outcome})"


def load(
    directory: str | os.PathLike[str], tags: tuple[str, ...] | list[str] | None = None
) -> OptimizedModel:
    """Loads a SavedModel folder (TF1 or TF2 format) that `optimize` wrote, or any other.

    Args:
      directory: the folder.
      tags: tags of the MetaGraph; None: the only one, or the one tagged "serve".

    Raises:
      SavedModelError: not a SavedModel, damaged, or TensorFlow can't load it.
      RuntimeLibraryError: the op library is missing or was built for another TensorFlow.
    """
    meta_graph = read_meta_graph(directory, tags)
    choose_signatures(meta_graph, None)
    model = OptimizedModel(directory, read_report(Path(directory)), meta_graph.tags)
    _ = model.model  # a model that can't be loaded says so here, not at the first call
    return model


def read_report(directory: Path) -> Report:
    """The report that `optimize` left in a SavedModel folder; an empty one if there is none."""
    try:
        return Report.from_json((directory / REPORT_FILE).read_text())
    except (OSError, ValueError, TypeError):
        return Report(source=str(directory), outcome="unchanged")


# -- the original's own arguments ---------------------------------------------------------


@dataclass(frozen=True)
class _CallForm:
    """How the original was called, as recorded in one of the SavedModel's functions.

    Attributes:
      arguments: its positional arguments; leaves are TensorSpecs named as the signature's inputs,
        or plain values that were fixed when it was traced (training=False).
      output_structure: what it returns; leaf i is the signature's output `output_names[i]`.
    """

    arguments: tuple[Any, ...]
    output_structure: Any
    output_names: tuple[str, ...]


def _find_call_form(model: Any, signature: Any) -> _CallForm | None:
    inputs = set(signature.structured_input_signature[1])
    outputs = set(signature.structured_outputs)
    found: list[_CallForm] = []
    for attribute in ("serve", "__call__"):
        for concrete in getattr(getattr(model, attribute, None), "concrete_functions", ()):
            arguments, keywords = concrete.structured_input_signature
            leaves = tf.nest.flatten(arguments, expand_composites=True)
            names = [s.name for s in leaves if isinstance(s, tf.TensorSpec)]
            ordered = _order_outputs(concrete.structured_outputs, outputs)
            keyword_tensors = any(isinstance(s, tf.TensorSpec) for s in tf.nest.flatten(keywords))
            if sorted(names) != sorted(inputs) or ordered is None or keyword_tensors:
                continue
            form = _CallForm(arguments, concrete.structured_outputs, tuple(ordered))
            # A Keras model has a form for training, too; the signature isn't it.
            if any(leaf is True for leaf in leaves):
                continue
            found.append(form)
    return found[0] if found else None


def _order_outputs(structured: Any, names: set[str]) -> list[str] | None:
    """The signature's output names in the flat order of a structure, if that can be told."""
    flat = tf.nest.flatten(structured, expand_composites=True)
    if len(flat) != len(names):
        return None
    if isinstance(structured, dict) and set(map(str, structured)) == names:
        return [str(key) for key in sorted(structured)]
    if len(flat) == 1:
        return list(names)
    numbered = [f"output_{i}" for i in range(len(flat))]
    return numbered if set(numbered) == names else None


def _bind(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    specs: Mapping[str, Any],
    form: _CallForm | None,
    signature: str,
) -> dict[str, Any]:
    """Arguments as feeds of the signature, each a tensor of its dtype."""
    feeds: dict[str, Any] = {}
    for key, value in kwargs.items():
        if key in specs:
            feeds[key] = value
        elif not (key in ("training", "mask") and not value):
            raise SignatureError(
                f"signature '{signature}' has no input '{key}' (has: {', '.join(specs)})."
            )
    if len(args) == 1 and isinstance(args[0], Mapping) and set(args[0]) <= set(specs):
        feeds.update(args[0])
    elif form is not None and args:
        feeds.update(_bind_structure(args, form, signature))
    elif len(args) == 1 and len(specs) == 1:
        feeds[next(iter(specs))] = args[0]
    elif args:
        raise SignatureError(
            f"signature '{signature}' has several inputs and no recorded order: pass them by "
            f"name ({', '.join(specs)})."
        )
    missing = [key for key in specs if key not in feeds]
    if missing:
        raise SignatureError(
            f"signature '{signature}' needs a value for input '{missing[0]}' "
            f"(inputs: {', '.join(specs)})."
        )
    return {key: _to_tensor(key, value, specs[key], signature) for key, value in feeds.items()}


def _bind_structure(args: tuple[Any, ...], form: _CallForm, signature: str) -> dict[str, Any]:
    if len(args) > len(form.arguments):
        raise SignatureError(f"the model takes {len(form.arguments)} arguments, not {len(args)}.")
    feeds = {}
    for given, spec in zip(args, form.arguments, strict=False):
        try:
            leaves = tf.__internal__.nest.flatten_up_to(spec, given)
        except (TypeError, ValueError) as error:
            raise SignatureError(
                f"signature '{signature}': the arguments are not built like the original's, "
                f"{form.arguments[: len(args)]}."
            ) from error
        for leaf, value in zip(tf.nest.flatten(spec), leaves, strict=True):
            if isinstance(leaf, tf.TensorSpec):
                feeds[leaf.name] = value
            elif value is not None and value != leaf:
                raise SignatureError(
                    f"the model was saved for the fixed argument {leaf!r}; {value!r} was passed."
                )
    return feeds


def _to_tensor(key: str, value: Any, spec: Any, signature: str) -> Any:
    if not isinstance(spec, tf.TensorSpec):
        return value
    try:
        tensor = tf.convert_to_tensor(value, dtype=spec.dtype)
    except (TypeError, ValueError) as error:
        raise SignatureError(
            f"signature '{signature}', input '{key}': the value is no {spec.dtype.name} tensor "
            f"({error})."
        ) from error
    if not spec.shape.is_compatible_with(tensor.shape):
        raise SignatureError(
            f"signature '{signature}', input '{key}': shape {list(tensor.shape)} does not fit "
            f"{spec.shape}."
        )
    return tensor
