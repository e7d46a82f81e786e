"""Generated models of embedding columns, written by TensorFlow's own feature columns.

A model looks up N columns and concatenates them; with `mlp` dense layers (256, 128, 1) follow, as
in a ranking model. Columns differ in how ids are made, in dim, combiner and whether a row has one
value (dense [B, 1]) or a list of them (SparseTensor); what column i is depends on nothing but
the model's name. `feeds.py` knows what to feed them.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

Kind = Literal["hash_string", "vocabulary", "hash_int", "identity", "bucketized"]
SOURCES: dict[str, tuple[Kind, ...]] = {
    "string": ("hash_string", "vocabulary"),
    "int64": ("hash_int", "identity"),
    "mixed": ("hash_string", "hash_int", "identity", "vocabulary", "bucketized"),
}
DIMS = (8, 16, 32)
COMBINERS = ("mean", "sum", "sqrtn")
SIGNATURE = "serving_default"

_SEED = 7
_MULTI_SHARE = 0.4  # of the columns that can have several values
_VOCABULARY = 1000
_BOUNDARIES = 100
_HIDDEN = (256, 128)
_FORMAT = 1  # part of a model's name: what was built by other rules is not taken for it


@dataclass(frozen=True)
class Column:
    """One embedding column: a table of `rows` rows of `dim` floats and how to find a row."""

    name: str
    kind: Kind
    rows: int
    dim: int
    combiner: str
    multi: bool


@dataclass(frozen=True)
class ModelSpec:
    """A model to generate.

    Attributes:
      columns: how many.
      source: a key of SOURCES: what the columns read.
      rows: rows of a table, where the kind of column doesn't say (vocabularies hold 1,000 words,
        bucketized columns 101 buckets).
      mlp: whether dense layers follow the columns.
    """

    columns: int
    source: str = "mixed"
    rows: int = 100_000
    mlp: bool = False

    @property
    def name(self) -> str:
        tail = "_mlp" if self.mlp else ""
        return f"columns_{self.columns}_{self.source}_{self.rows}{tail}_v{_FORMAT}"


def plan(spec: ModelSpec) -> list[Column]:
    """The columns of a model, in the order of its output."""
    random = np.random.default_rng(_SEED)
    kinds = SOURCES[spec.source]
    own_rows = {"vocabulary": min(_VOCABULARY, spec.rows), "bucketized": _BOUNDARIES + 1}
    columns = []
    for index in range(spec.columns):
        kind = kinds[index % len(kinds)]
        multi = bool(random.random() < _MULTI_SHARE) and kind != "bucketized"
        columns.append(
            Column(
                name=f"c{index:05d}",
                kind=kind,
                rows=own_rows.get(kind, spec.rows),
                dim=int(random.choice(DIMS)),
                combiner=str(random.choice(COMBINERS)),
                multi=multi,
            )
        )
    return columns


def word(index: int) -> bytes:
    """Entry `index` of a vocabulary, and what hashed strings look like."""
    return b"w%x" % (index * 2654435761 % (1 << 32))


def boundaries() -> list[float]:
    """Of bucketized columns, which read numbers between 0 and 1."""
    return [(index + 0.5) / _BOUNDARIES for index in range(_BOUNDARIES)]


def build(spec: ModelSpec, directory: Path) -> Path:
    """The SavedModel of `spec` in `directory`, generated unless it is there already.

    The graph is a TF1 one, as feature columns were made for, with resource variables.
    """
    return _build(spec, directory / spec.name, _write)


def build_idle(spec: ModelSpec, directory: Path) -> Path:
    """A SavedModel with the inputs of `spec` that reads none of them and gives a constant."""
    return _build(spec, directory / f"{spec.name}_idle", _write_idle)


def _build(spec: ModelSpec, saved_model: Path, write: Callable[[ModelSpec, Path], None]) -> Path:
    if saved_model.is_dir():
        return saved_model
    staging = saved_model.with_name(f".{saved_model.name}")
    shutil.rmtree(staging, ignore_errors=True)
    write(spec, staging)
    (staging / "assets.extra").mkdir(exist_ok=True)
    description = json.dumps(dataclasses.asdict(spec))
    (staging / "assets.extra" / "model_spec.json").write_text(description + "\n")
    staging.rename(saved_model)
    return saved_model


def _write_idle(spec: ModelSpec, directory: Path) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        inputs: dict[str, Any] = {}
        for column in plan(spec):
            _placeholders(column, inputs)
        _save(session, directory, inputs, tf.zeros([1]))


def _save(session: Any, directory: Path, inputs: dict[str, Any], output: Any) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    info = v1.saved_model.build_tensor_info
    signature = v1.saved_model.build_signature_def(
        {name: info(tensor) for name, tensor in inputs.items()},
        {"output": info(output)},
        "tensorflow/serving/predict",
    )
    builder = v1.saved_model.Builder(str(directory))
    builder.add_meta_graph_and_variables(
        session, ["serve"], {SIGNATURE: signature}, main_op=v1.tables_initializer()
    )
    builder.save()


def _write(spec: ModelSpec, directory: Path) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    v1.logging.set_verbosity(v1.logging.ERROR)  # "feature columns are deprecated", per column
    columns = plan(spec)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(_SEED)
        with v1.variable_scope("", use_resource=True):
            inputs: dict[str, Any] = {}
            features = {column.name: _placeholders(column, inputs) for column in columns}
            output = v1.feature_column.input_layer(features, [_feature(c) for c in columns])
            if spec.mlp:
                output = _layers(output)
        session.run(v1.global_variables_initializer())
        _save(session, directory, inputs, output)


def _placeholders(column: Column, inputs: dict[str, Any]) -> Any:
    """The column's feature; its placeholders are added to `inputs`."""
    import tensorflow as tf

    v1 = tf.compat.v1
    dtypes = {"hash_string": tf.string, "vocabulary": tf.string, "bucketized": tf.float32}
    dtype = dtypes.get(column.kind, tf.int64)
    name = column.name
    if not column.multi:
        inputs[name] = v1.placeholder(dtype, [None, 1], name)
        return inputs[name]
    parts = {
        f"{name}_indices": v1.placeholder(tf.int64, [None, 2], f"{name}_indices"),
        f"{name}_values": v1.placeholder(dtype, [None], f"{name}_values"),
        f"{name}_shape": v1.placeholder(tf.int64, [2], f"{name}_shape"),
    }
    inputs.update(parts)
    return tf.SparseTensor(*parts.values())


