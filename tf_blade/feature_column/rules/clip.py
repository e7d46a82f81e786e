"""tf.clip_by_norm on rows of a table, as max_norm makes it:

sum = Sum(v * v, keep_dims); positive = sum > 0
norm = Select(positive, Sqrt(Select(positive, sum, 1)), sum)
v * limit / Maximum(norm, limit)
"""

from __future__ import annotations

from tf_blade.feature_column.interpret import Interpreter, Result, rule
from tf_blade.feature_column.rules.tables import finish, vectors_of
from tf_blade.feature_column.values import Elements, NormStep, Value, Vectors
from tf_blade.graph.graph import Node, TensorRef


def _step(value: Value | None, kind: str) -> NormStep | None:
    return value if isinstance(value, NormStep) and value.kind == kind else None


def _plain(m: Interpreter, ref: TensorRef) -> Vectors | None:
    vectors = vectors_of(m, ref)
    if vectors is None or vectors.weight is not None or vectors.max_norm is not None:
        return None
    return vectors


@rule("Mul")
def square_or_scale(m: Interpreter, node: Node) -> Result:
    """v * v, or v * limit."""
    a, b = _plain(m, node.inputs[0]), _plain(m, node.inputs[1])
    if a is not None and node.inputs[0] == node.inputs[1]:
        return NormStep("square", a)
    vectors, limit = (a, m.scalar(node.inputs[1])) if a else (b, m.scalar(node.inputs[0]))
    if vectors is None or not isinstance(limit, float) or not limit > 0:
        return None
    return NormStep("scaled", vectors, limit)


@rule("Square")
def square(m: Interpreter, node: Node) -> Result:
    """v * v."""
    vectors = _plain(m, node.inputs[0])
    return NormStep("square", vectors) if vectors is not None else None


@rule("Sum")
def total(m: Interpreter, node: Node) -> Result:
    """The squares of a row, summed up."""
    step, axes = _step(m.value(node.inputs[0]), "square"), m.constant(node.inputs[1])
    if step is None or axes is None or not node.attrs["keep_dims"].b:
        return None
    leading = len(step.vectors.ids.dims)
    rank = leading + len(step.vectors.tail)
    if sorted(int(a) % rank for a in axes.reshape(-1)) != list(range(leading, rank)):
        return None
    return NormStep("sum", step.vectors)


@rule("Greater")
def positive(m: Interpreter, node: Node) -> Result:
    """Which rows are not all zeros."""
    step = _step(m.value(node.inputs[0]), "sum")
    if step is None or m.scalar(node.inputs[1]) != 0.0:
        return None
    return NormStep("positive", step.vectors)


@rule("Select", "SelectV2")
def safe_or_norm(m: Interpreter, node: Node) -> Result:
    """The sum, or 1 where it is 0; the norm, or the sum where that is 0 or NaN."""
    where, then, other = (m.value(ref) for ref in node.inputs)
    condition = _step(where, "positive")
    if condition is None:
        return None
    vectors = condition.vectors
    if then == NormStep("sum", vectors) and _is_one(other):
        return NormStep("safe", vectors)
    if then == NormStep("root", vectors) and other == NormStep("sum", vectors):
        return NormStep("norm", vectors)
    return None


def _is_one(value: Value | None) -> bool:
    return isinstance(value, Elements) and value.expr.op == "const" and value.expr.scalar == 1


@rule("Sqrt")
def root(m: Interpreter, node: Node) -> Result:
    """The norm of rows that are not all zeros."""
    step = _step(m.value(node.inputs[0]), "safe")
    return NormStep("root", step.vectors) if step else None


@rule("Maximum")
def cap(m: Interpreter, node: Node) -> Result:
    """The norm, at least the limit."""
    for a, b in (node.inputs, node.inputs[::-1]):
        step, limit = _step(m.value(a), "norm"), m.scalar(b)
        if step is not None and isinstance(limit, float):
            return NormStep("cap", step.vectors, limit)
    return None


@rule("RealDiv")
def clipped(m: Interpreter, node: Node) -> Result:
    """Rows scaled down to the limit."""
    scaled, capped = (m.value(ref) for ref in node.inputs)
    up, down = _step(scaled, "scaled"), _step(capped, "cap")
    if up is None or down is None or up.vectors != down.vectors or up.limit != down.limit:
        return None
    v = up.vectors
    return finish(m, node, Vectors(v.table, v.ids, v.tail, v.distinct, up.limit))
