"""The table of lowerings: which TensorFlow ops the compiler knows, and how each becomes IR.

    @lower("BiasAdd", dtypes=NUMBERS)
    def bias_add(b, value, bias, *, data_format):
        ...

A lowering gets the builder, the node's inputs as values, and the op attributes that it names as
keyword-only parameters, decoded: dtypes as `DType` (None when the IR has none), strings as str,
lists as tuples, shapes as tuples with None for unknown dims, tensors as arrays. It returns one
value, or a sequence with one value an output.

The same table says what `supports` accepts and what the documentation lists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.content import MAX_ELEMENTS
from tf_blade.compiler.ir.ops import IrError
from tf_blade.compiler.ir.program import Program, Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower import halves
from tf_blade.compiler.lower.errors_of_unread import Lowered, keep_errors
from tf_blade.compiler.lower.scope import (
    COMPLEX,
    STRUCTURED,
    Complex,
    Item,
    Scope,
    Structured,
    arrays,
)
from tf_blade.errors import UnsupportedError
from tf_blade.graph.calls import is_wrapped
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import ARG, TensorInfo

DTypes = frozenset[DType]

FLOATS: DTypes = frozenset(t for t in DType if t.is_float)
INTEGERS: DTypes = frozenset(t for t in DType if t.is_integer)
NUMBERS: DTypes = FLOATS | INTEGERS
COMPARABLE: DTypes = NUMBERS | {DType.BOOL}
SIGNED: DTypes = frozenset(t for t in NUMBERS if t.is_signed)
INDICES: DTypes = frozenset([DType.I32, DType.I64])


@dataclass(frozen=True)
class Lowering:
    """How one TensorFlow op becomes IR.

    Attributes:
      op: TensorFlow's op name.
      function: (builder, *inputs, **attributes) -> value or values.
      dtypes: what each type attribute may be; type attributes not named may be any IR dtype.
      constants: inputs that must come from a Const node; negative counts from the last.
      contents: integer inputs whose elements must be known symbolically: constants, shape
        arithmetic, or small inputs of the cluster.
      ignores: attributes with no influence on the result.
      outputs: how many outputs the lowering computes; None for all.
    """

    op: str
    function: Callable[..., Any]
    dtypes: Mapping[str, DTypes]
    constants: tuple[int, ...]
    contents: tuple[int, ...]
    ignores: tuple[str, ...]
    outputs: int | None

    @property
    def attributes(self) -> tuple[str, ...]:
        """The op attributes that the function takes."""
        parameters = inspect.signature(self.function).parameters.values()
        return tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


LOWERINGS: dict[str, Lowering] = {}


def lower(
    *ops: str,
    dtypes: DTypes | Mapping[str, DTypes] | None = None,
    constants: Iterable[int] = (),
    contents: Iterable[int] = (),
    ignores: Iterable[str] = (),
    outputs: int | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the decorated function as the lowering of `ops`; see Lowering for the arguments.
    A plain set of dtypes is for the type attribute "T"."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        by_attr = dtypes if isinstance(dtypes, Mapping) else {"T": dtypes} if dtypes else {}
        for op in ops:
            if op in LOWERINGS:
                raise ValueError(f"{op} already has a lowering")
            LOWERINGS[op] = Lowering(
                op, function, by_attr, tuple(constants), tuple(contents), tuple(ignores), outputs
            )
        return function

    return register


def supports(node: Node, graph: Graph, types: Types) -> str | None:
    """Why a node can't be lowered, as far as can be told before lowering; None when it can.

    Looks at the op, the dtypes and ranks of its inputs and outputs, and at the inputs that must
    be constants. A lowering may still refuse (UnsupportedError) by finer rules.
    """
    if is_wrapped(node):
        outputs = [TensorRef(node.name, i) for i in range(len(graph.output_dtypes(node)))]
        return next(filter(None, (_type_reason(types.get(r)) for r in node.inputs + outputs)), None)
    lowering = LOWERINGS.get(node.op)
    if lowering is None:
        return f"op {node.op} has no lowering"
    for side, refs in (("input", node.inputs), ("output", _outputs(lowering, node, graph))):
        for i, ref in enumerate(refs):
            reason = _type_reason(types.get(ref))
            if reason:
                return f"{side} {i} {reason}"
    for attr, allowed in lowering.dtypes.items():
        if attr not in node.attrs:
            continue
        dtype = DType.from_tf_enum(node.attrs[attr].type)
        if dtype is not None and dtype.is_half:
            reason = halves.refusal(node.op)
            if reason:
                return reason
            dtype = DType.F32
        if dtype not in allowed:
            return f"{node.op} is not supported for {_dtype_name(node.attrs[attr].type)}"
    for i in lowering.constants:
        if not _is_constant(graph, node.inputs[i]):
            return f"input {i % len(node.inputs)} is not a constant"
    for i in lowering.contents:
        reason = _content_reason(types[node.inputs[i]])
        if reason:
            return f"input {i % len(node.inputs)} {reason}"
    return None


def is_complex(node: Node, graph: Graph, types: Types) -> bool:
    """Whether the node reads or gives complex numbers of two f32."""
    outputs = [TensorRef(node.name, i) for i in range(len(graph.output_dtypes(node)))]
    return any(
        ref in types and types[ref].dtype == tf.complex64 for ref in [*node.inputs, *outputs]
    )


def lower_graph(
    graph: Graph, types: Types, name: str, constant_inputs: Iterable[int] = ()
) -> Program:
    """The program that computes what the function `graph` does.

    Args:
      graph: a function: its `_Arg` nodes become params in order, its outputs results.
      types: dtypes and shapes of all its tensors; unknown dims become symbols.
      name: the program's name.
      constant_inputs: arguments that are the same tensor in every call.

    Raises: UnsupportedError, naming the node, for anything that can't be lowered.
    """
    b = Builder(name)
    fixed = set(constant_inputs)
    values: dict[TensorRef, Item] = {}
    for i, arg in enumerate(graph.args):
        ref = TensorRef(arg.name)
        info = types.get(ref)
        reason = _type_reason(info)
        if reason or info is None or info.shape is None:
            raise UnsupportedError(f"the argument {reason}", arg.name)
        dtype = DType.from_tf_enum(info.dtype.as_datatype_enum)
        assert dtype is not None  # _type_reason checked it
        values[ref] = b.param(dtype, info.shape, constant=i in fixed, likely=info.likely)
    scope = Scope(graph, types, values)
    nodes = _lower_nodes(b, scope)
    results = [scope.tensor(ref) for _, ref in graph.outputs]
    return b.finish(keep_errors(b, results, nodes))


def _lower_nodes(b: Builder, scope: Scope) -> list[Lowered]:
    """Lowers what the outputs of a function depend on; what became of each node, in order."""
    needed = _needed(scope.graph)
    nodes: list[Lowered] = []
    for node in scope.graph.topological_order():
        if node.op == ARG or node.name not in needed:
            continue
        first = len(b.program.ops)
        if node.op in STRUCTURED:
            found = _lower_structured(b, node, scope, STRUCTURED[node.op])
        elif is_complex(node, scope.graph, scope.types):
            if node.op not in COMPLEX:
                raise UnsupportedError(f"{node.op} of complex numbers has no lowering", node.name)
            found = _lower_structured(b, node, scope, COMPLEX[node.op])
        else:
            found = [*_lower_node(b, node, scope)]
        nodes.append((b.program.ops[first:], arrays(found)))
        for i, value in enumerate(found):
            scope.values[TensorRef(node.name, i)] = value
    return nodes


def _lower_inside(b: Builder, scope: Scope) -> None:
    """Lowers a function that an op runs: its outputs depend on the errors of nodes not read."""
    nodes = _lower_nodes(b, scope)
    outputs = [scope.any(ref) for _, ref in scope.graph.outputs]
    before = arrays(outputs)
    moved = dict(zip(before, keep_errors(b, before, nodes), strict=True))
    for (_, ref), value in zip(scope.graph.outputs, outputs, strict=True):
        if isinstance(value, Value):
            scope.values[ref] = moved[value]
        elif isinstance(value, Complex):
            scope.values[ref] = Complex(moved[value.real], moved[value.imaginary])
        elif value.array is not None:
            scope.values[ref] = replace(value, array=moved[value.array])


def _lower_structured(b: Builder, node: Node, scope: Scope, lowering: Structured) -> list[Item]:
    b.source = node.name
    try:
        found = lowering(b, node, scope, _lower_inside)
    except UnsupportedError as error:
        # Nodes of functions mean nothing to who asked for this one.
        inner = error.node if error.node not in ("", node.name) else ""
        reason = f"{error.reason} (in '{inner}')" if inner else error.reason
        raise UnsupportedError(reason, node.name) from error
    except IrError as error:
        raise UnsupportedError(f"its lowering breaks the IR's rules: {error}", node.name) from error
    b.source = node.name
    return [
        _sharpened_item(b, value, scope.types[TensorRef(node.name, i)])
        for i, value in enumerate(found)
    ]


def _sharpened_item(b: Builder, item: Item, known: TensorInfo) -> Item:
    if isinstance(item, Complex):
        return Complex(_sharpened(b, item.real, known), _sharpened(b, item.imaginary, known))
    return _sharpened(b, item, known) if isinstance(item, Value) else item


def _lower_node(b: Builder, node: Node, scope: Scope) -> list[Value]:
    graph, types = scope.graph, scope.types
    b.source = node.name
    reason = supports(node, graph, types)
    if reason:
        raise UnsupportedError(reason, node.name)
    lowering = LOWERINGS[node.op]
    operands = [scope.tensor(ref) for ref in node.inputs]
    results = [types[ref] for ref in _outputs(lowering, node, graph)]
    attrs = {key: decode(node.attrs[key]) for key in lowering.attributes if key in node.attrs}
    computes = any(attr in node.attrs for attr in lowering.dtypes)
    try:
        if computes:
            operands = [halves.widened(b, operand) for operand in operands]
            attrs = {key: halves.widened_attr(attr) for key, attr in attrs.items()}
        lowered = lowering.function(b, *operands, **attrs)
        found = list(lowered) if isinstance(lowered, Sequence) else [lowered]
        if computes:
            found = [
                halves.rounded(b, v, DType.from_tf_enum(known.dtype.as_datatype_enum))
                for v, known in zip(found, results, strict=True)
            ]
        return [_sharpened(b, v, known) for v, known in zip(found, results, strict=True)]
    except UnsupportedError as error:
        raise UnsupportedError(error.reason, error.node or node.name) from error
    except IrError as error:
        # A bug in the lowering; the model still works, with this node left in TensorFlow.
        raise UnsupportedError(f"its lowering breaks the IR's rules: {error}", node.name) from error


def _outputs(lowering: Lowering, node: Node, graph: Graph) -> list[TensorRef]:
    """The outputs that the lowering computes."""
    count = len(graph.output_dtypes(node)) if lowering.outputs is None else lowering.outputs
    return [TensorRef(node.name, i) for i in range(count)]


def _sharpened(b: Builder, value: Value, known: TensorInfo) -> Value:
    """The value with the static dims that TensorFlow's inference knows, checked against ours."""
    if known.shape is None:
        return value
    for ours, theirs in zip(b.shape(value), known.shape, strict=True):
        if theirs is not None:
            b.same_dim(ours, theirs, "the shape that TensorFlow infers")
    dims = [
        ours if theirs is None else theirs
        for ours, theirs in zip(b.shape(value), known.shape, strict=True)
    ]
    return b.retype(value, dims)


