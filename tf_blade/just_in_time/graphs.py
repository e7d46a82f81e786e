"""A graph as Grappler has it, as the passes want it, and back.

A function arrives with nodes _Arg and _Retval and becomes a function's Graph, in which everything
with an effect runs. A session's graph has names that are fed and fetched, and stays a main graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import graph_pb2, types_pb2

from tf_blade.clustering import devices
from tf_blade.errors import TfBladeError
from tf_blade.graph.calls import reachable
from tf_blade.graph.effects import READS, has_effect
from tf_blade.graph.graph import Graph, GraphError, Node, TensorRef, default_attrs
from tf_blade.graph.names import parse_tensor_name, restore_output_names
from tf_blade.graph.types import ARG, Shape
from tf_blade.just_in_time.bridge import Message

_RETVAL = "_Retval"
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
_COMPILED = ("BladeCluster", "BladeLookup")
_COMPOSITION = "_UnaryOpsComposition"


class LeftAlone(TfBladeError):
    """A graph that stays as it is; the message is the reason."""


@dataclass
class KnownVariable:
    """A variable of which only the type is known: its value may change at any time."""

    name: str
    dtype: tf.DType
    shape: tuple[int, ...]
    handle: bool = True
    written_by: str = "the running process"

    @property
    def nbytes(self) -> int:
        """Of its value."""
        return int(tf.TensorShape(self.shape).num_elements()) * int(self.dtype.size)

    def value(self) -> np.ndarray:
        """Never asked for: what is written isn't frozen."""
        raise AssertionError(f"the value of variable '{self.name}' is not known")


@dataclass
class ReceivedGraph:
    """A graph to compile.

    Attributes:
      name: of the function, without what makes it unique; "session" for a session's graph.
      graph: for the passes. A function's arguments have no shapes of their own in it.
      arg_shapes: shapes of a function's arguments.
      variables: by the node that stands for the variable.
      pinned: nodes that must stay, under their names.
      takes_lookups: whether lookups may be looked for: only where what must run is known to the
        passes.
    """

    name: str
    graph: Graph
    arg_shapes: dict[str, Shape]
    variables: dict[str, KnownVariable]
    pinned: set[str]
    takes_lookups: bool
    _results: list[Node] = field(repr=False)  # a function's _Retval nodes
    _original: dict[str, Node] = field(repr=False)

    def edited(self, graph: Graph) -> bytes | None:
        """The graph's nodes and new functions, serialized. None if a pinned node was lost."""
        if not graph.is_function:
            restore_output_names(graph)
        lost = self.pinned - graph.nodes.keys()
        # Reads are pinned so that a caller waits for them; nobody needs to for those that are gone.
        # The effects that a function's NoOp waits for are there.
        replaceable = READS | {"NoOp"} if graph.is_function else READS
        if any(self._original[name].op not in replaceable for name in lost):
            return None
        # Grappler complains about names that are gone.
        waits = {name: self._waits(graph, name) for name in lost}
        for name, controls in waits.items():
            device = self._original[name].device
            graph.add(Node(name, "NoOp", controls=controls, device=device))
        outputs = dict(graph.outputs)
        for node in self._results:
            node = node.copy()
            node.inputs = [outputs[node.name]]
            node.controls = [name for name in node.controls if name in graph.nodes]
            graph.add(node)
        self._place(graph)
        proto = graph.to_graph_def()
        fallbacks = [n.attrs["fallback"].func.name for n in graph if n.op in _COMPILED]
        for name in reachable(fallbacks, graph.library):
            function = proto.library.function.add()
            function.CopyFrom(graph.library[name])
            # Grappler leaves functions with this attribute alone: these are fallbacks, and must not
            # be compiled in turn.
            function.attr["_tf_data_function"].b = True
        return bytes(proto.SerializeToString())

    def _waits(self, graph: Graph, name: str) -> list[str]:
        """What a node waited for that has an effect or reads, as far as that is still there."""
        seen: set[str] = set()
        todo = [name]
        while todo:
            node = self._original[todo.pop()]
            sources = {ref.node for ref in node.inputs} | set(node.controls)
            todo += sources - seen
            seen |= sources
        return sorted(n for n in seen & graph.nodes.keys() if graph.is_stateful(graph.nodes[n]))

    def _place(self, graph: Graph) -> None:
        """Gives new nodes a device, if the graph has been placed already: nobody else would."""
        placed = [node.device for node in self._original.values() if node.device]
        if len(placed) < len(self._original):
            return
        any_cpu = next((d for d in placed if devices.is_cpu(devices.parse(d))), placed[0])
        for node in graph.topological_order():
            if not node.device:
                sources = [graph.nodes[ref.node].device for ref in node.inputs]
                on_cpu = [device for device in sources if devices.is_cpu(devices.parse(device))]
                node.device = on_cpu[0] if on_cpu else any_cpu


