"""Loops in generated code give TensorFlow's answers; others stay there, with a reason."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.compiler.ctypes_host import CtypesHost
from tests.compiler.harness import Prepared, graph_of, trace
from tests.compiler.values import Arg, Case, between, computed, finite
from tests.compiler.wrapping import check_answers, compile_wrapped, wrapped
from tf_blade.graph.calls import LOOP_PREFIX
from tf_blade.passes import PassContext, pipeline

RNG = np.random.default_rng(5)
W = (RNG.standard_normal((4, 4)) * 0.5).astype(np.float32)
KERNEL = (RNG.standard_normal((3, 80)) * 0.5).astype(np.float32)
LARGE = np.ones((64, 64), np.float32)
RECURRENT = (RNG.standard_normal((20, 80)) * 0.3).astype(np.float32)
X = Arg("f32", ("n", 4), finite)
SEQUENCE = Arg("f32", ("t", "n", 3), finite)
# Not negative: TensorFlow reads somewhere else then.
PLACE = Arg("i32", (), computed(lambda rng, dims: rng.integers(0, 9)))
X_ROWS = Arg("f32", ("t", 4), finite)
TRIPS = Arg("i32", (), computed(lambda rng, dims: rng.integers(-1, 9)))


def counted(x: Any, n: Any) -> Any:
    return tf.while_loop(
        lambda i, h: i < n, lambda i, h: (i + 1, tf.tanh(h @ W) + x), [0, tf.zeros_like(x)]
    )


def downward(x: Any, n: Any) -> Any:
    """What is carried changes places; the counter is one of several, of another dtype."""
    return tf.while_loop(
        lambda a, b, i, go: tf.logical_and(go, i > 0),
        lambda a, b, i, go: (b, a * 0.5, i - 1, tf.reduce_sum(a) < 50.0),
        [x, x + 1, tf.cast(n, tf.int64), True],
    )


def limited(x: Any) -> Any:
    """The bound is maximum_iterations; the condition looks at data."""
    return tf.while_loop(
        lambda h: tf.reduce_max(h) < 3.0, lambda h: h * 1.5 + 0.1, [x], maximum_iterations=7
    )


def fed_shape(x: Any, n: Any) -> Any:
    """The body needs the elements of a shape that is computed before the loop."""
    shape = tf.stack([tf.shape(x)[0] * 2, 2])
    return tf.while_loop(
        lambda i, h: i < n,
        lambda i, h: (i + 1, tf.reshape(tf.reshape(h, shape) * 2.0 - 1.0, tf.shape(h))),
        [0, x],
    )[1]


def written(x: Any) -> Any:
    """A TensorArray whose elements have the batch's size."""
    count = tf.shape(x)[0]
    array = tf.TensorArray(tf.float32, count, element_shape=[None])
    _, array = tf.while_loop(
        lambda i, a: i < count, lambda i, a: (i + 1, a.write(i, x[i] * 2.0)), [0, array]
    )
    return array.stack()


def written_partly(x: Any, n: Any) -> Any:
    """Elements that nobody wrote are zeros, those outside are errors."""
    array = tf.TensorArray(tf.float32, 4, element_shape=[4])
    _, array = tf.while_loop(
        lambda i, a: i < n,
        lambda i, a: (i + 1, a.write(i, tf.reduce_sum(x, 0))),
        [0, array],
    )
    return array.stack()


def read_back(x: Any, n: Any) -> Any:
    """An array that the loop reads and writes."""
    array = tf.TensorArray(tf.float32, 6, element_shape=[4], clear_after_read=False)
    array = array.unstack(tf.concat([tf.zeros([6, 4]), x], 0)[:6])
    _, array = tf.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, a.read(5 - i) + W[0])), [0, array]
    )
    return array.stack()


def read_past_the_end(x: Any, n: Any) -> Any:
    """An index outside is an error, also where elements are empty."""
    array = tf.TensorArray(tf.float32, 3).unstack(tf.stack([x, x + 1, x * 2]))
    return tf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, h + array.read(i)), [0, x])


def appended(x: Any, n: Any) -> Any:
    """A list that grows by one element an iteration, as often as is asked for."""
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[4])
    _, h, array = tf.while_loop(
        lambda i, h, a: i < n, lambda i, h, a: (i + 1, h * 0.5, a.write(i, h)), [0, W[0], array]
    )
    return array.stack(), array.size(), h