def _needed(graph: Graph) -> set[str]:
    """Names of the nodes that the outputs depend on."""
    found: set[str] = set()
    stack = [ref.node for _, ref in graph.outputs]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(ref.node for ref in graph.nodes[name].inputs)
    return found


def _type_reason(info: TensorInfo | None) -> str | None:
    if info is None:
        return "has an unknown type"
    if DType.from_tf_enum(info.dtype.as_datatype_enum) is None:
        return f"has dtype {info.dtype.name}, which the compiler doesn't have"
    return "has an unknown rank" if info.shape is None else None


def _content_reason(info: TensorInfo) -> str | None:
    size = 1
    for dim in info.shape or ():
        if dim is None:
            return "describes a shape and has an unknown length"
        size *= dim
    return f"describes a shape and has {size} elements" if size > MAX_ELEMENTS else None


def _is_constant(graph: Graph, ref: TensorRef) -> bool:
    node = graph.nodes[ref.node]
    if node.op in ("Identity", "Pack"):  # what Python slices are traced to
        return all(_is_constant(graph, source) for source in node.inputs)
    return node.op == "Const"


def _dtype_name(enum: int) -> str:
    return str(tf.dtypes.as_dtype(enum).name)


def decode(value: attr_value_pb2.AttrValue) -> Any:
    """An attribute's Python value, as the module's docstring says."""
    kind = value.WhichOneof("value")
    if kind == "list":
        entries = value.list.ListFields()
        return tuple(_decode_item(entries[0][0].name, x) for x in entries[0][1]) if entries else ()
    return _decode_item(kind, getattr(value, kind)) if kind else None


def _decode_item(kind: str, item: Any) -> Any:
    if kind == "s":
        return item.decode()
    if kind == "type":
        return DType.from_tf_enum(item)
    if kind == "shape":
        if item.unknown_rank:
            return None
        return tuple(None if dim.size < 0 else dim.size for dim in item.dim)
    if kind == "tensor":
        return tf.make_ndarray(item)
    return item
