"""The conformance models: every case saved, optimised and loaded, by groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tf_blade
from tests.feature_column.conformance import functions, save
from tests.feature_column.conformance.case import Features
from tests.feature_column.conformance.columns import column_cases
from tf_blade.runner import load_saved_model

# Ops that lookups are made of. A column none of whose signature's ops is one of these any more,
# outside of our ops and their fallbacks, was fused whole.
LOOKUP_OPS = frozenset(
    """
    AsString Bucketize GatherNd GatherV2 LookupTableFindV2 RaggedTensorToSparse ResourceGather
    SparseCross SparseCrossHashed SparseCrossV2 SparseFillEmptyRows SparseReshape SparseSegmentMean
    SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments
    SparseSegmentSum SparseSegmentSumWithNumSegments SparseToDense StringToHashBucketFast
    StringToHashBucketStrong Unique Where
    """.split()
)

# Those of them that clusters take, too, where no lookup is recognised.
SPARSE_OPS = frozenset(["SparseFillEmptyRows", "SparseReshape", "Unique", "Where"])

Outcome = Mapping[str, np.ndarray] | type[Exception]


def group_cases(group: str) -> dict[str, Features]:
    """Signature -> features of its case."""
    if group == "graph":
        return {case.name: case.features for _, case in _graph_cases()}
    return {case.name: case.features for case in _FUNCTIONS[group]()}


def _graph_cases() -> list[tuple[str, Any]]:
    layers = ("input_layer", "linear_model")
    return [(name, case) for case in column_cases() for name in layers if name in case.layers]


_FUNCTIONS: dict[str, Callable[[], list[Any]]] = {
    "dense_features": functions.keras_columns,
    "keras": lambda: list(functions.keras_layers("keras")),
    "tf_keras": lambda: list(functions.keras_layers("tf_keras")),
    "lookups": lambda: list(functions.lookups()),
}
GROUPS = ("graph", *_FUNCTIONS)


@dataclass(frozen=True)
class Pair:
    """A SavedModel and what `optimize` made of it, both loaded.

    Attributes:
      directory: of the optimised one.
    """

    directory: Path
    original: Any
    optimized: Any

    def outcomes(self, signature: str, feeds: Mapping[str, np.ndarray]) -> tuple[Outcome, Outcome]:
        """What the original and the optimised model make of the same feeds."""
        tensors = {name: tf.constant(value) for name, value in feeds.items()}
        return (
            _outcome(self.original.signatures[signature], tensors),
            _outcome(self.optimized.signatures[signature], tensors),
        )


def _outcome(function: Any, tensors: Mapping[str, tf.Tensor]) -> Outcome:
    try:
        return {name: value.numpy() for name, value in function(**tensors).items()}
    except tf.errors.OpError as error:
        return type(error)


def write_group(group: str, directory: Path) -> None:
    """The SavedModel of a group."""
    tf.get_logger().setLevel("ERROR")  # feature columns are deprecated: it is said of each
    if group == "graph":
        save.save_graph(_graph_cases(), directory)
    else:
        save.save_functions(_FUNCTIONS[group](), directory)


def optimize(original: Path, optimized: Path, lookups: str) -> Pair:
    """Optimises without the check and timing of `optimize`: this is the check."""
    # One target: compiling hundreds of small clusters is most of the time this takes.
    targets = tf_blade.Config().cpu_targets[:1]
    config = tf_blade.Config(check=False, timing_seconds=0, cpu_targets=targets, lookups=lookups)
    made = tf_blade.optimize(str(original), str(optimized), config=config)
    return Pair(optimized, load_saved_model(str(original), None), made.model)


def left_ops(directory: Path, signature: str, *, in_clusters: bool = False) -> Counter[str]:
    """Ops that TensorFlow runs itself for a signature, by type; fallbacks of our ops don't count,
    unless those of clusters are asked for.

    In TF1 graphs these are the ops that the outputs need, in functions those of the bodies called.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    meta = proto.meta_graphs[0]
    functions_by_name = {f.signature.name: f for f in meta.graph_def.library.function}
    nodes = {node.name: node for node in meta.graph_def.node}
    found: Counter[str] = Counter()
    wanted = [info.name for info in meta.signature_def[signature].outputs.values()]
    seen: set[str] = set()
    bodies: list[str] = []
    while wanted:
        name = wanted.pop().lstrip("^").partition(":")[0]
        if name in seen:
            continue
        seen.add(name)
        _count(nodes[name], found, bodies, in_clusters)
        wanted += nodes[name].input
    called: set[str] = set()
    while bodies:
        body = bodies.pop()
        if body not in called:
            called.add(body)
            for node in functions_by_name[body].node_def:
                _count(node, found, bodies, in_clusters)
    return found


def _count(node: Any, found: Counter[str], bodies: list[str], in_clusters: bool) -> None:
    """Counts a node and notes the functions that it calls; our own ops call only fallbacks."""
    found[node.op] += 1
    if not node.op.startswith("Blade") or (in_clusters and node.op == "BladeCluster"):
        bodies += [value.func.name for value in node.attr.values() if value.HasField("func")]


def is_fused(directory: Path, signature: str) -> bool:
    """Whether nothing of a lookup is left to TensorFlow in a signature, or is compiled op by op."""
    left = left_ops(directory, signature)
    if LOOKUP_OPS & set(left) or not any(op.startswith("Blade") for op in left):
        return False
    return not SPARSE_OPS & set(left_ops(directory, signature, in_clusters=True))
