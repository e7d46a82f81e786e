"""What the conformance tests are made of: kinds of columns, and the features that they read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import tensorflow as tf

Form = Literal["dense", "sparse", "ragged"]


@dataclass(frozen=True)
class Feature:
    """One input of a column.

    Attributes:
      dtype: "string", "int32", "int64" or "float32".
      form: a dense tensor [B, *dims], a SparseTensor of rank `rank`, or a RaggedTensor.
      dims: of a dense feature, after the batch.
      rank: of a sparse feature.
      keys: values that the column knows. Floats need none.
      weights: the feature holds weights.
      like: a sparse feature (of the same case) whose indices this one shares.
      takes: what does not make the column fail: "all" values, "missing" and known ones, or "known"
        ones only. Usual rows hold no others.
      filled: no row of a sparse or ragged feature is empty, except where all are.
    """

    dtype: str
    form: Form = "dense"
    dims: tuple[int, ...] = (1,)
    rank: int = 2
    keys: tuple[Any, ...] = ()
    weights: bool = False
    like: str | None = None
    takes: Literal["all", "missing", "known"] = "all"
    filled: bool = False

    def renamed(self, prefix: str) -> Feature:
        """The same where the features' names have a prefix."""
        return self if self.like is None else replace(self, like=prefix + self.like)

    def specs(self, name: str) -> dict[str, tf.TensorSpec]:
        """The tensors that a signature takes for this feature."""
        dtype = tf.dtypes.as_dtype(self.dtype)
        if self.form == "dense":
            return {name: tf.TensorSpec([None, *self.dims], dtype, name)}
        parts = {f"{name}_values": tf.TensorSpec([None], dtype)}
        if self.form == "ragged":
            parts[f"{name}_splits"] = tf.TensorSpec([None], tf.int64)
        else:
            parts[f"{name}_indices"] = tf.TensorSpec([None, self.rank], tf.int64)
            parts[f"{name}_shape"] = tf.TensorSpec([self.rank], tf.int64)
        return {key: tf.TensorSpec(spec.shape, spec.dtype, key) for key, spec in parts.items()}

    def join(self, name: str, tensors: dict[str, Any]) -> Any:
        """The feature, from a signature's tensors."""
        if self.form == "dense":
            return tensors[name]
        values = tensors[f"{name}_values"]
        if self.form == "ragged":
            splits = tensors[f"{name}_splits"]
            return tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        return tf.SparseTensor(tensors[f"{name}_indices"], values, tensors[f"{name}_shape"])


Features = dict[str, Feature]
# Names of inputs -> what the model computes from them: a tensor, or several by name.
Compute = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Case:
    """One kind of column in one form.

    Attributes:
      name: also that of the signature.
      features: what it reads.
      make: creates tables and variables, once, and returns the function that uses them along with
        the objects that own them.
    """

    name: str
    features: Features
    make: Callable[[], tuple[Compute, list[Any]]]


@dataclass(frozen=True)
class ColumnCase:
    """One kind of tf.feature_column; `columns.py` puts several layers over each.

    Attributes:
      name: of the kind and form.
      features: what it reads, by the name that the columns use less the prefix.
      columns: makes the columns; it is given a prefix for the names of features.
      layers: the layers that take them, out of "input_layer", "linear_model", "dense_features",
        "sequence".
      scope: arguments of the variable_scope in TF1 graphs.
    """

    name: str
    features: Features
    columns: Callable[[str], list[Any]]
    layers: tuple[str, ...] = ("input_layer", "dense_features")
    scope: dict[str, Any] = field(default_factory=dict)