def appended_rows(x: Any) -> Any:
    """The same for each row; nobody says what shape the elements have."""
    count = tf.shape(x)[0]
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
    _, array = tf.while_loop(
        lambda i, a: i < count, lambda i, a: (i + 1, a.write(i, tf.tanh(x[i]))), [0, array]
    )
    return array.stack()


def gathered(x: Any, n: Any) -> Any:
    """Some elements, not all, after the loop and in it."""
    rows = tf.TensorArray(tf.float32, 5, element_shape=[4], clear_after_read=False)
    rows = rows.unstack(tf.concat([tf.ones([5, 4]), x], 0)[:5])

    def body(i: Any, h: Any, a: Any) -> Any:
        pair = rows.gather([i, 4 - i])
        return i + 1, h + pair[0] - pair[1], a.write(i, h)

    array = tf.TensorArray(tf.float32, 5, element_shape=[4])
    _, h, array = tf.while_loop(lambda i, *_: i < 4, body, [0, W[1], array])
    return h, array.gather(tf.stack([n, 0, n]))


def scattered(x: Any, n: Any) -> Any:
    """Elements that are put into places of a list before the loop reads it."""
    array = tf.TensorArray(tf.float32, 6, element_shape=[4], clear_after_read=False)
    array = array.scatter(tf.stack([2, n, 0]), tf.stack([W[0], W[1], W[2]]))
    return tf.while_loop(
        lambda i, h: i < 6, lambda i, h: (i + 1, h * 0.5 + array.read(i)), [0, tf.zeros([4])]
    )[1]


def indexed(x: Any, n: Any) -> Any:
    """Positions from the end, and some that aren't there."""
    return tf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, h * 0.5 + x[2 - i]), [0, x[0]])


def scanned(x: Any) -> Any:
    return tf.scan(lambda h, row: tf.tanh(h @ W) + row, x, tf.zeros([4])[None][0:1])


def mapped(x: Any) -> Any:
    return tf.map_fn(lambda row: tf.nn.softmax(row) * tf.reduce_max(row), x)


def divided(x: Any, n: Any) -> Any:
    """Dividing by zero is an error, in whichever iteration."""
    return tf.while_loop(
        lambda i, h: i < n, lambda i, h: (i + 1, h + 100 // (3 - i)), [0, tf.cast(x, tf.int32)]
    )[1]


def unread_error(x: Any, n: Any) -> Any:
    """Only the shape of what may fail is read."""

    def body(i: Any, h: Any) -> Any:
        row = tf.gather(x, tf.reshape(i, [1]))
        return i + 1, h + tf.cast(tf.shape(row)[0], tf.float32)

    return tf.while_loop(lambda i, h: i < n, body, [0, 1.0])[1]


def nested(x: Any, n: Any) -> Any:
    def inner(h: Any) -> Any:
        return tf.while_loop(lambda j, h: j < n, lambda j, h: (j + 1, h * 2.0), [0, h])[1]

    return tf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, inner(h)), [0, x])


def choosing(x: Any, n: Any) -> Any:
    """Branches that are chosen by the counter, by data, inside one another."""

    def body(i: Any, h: Any) -> Any:
        def late() -> Any:
            return tf.cond(tf.reduce_sum(h) > 0.0, lambda: h * 0.5, lambda: h @ W - x)

        return i + 1, tf.cond(i > 1, late, lambda: h - W[0])

    return tf.while_loop(lambda i, h: i < n, body, [0, x])


def switched(x: Any, n: Any) -> Any:
    """One of several branches; numbers out of range are the last one's."""
    branches = [lambda: (x, 1), lambda: (x * 2.0, 5), lambda: (tf.tanh(x), -3)]

    def body(i: Any, h: Any, k: Any) -> Any:
        y, more = tf.switch_case(i - 1, [lambda f=f: f() for f in branches])
        return i + 1, h + y, k * 2 + more

    return tf.while_loop(lambda i, *_: i < n, body, [0, tf.zeros_like(x), 0])


def truthy(x: Any, n: Any) -> Any:
    """A condition that is a number."""

    def branch(factor: float) -> Any:
        function = tf.function(lambda h: h * factor, autograph=False)
        return function.get_concrete_function(tf.TensorSpec([None, 4]))

    doubled, halved = branch(2.0), branch(0.5)

    def body(i: Any, h: Any) -> Any:
        (y,) = tf.raw_ops.StatelessIf(
            cond=n - i - 2,
            input=[h],
            Tout=[h.dtype],
            then_branch=doubled,
            else_branch=halved,
            output_shapes=[[None, 4]],
        )
        return i + 1, y

    return tf.while_loop(lambda i, h: i < n, body, [0, x])


