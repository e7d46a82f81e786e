"""Conditionals inside loops: all branches are computed, and one of their results is chosen.

So a branch may have no effects, and nothing that may be an error where it isn't taken.
"""

from __future__ import annotations

from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.refusals import may_refuse
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower.functions import Lower, lower_function
from tf_blade.compiler.lower.scope import Item, Scope, structured
from tf_blade.errors import UnsupportedError
from tf_blade.graph.graph import Node


@structured("If", "StatelessIf")
def if_then_else(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """The results of one of two functions."""
    predicate = scope.tensor(node.inputs[0])
    if predicate.type.rank != 0:
        raise UnsupportedError("a condition that is no scalar", b.source)
    if predicate.type.dtype is not DType.BOOL:
        predicate = b.compare("NE", predicate, b.constant(0, predicate.type.dtype))
    names = [node.attrs[key].func.name for key in ("then_branch", "else_branch")]
    first, second = (_branch(b, node, scope, lower, name) for name in names)
    return [_chosen(b, predicate, x, y) for x, y in zip(first, second, strict=True)]


@structured("Case", "StatelessCase")
def case(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """The results of one of several functions; the last one's for a number out of range."""
    number = scope.tensor(node.inputs[0])
    names = [function.name for function in node.attrs["branches"].list.func]
    *others, results = [_branch(b, node, scope, lower, name) for name in names]
    for i, branch in reversed(list(enumerate(others))):
        taken = b.compare("EQ", number, b.constant(i, number.type.dtype))
        results = [_chosen(b, taken, x, y) for x, y in zip(branch, results, strict=True)]
    return [*results]


def _branch(b: Builder, node: Node, scope: Scope, lower: Lower, name: str) -> list[Value]:
    body = scope.function(name)
    first = len(b.program.ops)
    results = lower_function(b, body, [scope.any(ref) for ref in node.inputs[1:]], lower)
    refused = [op for op in b.program.ops[first:] if may_refuse(op)]
    if refused:
        raise UnsupportedError("a branch that may fail", refused[0].source)
    found = [value for value in results if isinstance(value, Value)]
    if len(found) != len(results):
        raise UnsupportedError("a branch that gives a list", b.source)
    return found


def _chosen(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    if x.type.rank != y.type.rank:
        raise UnsupportedError("branches that give tensors of different ranks", b.source)
    for n, k in zip(x.type.shape, y.type.shape, strict=True):
        b.same_dim(n, k, "branches give tensors of one shape")
    return b.select(condition, x, b.retype(y, b.shape(x)))
