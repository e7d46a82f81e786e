"""Loops in the IR: one op that runs two programs, and what is asked of it.

    %3: i64[] = while(%0, %x, %w, min_trips=0)
    program condition(%p0: i32[], %p1: f32[s0], %p2: f32[s0]) -> (%1) { … }
    program body(%p0: i32[], %p1: f32[s0], %p2: f32[s0]) -> (%1, %4) { … }
    %4: f32[s0] = carried(%3, index=1)

The body's n results are the next values of its first n parameters; the parameters after them are
the same in each iteration. The op's own result is the number of iterations; `carried` gives the
last value of one of the n. Both programs are in terms of the symbols of the program around them,
and so a carried value has one shape from the first iteration to the last.
"""

from __future__ import annotations

from collections.abc import Iterator

from tf_blade.compiler.ir.program import Op, Program, Value

# A loop of more iterations refuses the run: TensorFlow's can be cancelled, generated code can't.
MAX_TRIPS = 1 << 20
TOO_MANY_TRIPS = f"more than {MAX_TRIPS} iterations"
TOO_FEW_TRIPS = "no iteration gives its result a shape"


def nested_programs(op: Op) -> Iterator[Program]:
    """The programs that an op runs, in the order of their attributes."""
    return (attr for attr in op.attrs.values() if isinstance(attr, Program))


def carried_of(program: Program, loop: Op) -> list[Value]:
    """The results of a loop that are read, in program order."""
    return [
        op.result for op in program.ops if op.kind == "carried" and op.operands[0] is loop.result
    ]


def is_bounded(condition: Program, body: Program) -> bool:
    """Whether the loop ends for certain: a carried counter goes, one a step, towards a limit that
    stays the same, and the condition fails when it is there, whatever else it asks for."""
    tests = [v.op for v in _demands(condition.results[0]) if v.op is not None]
    return any(_bounds(op, condition, body) for op in tests)


def counters(condition: Program, body: Program) -> Iterator[tuple[int, Value]]:
    """Carried values that grow by one a step, and the fixed values (of the condition) that they
    have to stay below."""
    for value in _demands(condition.results[0]):
        if value.op is not None:
            found = _counts(value.op, 1, condition, body)
            if found is not None:
                yield found


def is_only_test(condition: Program) -> bool:
    """Whether the condition asks for one thing only, so that a counter says how often it holds."""
    return len(list(_demands(condition.results[0]))) == 1


def _demands(value: Value) -> Iterator[Value]:
    """Conditions that hold where the value is true."""
    op = value.op
    if op is not None and op.kind in ("and", "reshape"):
        for operand in op.operands:
            yield from _demands(operand)
    else:
        yield value


def _bounds(test: Op, condition: Program, body: Program) -> bool:
    return any(_counts(test, step, condition, body) is not None for step in (1, -1))


def _counts(test: Op, step: int, condition: Program, body: Program) -> tuple[int, Value] | None:
    """The counter that a comparison tests, and its limit, if the body adds `step` to it."""
    if test.kind != "compare" or test.result.type.rank != 0:
        return None
    counter, limit = test.operands
    towards = {"LT": 1, "GT": -1}.get(test.attrs["direction"])
    if towards == -step:
        counter, limit, towards = limit, counter, step
    if towards != step or not counter.type.dtype.is_integer:
        return None
    if _step(counter, condition, body) != step or not _is_fixed(limit, condition, body):
        return None
    return condition.params.index(counter), limit


def _is_fixed(value: Value, condition: Program, body: Program) -> bool:
    if value.op is not None:
        return all(_is_fixed(v, condition, body) for v in value.op.operands)
    index = condition.params.index(value)
    return index >= len(body.results) or body.results[index] is body.params[index]


def _step(value: Value, condition: Program, body: Program) -> int:
    """What the body adds to a carried integer; 0 if it isn't that plain."""
    if value not in condition.params:
        return 0
    index = condition.params.index(value)
    after = body.results[index].op if index < len(body.results) else None
    if after is None or after.kind not in ("add", "sub"):
        return 0
    first, second = after.operands
    if after.kind == "add" and second is body.params[index]:
        first, second = second, first
    if first is not body.params[index] or second.op is None or second.op.kind != "constant":
        return 0
    step = int(second.op.attrs["value"])
    return step if after.kind == "add" else -step
