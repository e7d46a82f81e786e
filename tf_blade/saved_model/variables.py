"""A model's variables: where their values lie in the checkpoint, and whether they can change."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import saved_object_graph_pb2

from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.names import parse_tensor_name
from tf_blade.saved_model.bindings import Source
from tf_blade.saved_model.checkpoint import Checkpoint
from tf_blade.saved_model.writes import Writers, resource_name

VARIABLE_OPS = ("VarHandleOp", "VariableV2", "Variable")


@dataclass
class Variable:
    """A variable, or a tensor captured by a function, whose value is known.

    Attributes:
      name: for messages: the checkpoint key, or the main graph's Const.
      dtype, shape: of its value; the shape is fully known.
      handle: whether what stands for it in a graph is a resource (or reference) to be read, or,
        for a captured constant, the value itself.
      written_by: which op may change it while the model serves; "" if none.
    """

    name: str
    dtype: tf.DType
    shape: tuple[int, ...]
    handle: bool
    written_by: str
    _read: Callable[[], np.ndarray] = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the value; of strings only the references are counted."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.size

    def value(self) -> np.ndarray:
        """The value, read from the checkpoint on every call."""
        return self._read()


def saved_variables(main: Graph, restore_op: str, checkpoint: Checkpoint) -> dict[str, Variable]:
    """Variables of a TF1 graph by resource name, found by following the restore op.

    Follows RestoreV2 → Identity → AssignVariableOp | Assign; a partitioned variable's part is read
    as its slice of the whole.
    """
    found: dict[str, Variable] = {}
    if restore_op not in main.nodes:
        return found
    # One RestoreV2 reads all variables: what it reads is decoded once.
    strings = functools.cache(lambda ref: _strings(main, ref))
    for node in ancestors(main, [restore_op]):
        if node.op not in ("AssignVariableOp", "Assign"):
            continue
        target = main.nodes[_origin(main, node.inputs[0]).node]
        origin = _origin(main, node.inputs[1])
        restore = main.nodes[origin.node]
        if target.op not in VARIABLE_OPS or restore.op != "RestoreV2":
            continue
        keys, slices = strings(restore.inputs[1]), strings(restore.inputs[2])
        if keys is None or slices is None or keys[origin.index] not in checkpoint:
            continue
        variable = _saved(checkpoint, keys[origin.index], slices[origin.index])
        if variable is not None and _fits(target, variable):
            found[resource_name(target)] = variable
    return found


def object_variables(
    graph: saved_object_graph_pb2.SavedObjectGraph, main: Graph, checkpoint: Checkpoint | None
) -> dict[int, Variable]:
    """Variables and captured constants of a TF2 model, by node id of its object graph."""
    keys = checkpoint.object_keys(graph) if checkpoint is not None else {}
    found: dict[int, Variable] = {}
    for node_id, node in enumerate(graph.nodes):
        kind = node.WhichOneof("kind")
        if kind == "variable" and node_id in keys:
            assert checkpoint is not None
            variable = _saved(checkpoint, keys[node_id], "")
            if variable is not None and variable.dtype.as_datatype_enum == node.variable.dtype:
                found[node_id] = variable
        elif kind == "constant" and node.constant.operation in main.nodes:
            constant = constant_variable(main.nodes[node.constant.operation])
            if constant is not None:
                found[node_id] = constant
    return found


def constant_variable(node: Node) -> Variable | None:
    """A Const of the main graph as a Variable that never changes."""
    if node.op != "Const":
        return None
    proto = node.attrs["value"].tensor
    dtype = tf.as_dtype(proto.dtype)
    if any(dim.size < 0 for dim in proto.tensor_shape.dim):
        return None
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    return Variable(node.name, dtype, shape, False, "", lambda: tf.make_ndarray(proto))


def mark_written(variables: Mapping[str, Variable], writers: Writers) -> None:
    """Notes the writer on each variable (by resource name) that has one."""
    for handle, writer in writers.items():
        if handle.kind == "named" and handle.name in variables:
            variable = variables[handle.name]
            variable.written_by = variable.written_by or writer


def mark_arguments_written(
    variables: Mapping[int, Variable],
    writers: Writers,
    source_of: Callable[[int], Source | None],
) -> None:
    """Notes the writer on each object that a function's written argument is bound to."""
    for handle, writer in writers.items():
        if handle.kind != "arg":
            continue
        source = source_of(int(handle.name))
        if source is not None and source.kind == "object" and int(source.name) in variables:
            variable = variables[int(source.name)]
            variable.written_by = variable.written_by or writer


# -- helpers ------------------------------------------------------------------------------


def _saved(checkpoint: Checkpoint, key: str, spec: str) -> Variable | None:
    dtype = checkpoint.dtype(key)
    if not spec:
        return Variable(key, dtype, checkpoint.shape(key), True, "", lambda: checkpoint.read(key))
    parsed = _parse_slice(spec)
    if parsed is None or parsed[0] != checkpoint.shape(key):
        return None
    starts, sizes = parsed[1], parsed[2]
    index = tuple(slice(a, a + n) for a, n in zip(starts, sizes, strict=True))
    return Variable(key, dtype, sizes, True, "", lambda: checkpoint.read(key)[index])


def _parse_slice(spec: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """'100 4 0,50:0,4' → whole shape, starts, sizes; '-' stands for all of a dim."""
    *dims, extents = spec.split()
    shape = tuple(int(d) for d in dims)
    starts, sizes = [], []
    parts = extents.split(":")
    if len(parts) != len(shape):
        return None
    for dim, part in zip(shape, parts, strict=True):
        start, size = (0, dim) if part == "-" else (int(n) for n in part.split(","))
        starts.append(start)
        sizes.append(size)
    return shape, tuple(starts), tuple(sizes)


def _fits(target: Node, variable: Variable) -> bool:
    """Whether the saved value has the variable's declared dtype and shape."""
    shape = tf.TensorShape(target.attrs["shape"].shape)
    dtype = target.attrs["dtype"].type
    return dtype == variable.dtype.as_datatype_enum and shape.is_compatible_with(variable.shape)


def _origin(main: Graph, ref: TensorRef) -> TensorRef:
    while main.nodes[ref.node].op == "Identity":
        ref = main.nodes[ref.node].inputs[0]
    return ref


def _strings(main: Graph, ref: TensorRef) -> list[str] | None:
    node = main.nodes[_origin(main, ref).node]
    if node.op != "Const":
        return None
    value: attr_value_pb2.AttrValue = node.attrs["value"]
    return [item.decode() for item in tf.make_ndarray(value.tensor).ravel()]


def ancestors(main: Graph, names: Iterable[str]) -> list[Node]:
    """The named nodes and everything they depend on by data or control edges."""
    todo = [parse_tensor_name(name).node for name in names]
    seen = set(todo)
    found: list[Node] = []
    while todo:
        node = main.nodes[todo.pop()]
        found.append(node)
        for name in [ref.node for ref in node.inputs] + node.controls:
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return found
