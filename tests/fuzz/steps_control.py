"""Steps that only a TensorFlow graph has: branches, loops, functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tests.compiler.random_programs.maker import MAX_ERROR, Fact
from tests.fuzz.graph_maker import Block, Call, GraphMaker
from tf_blade.compiler.ir.program import Value
from tf_blade.compiler.ir.types import DType

Step = Callable[[Any], None]
Body = Callable[..., list[Any]]
MAX_NESTED = 6  # steps in one body
MAX_TRIPS = 3
CARRIED = Fact(2.0, MAX_ERROR / 64)  # what a loop keeps between its rounds


def run_body(m: GraphMaker, steps: Sequence[Step]) -> None:
    for _ in range(m.integer(1, MAX_NESTED)):
        m.choose(steps)(m)


def joined(a: Fact, b: Fact) -> Fact:
    """What is known of a value that is one or the other."""
    return Fact(max(a.bound, b.bound), max(a.error, b.error), max(a.grain, b.grain))


def _branches(m: GraphMaker, steps: Sequence[Step], count: int) -> tuple[list[Block], Value, Fact]:
    """Bodies with one result each, all of the type of a value from outside."""
    x = m.value()
    assert x is not None
    fact, blocks = m.facts[x], []
    for _ in range(count):
        with m.block() as block:
            run_body(m, steps)
            found = m.like(x.type.dtype, m.shape(x), x)
            fact = joined(fact, m.facts[found])
            block.results = [found]
        blocks.append(block)
    return blocks, x, fact


def branch(steps: Sequence[Step], *, inside: bool = False) -> Step:
    """tf.cond, with one result; `inside`: also in bodies."""

    def step(m: GraphMaker) -> None:
        predicate = m.value(lambda v: v.type.dtype is DType.BOOL)
        if predicate is None or (m.nested and not inside):
            return
        if predicate.type.rank:
            predicate = m.builder.reduce("or", predicate, range(predicate.type.rank))
            m.keep(predicate, Fact(1))
        blocks, x, fact = _branches(m, steps, 2)
        result = m.foreign(x.type.dtype, m.shape(x), fact)

        def build(inputs: list[Any], bodies: list[Body]) -> Sequence[Any]:
            (found,) = tf.nest.flatten(tf.cond(inputs[0], *bodies))
            return [_shaped(found, result)]

        m.call(Call("cond", [predicate, x], build, blocks, [[], []], [result]))

    return step


def switch(steps: Sequence[Step]) -> Step:
    """tf.switch_case over an integer, which may be out of range."""

    def step(m: GraphMaker) -> None:
        number = m.value(lambda v: v.type.dtype is DType.I32 and m.exact(v))
        if number is None or m.nested:
            return
        if number.type.rank:
            number = m.builder.reduce("max", number, range(number.type.rank))
            m.keep(number, m.rounded(DType.I32, Fact(math.inf)))
        blocks, x, fact = _branches(m, steps, 3)
        result = m.foreign(x.type.dtype, m.shape(x), fact)

        def build(inputs: list[Any], bodies: list[Body]) -> Sequence[Any]:
            (found,) = tf.nest.flatten(tf.switch_case(inputs[0] % 4, bodies))
            return [_shaped(found, result)]

        m.call(Call("case", [number, x], build, blocks, [[], [], []], [result]))

    return step


def loop(steps: Sequence[Step]) -> Step:
    """tf.while_loop that carries one tensor. What a round makes of it is brought back to the same
    bounds, so that they hold for any number of rounds."""

    def step(m: GraphMaker) -> None:
        x = m.value(lambda v: v.type.dtype in (DType.F32, DType.F64, DType.I32))
        if x is None or m.nested:
            return
        dtype, b = x.type.dtype, m.builder
        x = _bounded(m, x)
        trips = m.integer(0, MAX_TRIPS)
        with m.block() as block:
            carried = m.foreign(dtype, m.shape(x), CARRIED if dtype.is_float else Fact(9))
            run_body(m, [*steps, branch(steps, inside=True)])
            found = m.like(dtype, m.shape(x), carried)
            block.results = [_bounded(m, found)]
        result = m.foreign(dtype, m.shape(x), m.facts[carried])
        assert b is m.builder

        def build(inputs: list[Any], bodies: list[Body]) -> Sequence[Any]:
            def body(i: Any, carry: Any) -> Any:
                (after,) = bodies[0](carry)
                after.set_shape(carry.shape)
                return i + 1, after

            start = tf.ensure_shape(inputs[0], _static(carried))
            _, found = tf.while_loop(lambda i, _: i < trips, body, (0, start))
            return [found]

        m.call(Call("while", [x], build, [block], [[carried]], [result]))

    return step


def rows(steps: Sequence[Step]) -> Step:
    """A loop over the rows of a tensor, which writes one of each into a TensorArray."""

    def step(m: GraphMaker) -> None:
        x = m.value(lambda v: v.type.rank > 0 and v.type.dtype in (DType.F32, DType.F64, DType.I32))
        if x is None or m.nested:
            return
        dtype, shape = x.type.dtype, m.shape(x)
        grows = m.flag()
        with m.block() as block:
            row = m.foreign(dtype, shape[1:], m.facts[x])
            carried = m.foreign(dtype, shape[1:], CARRIED if dtype.is_float else Fact(9))
            run_body(m, [*steps, branch(steps, inside=True)])
            found = m.like(dtype, shape[1:], row)
            if m.flag():
                found = m.like(dtype, shape[1:], carried)
            block.results = [_bounded(m, found)]
        result = m.foreign(dtype, shape, m.facts[carried])

        def build(inputs: list[Any], bodies: list[Body]) -> Sequence[Any]:
            (source,) = inputs
            count, element = tf.shape(source)[0], _static(row)
            read = tf.TensorArray(source.dtype, count, element_shape=element).unstack(source)
            made = tf.TensorArray(
                source.dtype, 0 if grows else count, dynamic_size=grows, element_shape=element
            )

            def body(i: Any, carry: Any, array: Any) -> Any:
                (after,) = bodies[0](_shaped(read.read(i), row), carry)
                return i + 1, _shaped(after, carried), array.write(i, after)

            start = tf.zeros(tf.shape(source)[1:], source.dtype)
            *_, array = tf.while_loop(
                lambda i, *_: i < count, body, (0, tf.ensure_shape(start, element), made)
            )
            return [_shaped(array.stack(), result)]

        m.call(Call("rows", [x], build, [block], [[row, carried]], [result]))

    return step


def function(steps: Sequence[Step]) -> Step:
    """A call of a tf.function."""

    def step(m: GraphMaker) -> None:
        x = m.value()
        if x is None or m.nested:
            return
        with m.block() as block:
            inner = m.foreign(x.type.dtype, m.shape(x), m.facts[x])
            run_body(m, steps)
            made = m.like(x.type.dtype, m.shape(x), inner)
            block.results = [made]
        if inner not in m.prune(block):
            return
        result = m.foreign(x.type.dtype, m.shape(x), m.facts[made])

        def build(inputs: list[Any], bodies: list[Body]) -> Sequence[Any]:
            return [_shaped(tf.function(bodies[0], autograph=False)(inputs[0])[0], result)]

        m.call(Call("function", [x], build, [block], [[inner]], [result]))

    return step


def _bounded(m: GraphMaker, x: Value) -> Value:
    """x brought into what a loop carries."""
    dtype, fact, b = x.type.dtype, m.facts[x], m.builder
    if not dtype.is_float:
        return m.keep(b.binary("floor_mod", x, b.constant(10, dtype)), Fact(9))
    scale = 1.0
    while fact.bound * scale > CARRIED.bound or fact.error * scale > CARRIED.error / 2:
        scale /= 2
    return m.keep(b.mul(x, b.constant(scale, dtype)), CARRIED)


def _static(value: Value) -> list[int | None]:
    return [n if isinstance(n, int) else None for n in value.type.shape]


def _shaped(tensor: Any, value: Value) -> Any:
    tensor.set_shape(_static(value))
    return tensor


def control_steps(steps: Sequence[Step]) -> list[Step]:
    """The steps of this file; `steps` are those that bodies are made of."""
    return [branch(steps), switch(steps), loop(steps), rows(steps), function(steps)]