def receive(message: Message) -> ReceivedGraph:
    """Reads a graph. Raises LeftAlone if it is none that can be compiled."""
    proto = graph_pb2.GraphDef()
    try:
        proto.ParseFromString(message.graph)
        graph = Graph.from_graph_def(proto)
        _check(graph, message.facts["feed"])
        _take_apart(graph)
        results = [node for node in graph if node.op == _RETVAL]
        fetched = [] if results else _fetched(graph, message.facts["fetch"])
        if not results and not fetched:
            raise LeftAlone("a session runs it for its effects only, as it does initialisers")
        effects = any(has_effect(graph, node) for node in graph)
    except (DecodeError, GraphError, ValueError) as error:
        raise LeftAlone(f"it can't be read: {error}") from error
    original = dict(graph.nodes)
    pinned = {name for name in message.facts["keep"] if name in graph.nodes}
    pinned -= {node.name for node in results}
    if results:
        graph.name = message.facts["id"][0]
        graph.remove(node.name for node in results)
        graph.outputs = [(node.name, node.inputs[0]) for node in results]
        pinned |= {name for node in results for name in node.controls}
        takes_lookups = True
    else:
        graph.outputs = [(str(ref), ref) for ref in fetched]
        named = {ref.node for ref in fetched}
        pinned -= named
        # In a main graph the passes keep what the fetched tensors need, and nothing else.
        run = {parse_tensor_name(name).node for name in message.facts["fetch"]}
        takes_lookups = not effects and run <= named
    return ReceivedGraph(
        _plain_name(message.facts["id"][0]) if results else "session",
        graph,
        _arg_shapes(graph),
        _variables(graph),
        pinned,
        takes_lookups,
        results,
        original,
    )


def _check(graph: Graph, feeds: list[str]) -> None:
    """Raises LeftAlone for what is not for us."""
    for node in graph:
        job = devices.parse(node.device)[0]
        if job not in (None, "localhost"):
            raise LeftAlone(f"it runs in another process ({node.device})")
        if node.op in _COMPILED:
            raise LeftAlone("it has compiled ops already")
        if "Dataset" in node.op:
            raise LeftAlone("it makes data sets, and is not run often")
    for name in feeds:
        fed = graph.nodes.get(parse_tensor_name(name).node)
        if fed is not None and fed.op not in _PLACEHOLDERS:
            raise LeftAlone(f"it is fed the result of '{fed.name}' ({fed.op})")


def _take_apart(graph: Graph) -> None:
    """Undoes what Grappler's other optimizers put together before: f(g(x)) in one node.

    They do it again with what is not compiled.
    """
    for node in [node for node in graph if node.op == _COMPOSITION]:
        *inner, last = [op.decode() for op in node.attrs["op_names"].list.s]
        ref = node.inputs[0]
        for op in inner:
            name = graph.unique_name(f"{node.name}/{op}")
            attrs = default_attrs(op) | {"T": node.attrs["T"]}
            graph.add(Node(name, op, [ref], list(node.controls), attrs, node.device))
            ref = TensorRef(name)
        node.op, node.inputs = last, [ref]
        node.attrs = default_attrs(last) | {"T": node.attrs["T"]}


def _fetched(graph: Graph, names: list[str]) -> list[TensorRef]:
    """The tensors among what a session fetches; the rest are nodes that it only runs."""
    found = dict.fromkeys(parse_tensor_name(name) for name in names)
    return [
        ref
        for ref in found
        if ref.node in graph.nodes and ref.index < len(graph.output_dtypes(graph.nodes[ref.node]))
    ]


def _plain_name(function: str) -> str:
    """What a second trace has in common with the first: of "__inference_f_123", "f"."""
    name = function.removeprefix("__").partition("_")[2] or function
    return name.rstrip("0123456789").rstrip("_") or function


def _arg_shapes(graph: Graph) -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    for node in graph:
        if node.op != ARG or node.attrs["T"].type == types_pb2.DT_RESOURCE:
            continue
        shapes = node.attrs["_output_shapes"].list.shape if "_output_shapes" in node.attrs else []
        if len(shapes) == 1 and not shapes[0].unknown_rank:
            found[node.name] = tuple(tf.TensorShape(shapes[0]).as_list())
    return found


def _variables(graph: Graph) -> dict[str, KnownVariable]:
    found: dict[str, KnownVariable] = {}
    for node in graph:
        attrs = node.attrs
        if node.op == ARG and "_handle_dtypes" in attrs and "_handle_shapes" in attrs:
            dtypes, shapes = attrs["_handle_dtypes"].list.type, attrs["_handle_shapes"].list.shape
        elif node.op == "VarHandleOp":
            dtypes, shapes = [attrs["dtype"].type], [attrs["shape"].shape]
        else:
            continue
        if len(dtypes) == len(shapes) == 1:
            shape = tf.TensorShape(shapes[0])
            if shape.is_fully_defined():
                dtype = tf.as_dtype(dtypes[0])
                found[node.name] = KnownVariable(node.name, dtype, tuple(shape.as_list()))
    return found
