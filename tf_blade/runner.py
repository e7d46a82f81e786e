"""Loads a SavedModel folder and calls its signatures with numpy arrays."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tf_blade.errors import SavedModelError, SignatureError, TfBladeError
from tf_blade.signatures import load_ops_for

Feeds = Mapping[str, Any]  # input name -> numpy array (or tf.SparseTensor)
Answers = dict[str, np.ndarray]


class Runner:
    """A SavedModel folder, loaded fresh: variables are as they were saved.

    Args:
      directory: the SavedModel's folder.
      tags: tags of its MetaGraph.

    Raises:
      SavedModelError: TensorFlow can't load the model.
      RuntimeLibraryError: the model holds our op and its library can't be loaded.
    """

    def __init__(self, directory: str | os.PathLike[str], tags: tuple[str, ...]) -> None:
        self.directory = os.fspath(directory)
        self.tags = tags
        self.model = load_saved_model(self.directory, tags)

    def function(self, signature: str) -> Any:
        """The concrete function of a signature. Raises SignatureError if there is none."""
        if signature not in self.model.signatures:
            has = ", ".join(self.model.signatures)
            raise SignatureError(f"'{self.directory}' has no signature '{signature}' (has: {has}).")
        return self.model.signatures[signature]

    def run(self, signature: str, feeds: Feeds) -> Answers:
        """Calls a signature once. Composite outputs come as their parts, `name/0`, `name/1` ….

        Raises what TensorFlow raises when the model fails on these feeds.
        """
        results = self.function(signature)(**to_tensors(feeds))
        answers: Answers = {}
        for name, value in results.items():
            parts = tf.nest.flatten(value, expand_composites=True)
            for i, part in enumerate(parts):
                answers[name if len(parts) == 1 else f"{name}/{i}"] = part.numpy()
        return dict(sorted(answers.items()))

    def call(self, signature: str, feeds: Feeds) -> Callable[[], object]:
        """A call to be timed: feeds are tensors already, results are waited for on the CPU."""
        function, tensors = self.function(signature), to_tensors(feeds)
        return lambda: function(**tensors)


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