def lstm(x: Any) -> Any:
    def body(i: Any, h: Any, c: Any, out: Any) -> Any:
        a, b, d, e = tf.split(x_array.read(i) @ KERNEL + h @ RECURRENT, 4, 1)
        c = tf.sigmoid(b) * c + tf.sigmoid(a) * tf.tanh(d)
        h = tf.sigmoid(e) * tf.tanh(c)
        return i + 1, h, c, out.write(i, h)

    steps, batch = tf.shape(x)[0], tf.shape(x)[1]
    x_array = tf.TensorArray(tf.float32, steps).unstack(x)
    out = tf.TensorArray(tf.float32, steps)
    zeros = tf.zeros([batch, 20])
    _, h, c, out = tf.while_loop(lambda i, *_: i < steps, body, [0, zeros, zeros, out])
    return h, c, out.stack()


CLOSE: dict[str, Any] = {"relative": 1e-5, "absolute": 1e-5}
SMALL = Arg("f32", ("n", 4), between(-1, 1))


def has_steps(dims: Any, arrays: Any) -> bool:
    """Without any iteration nothing has a shape; TensorFlow knows some of these."""
    return bool(dims["t"] > 0)


CASES = [
    Case("counted", counted, (X, TRIPS), **CLOSE),
    Case("downward", downward, (SMALL, TRIPS), **CLOSE),
    Case("limited", limited, (X,), **CLOSE),
    Case("fed_shape", fed_shape, (X, TRIPS), **CLOSE),
    Case("written", written, (Arg("f32", ("t", "n"), finite),), assumes=has_steps),
    Case("written_partly", written_partly, (X, TRIPS), **CLOSE),
    Case("read_back", read_back, (X, TRIPS), **CLOSE),
    Case("read_past_the_end", read_past_the_end, (X, TRIPS), **CLOSE),
    Case("appended", appended, (X, TRIPS), assumes=lambda dims, arrays: bool(arrays[1] > 0)),
    Case("appended_rows", appended_rows, (X_ROWS,), assumes=has_steps, ulps=4),
    Case("gathered", gathered, (X, PLACE), **CLOSE),
    Case(
        "scattered",
        scattered,
        (X, PLACE),
        assumes=lambda dims, arrays: bool(arrays[1] < 6),
        **CLOSE,
    ),
    Case("indexed", indexed, (X, TRIPS), **CLOSE),
    Case("scanned", scanned, (Arg("f32", ("t", 1, 4), finite),), assumes=has_steps, **CLOSE),
    Case("mapped", mapped, (X,), **CLOSE),
    Case("divided", divided, (X, TRIPS)),
    Case("unread_error", unread_error, (X, TRIPS)),
    Case("nested", nested, (X, TRIPS), **CLOSE),
    Case("choosing", choosing, (X, TRIPS), **CLOSE),
    Case("switched", switched, (X, TRIPS), **CLOSE),
    Case("truthy", truthy, (X, TRIPS), **CLOSE),
    Case("lstm", lstm, (SEQUENCE,), assumes=has_steps, **CLOSE),
]