def _feature(column: Column) -> Any:
    import tensorflow as tf

    fc, name, rows = tf.feature_column, column.name, column.rows
    categorical: Any
    if column.kind == "hash_string":
        categorical = fc.categorical_column_with_hash_bucket(name, rows)
    elif column.kind == "hash_int":
        categorical = fc.categorical_column_with_hash_bucket(name, rows, tf.int64)
    elif column.kind == "identity":
        categorical = fc.categorical_column_with_identity(name, rows)
    elif column.kind == "vocabulary":
        words = [word(index).decode() for index in range(rows)]
        categorical = fc.categorical_column_with_vocabulary_list(name, words)
    else:
        categorical = fc.bucketized_column(fc.numeric_column(name), boundaries())
    return fc.embedding_column(
        categorical,
        column.dim,
        column.combiner,
        tf.random_uniform_initializer(-0.1, 0.1, seed=int(name[1:])),
    )


def _layers(rows: Any) -> Any:
    import tensorflow as tf

    v1 = tf.compat.v1
    for index, width in enumerate((*_HIDDEN, 1)):
        weight = v1.get_variable(f"layer_{index}/kernel", [rows.shape[1], width])
        bias = v1.get_variable(f"layer_{index}/bias", [width])
        rows = tf.nn.bias_add(tf.matmul(rows, weight), bias)
        if width > 1:
            rows = tf.nn.relu(rows)
    return rows
