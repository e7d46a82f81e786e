"""Loops (While with its tensor lists), in the form that `tf_blade/loops.py` brings them into.

That is a call of a function that makes the lists, loops, and stacks what the lists hold. The shape
of the elements of an empty list may be known from what the body puts into it, and how long a list
grows from how often the body runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tf_blade.compiler.ir import dims as d
from tf_blade.compiler.ir.builder import Builder
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.loops import counters, is_bounded, is_only_test
from tf_blade.compiler.ir.program import Program, Value
from tf_blade.compiler.lower.functions import Lower, lower_function
from tf_blade.compiler.lower.scope import Complex, Item, Scope, TensorList, structured
from tf_blade.errors import UnsupportedError
from tf_blade.graph.calls import LOOPS
from tf_blade.graph.graph import Graph, Node, TensorRef


@structured(*LOOPS)
def while_loop(b: Builder, node: Node, scope: Scope, lower: Lower) -> list[Item]:
    """While; what the body hands on unchanged is no longer carried."""
    return _Loop(b, node, scope, lower).lower()


class _Loop:
    def __init__(self, b: Builder, node: Node, scope: Scope, lower: Lower) -> None:
        self.b = b
        self.lower_nodes = lower
        self.condition = scope.function(node.attrs["cond"].func.name)
        self.body = scope.function(node.attrs["body"].func.name)
        self.inputs = [scope.any(ref) for ref in node.inputs]
        args = [arg.name for arg in self.body.args]
        self.carried = [
            i for i, (_, ref) in enumerate(self.body.outputs) if self._origin(ref) != args[i]
        ]
        self.fixed = [i for i in range(len(args)) if i not in self.carried]

    def lower(self) -> list[Item]:
        b, carried = self.b, self.carried
        some_trips = self._make_arrays()
        fixed = [i for i in self.fixed if not self._is_known(self.inputs[i])]
        initial = [self._array(self.inputs[i]) for i in carried]
        test = partial(self._run, self.condition, fixed)
        step = partial(self._run, self.body, fixed)
        results = b.while_loop(
            initial,
            [self._array(self.inputs[i]) for i in fixed],
            lambda params: [_tensor(test(params)[0])],
            lambda params: [self._array(x) for x in self._pick(step(params))],
            min_trips=int(some_trips),
        )
        if results:
            assert results[0].op is not None
            loop = results[0].op.operands[0].op
            assert loop is not None
            if not is_bounded(loop.attrs["condition"], loop.attrs["body"]):
                raise UnsupportedError("the number of iterations has no bound", b.source)
        found = list(self.inputs)
        for i, value in zip(carried, results, strict=True):
            before = found[i]
            found[i] = (
                replace(before, array=value, grows=False)
                if isinstance(before, TensorList)
                else value
            )
        return found

    def _origin(self, ref: TensorRef) -> str:
        while self.body.nodes[ref.node].op == "Identity":
            ref = self.body.nodes[ref.node].inputs[0]
        return ref.node

    def _pick(self, results: list[Item]) -> list[Item]:
        return [results[i] for i in self.carried]

    def _array(self, value: Item) -> Value:
        if isinstance(value, Value):
            return value
        if isinstance(value, Complex):
            raise UnsupportedError("complex numbers that a loop carries", self.b.source)
        if value.array is None:
            raise UnsupportedError("the elements of a list have no known shape", self.b.source)
        return value.array

    def _is_known(self, value: Item) -> bool:
        """Whether the value is written out where it is read."""
        if not isinstance(value, Value):
            return False
        op = value.op
        return op is not None and op.kind in ("constant", "shape_value")

    def _run(self, graph: Graph, fixed: Sequence[int], params: Sequence[Value]) -> list[Item]:
        """Lowers the condition or the body for the parameters of its program."""
        arguments = list(self.inputs)
        for i, param in zip([*self.carried, *fixed], params, strict=True):
            before = self.inputs[i]
            if isinstance(before, TensorList):
                arguments[i] = replace(before, array=param)
            else:
                arguments[i] = param
                if i in fixed and isinstance(before, Value):
                    self.b.same_content(param, before)
        for i, value in enumerate(arguments):
            if isinstance(value, Value) and value is self.inputs[i] and value.op is not None:
                arguments[i] = self.b.op(value.op.kind, [], **value.op.attrs)
        return lower_function(self.b, graph, arguments, self.lower_nodes)

    def _make_arrays(self) -> bool:
        """Gives empty lists their arrays; says whether any of them needs an iteration for that."""
        empty = [
            i
            for i in self.carried
            if isinstance(x := self.inputs[i], TensorList) and x.array is None
        ]
        if not empty:
            return False
        kept: list[list[Item]] = []
        tensors = [i for i in self.carried if i not in empty]
        fixed = [i for i in self.fixed if not self._is_known(self.inputs[i])]
        inputs = [self._array(self.inputs[i]) for i in (*tensors, *fixed)]

        def trial(graph: Graph, params: list[Value]) -> list[Value]:
            carried, self.carried = self.carried, tensors
            try:
                results = self._run(graph, fixed, params)
                kept.append(results)
                if graph is self.condition:
                    return [_tensor(results[0])]
                return [self._array(x) for x in self._pick(results)]
            finally:
                self.carried = carried

        body = self.b.nested("trial", inputs, partial(trial, self.body))
        condition = self.b.nested("trial", inputs, partial(trial, self.condition))
        for i in empty:
            before, after = self.inputs[i], kept[0][i]
            assert isinstance(before, TensorList) and isinstance(after, TensorList)
            if after.element is None or None in after.element:
                raise UnsupportedError("the body sets no element of a list", self.b.source)
            element = tuple(n for n in after.element if n is not None)
            length = before.length
            if after.grown_at is not None:
                length = self._count(inputs, condition, body, after.grown_at)
            self.inputs[i] = replace(
                before,
                length=length,
                array=self.b.splat(0, before.dtype, (length, *element)),
                grows=after.grown_at is not None,
            )
        return True

    def _count(
        self, inputs: Sequence[Value], condition: Program, body: Program, index: Value
    ) -> Dim:
        """How many iterations there are, if `index` counts them from 0 and nothing else ends the
        loop: the length of a list that each of them makes longer."""
        for at, limit in counters(condition, body):
            if index is not body.params[at] or not is_only_test(condition):
                continue
            start = self.b.static_content(inputs[at])
            if limit.op is None:
                limit = inputs[condition.params.index(limit)]
            content = self.b.content(limit)
            if start is not None and start == 0 and content is not None:
                return d.larger(content[()], 0)
        raise UnsupportedError("a list that grows by another number than is known", self.b.source)


def _tensor(value: Item) -> Value:
    assert isinstance(value, Value)
    return value