@functools.cache
def compiled() -> dict[str, tuple[Prepared, CtypesHost]]:
    return compile_wrapped(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_loops_give_tensorflows_answers_or_refuse_where_they_may(case: Case):
    check_answers(*compiled()[case.name], sizes=(0, 1, 2, 3, 5, 8))


def unbounded(x: Any) -> Any:
    return tf.while_loop(lambda h: tf.reduce_max(h) < 3.0, lambda h: h * 1.5, [x])


def faster_and_faster(x: Any) -> Any:
    return tf.while_loop(lambda i, h: i < 9, lambda i, h: (i + i, h), [1, x])


def growing(x: Any, n: Any) -> Any:
    return tf.while_loop(
        lambda i, h: i < n,
        lambda i, h: (i + 1, tf.concat([h, h[:1]], 0)),
        [0, x],
        [tf.TensorShape([]), tf.TensorShape([None, 4])],
    )


def failing_branch(x: Any, n: Any) -> Any:
    """Only where it is taken may the row be missing."""

    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.cond(i > 0, lambda: h + tf.gather(x, i - 1), lambda: h)

    return tf.while_loop(lambda i, h: i < n, body, [0, tf.zeros([4])])


def looping_branch(x: Any, n: Any) -> Any:
    def inner(h: Any) -> Any:
        return tf.while_loop(lambda j, h: j < n, lambda j, h: (j + 1, h * 2.0), [0, h])[1]

    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.cond(i > 0, lambda: inner(h), lambda: h)

    return tf.while_loop(lambda i, h: i < n, body, [0, x])


def listing_branch(x: Any, n: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(i > 0, lambda: a.write(i, x[0]).flow, lambda: a.flow)

    array = tf.TensorArray(tf.float32, 9, element_shape=[4])
    flow = tf.while_loop(
        lambda i, f: i < n,
        lambda i, f: body(i, tf.TensorArray(tf.float32, flow=f)),
        [0, array.flow],
    )[1]
    return tf.raw_ops.TensorListStack(
        input_handle=flow, element_shape=[4], element_dtype=tf.float32
    )


def random_branch(x: Any, n: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.cond(i > 1, lambda: h + tf.random.uniform([4]), lambda: h)

    return tf.while_loop(lambda i, h: i < n, body, [0, x])


def large_branch(x: Any, n: Any) -> Any:
    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.cond(i > 1, lambda: h + tf.reduce_sum(LARGE @ LARGE), lambda: h)

    return tf.while_loop(lambda i, h: i < n, body, [0, x])


def random(x: Any, n: Any) -> Any:
    return tf.while_loop(
        lambda i, h: i < n, lambda i, h: (i + 1, h + tf.random.uniform([4])), [0, x]
    )


def strings(x: Any, n: Any) -> Any:
    return tf.while_loop(
        lambda i, h: i < n, lambda i, h: (i + 1, tf.strings.join([h, h])), [0, tf.as_string(x)]
    )


def skipped(x: Any, n: Any) -> Any:
    """A list that grows, whose last element depends on data."""
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[4])
    _, array = tf.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, a.write(i // 2, x[0])), [0, array]
    )
    return array.stack()


def stopped(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[4])
    _, _, array = tf.while_loop(
        lambda i, h, a: tf.logical_and(i < n, tf.reduce_sum(h) < 9.0),
        lambda i, h, a: (i + 1, h + 1.0, a.write(i, h)),
        [0, x[0], array],
    )
    return array.stack()


def measured(x: Any, n: Any) -> Any:
    """How long a list is so far."""

    def body(i: Any, k: Any, a: Any) -> Any:
        a = a.write(i, x[0])
        return i + 1, k + a.size(), a

    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[4])
    _, k, array = tf.while_loop(lambda i, *_: i < n, body, [0, 0, array])
    return k, array.stack()


def written_twice(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[4])
    _, array = tf.while_loop(
        lambda i, a: i < n,
        lambda i, a: (i + 1, a.write(i + 1, x[0]).write(i, x[1])),
        [0, array],
    )
    return array.stack()


def gathered_where_it_ends(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, 9, element_shape=[4])
    i, array = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, x[0])), [0, array])
    return array.gather(tf.reshape(i - 1, [1]))


@pytest.mark.parametrize(
    ("function", "args", "reason"),
    [
        (unbounded, (X,), "no bound"),
        (faster_and_faster, (X,), "no bound"),
        (growing, (X, TRIPS), "changes its shape"),
        (failing_branch, (X, TRIPS), "a branch that may fail"),
        (looping_branch, (X, TRIPS), "a branch that may fail"),
        (listing_branch, (X, TRIPS), "dtype variant"),
        (random_branch, (X, TRIPS), "RandomUniform is stateful"),
        (large_branch, (X, TRIPS), "a large constant in a function that it calls"),
        (random, (X, TRIPS), "RandomUniform is stateful"),
        (strings, (X, TRIPS), "string"),
        (skipped, (X, TRIPS), "grows by another number"),
        (stopped, (X, TRIPS), "grows by another number"),
        (measured, (X, TRIPS), "the length of a list that grows"),
        (written_twice, (X, TRIPS), "grows by several elements"),
        (gathered_where_it_ends, (X, TRIPS), "where its results say"),
    ],
    ids=lambda v: v.__name__ if callable(v) else None,
)
def test_other_loops_stay_as_they_are(function: Any, args: Any, reason: str):
    concrete = trace(function, args)
    before = {node.name for node in pipeline.run(graph_of(concrete), PassContext())}
    _, graph, _, found = wrapped(function, args)
    assert any(reason in why for why in found.left.values()), found.left
    assert not [name for name in graph.library if name.startswith(LOOP_PREFIX)]
    assert {node.name for node in graph} == before
