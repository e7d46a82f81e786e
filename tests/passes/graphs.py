"""Graphs for the pass tests, built with TensorFlow, shown as text and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tf_blade.graph.graph import Graph
from tf_blade.graph.names import parse_tensor_name

v1 = tf.compat.v1


@dataclass
class KnownVariable:
    """A variable whose value a test gives (see passes.context.Variable)."""

    array: np.ndarray
    name: str = "v"
    handle: bool = True
    written_by: str = ""
    reads: int = 0

    @property
    def dtype(self) -> tf.DType:
        return tf.as_dtype(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def value(self) -> np.ndarray:
        self.reads += 1
        return self.array


def main_graph(build: Callable[[], Any], fetches: Sequence[str]) -> Graph:
    """The main graph that `build` makes; `fetches` are the names of its outputs."""
    with tf.Graph().as_default() as graph:
        build()
    return Graph.from_graph_def(graph.as_graph_def(), [parse_tensor_name(f) for f in fetches])


def function_graph(function: Callable, *signature: tf.TensorSpec) -> Graph:
    """The body of a traced Python function."""
    concrete = tf.function(function).get_concrete_function(*signature)
    library = {f.signature.name: f for f in concrete.graph.as_graph_def().library.function}
    return Graph.from_function_def(concrete.function_def, library)


def show(graph: Graph) -> str:
    """One line a node: `name = Op(inputs) ^controls`, in topological order, and the outputs."""
    lines = []
    for node in graph.topological_order():
        inputs = ", ".join(r.node if r.index == 0 else str(r) for r in node.inputs)
        controls = "".join(f" ^{name}" for name in node.controls)
        lines.append(f"{node.name} = {node.op}({inputs}){controls}")
    outputs = ", ".join(r.node if r.index == 0 else str(r) for _, r in graph.outputs)
    return "\n".join([*lines, f"-> {outputs}"])


def ops(graph: Graph) -> list[str]:
    """The ops of the graph, sorted, without constants and arguments."""
    return sorted(n.op for n in graph if n.op not in ("Const", "_Arg", "Placeholder"))


def run(graph: Graph, **feeds: Any) -> list[np.ndarray]:
    """The outputs of a main graph without variables."""
    graph_def = graph.to_graph_def()
    graph_def.library.function.extend(graph.library.values())
    with tf.Graph().as_default() as imported, v1.Session(graph=imported) as session:
        tf.graph_util.import_graph_def(graph_def, name="")
        # A pass may find that an input isn't needed.
        fed = {f"{name}:0": value for name, value in feeds.items() if name in graph.nodes}
        return session.run([str(ref) for _, ref in graph.outputs], fed)


def call(graph: Graph, *arguments: Any) -> list[np.ndarray]:
    """The results of a function graph."""
    graph_def = tf.compat.v1.GraphDef()
    graph_def.library.function.extend(f for n, f in graph.library.items() if n != graph.name)
    graph_def.library.function.add().CopyFrom(graph.to_function_def())
    with tf.Graph().as_default() as imported, v1.Session(graph=imported) as session:
        tf.graph_util.import_graph_def(graph_def, name="")
        inputs = [tf.constant(a) for a in arguments]
        dtypes = [
            tf.as_dtype(graph.output_dtypes(graph.nodes[r.node])[r.index]) for _, r in graph.outputs
        ]
        node = tf.raw_ops.StatefulPartitionedCall(
            args=inputs, Tout=dtypes, f=_named(graph.name), config_proto=""
        )
        return session.run(list(node))


def _named(name: str) -> Any:
    class _Function:  # what raw_ops takes for a function attribute
        def __init__(self) -> None:
            self.name = name

        def add_to_graph(self, _: tf.Graph) -> None:
            return None

    return _Function()
