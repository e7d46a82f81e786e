"""Generated code of lookups gives what the reference gives, and refuses what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.feature_column.lookups import VOCABULARIES, random_case
from tf_blade import _runtime
from tf_blade.compiler.build import build, find_compiler
from tf_blade.errors import CompileError
from tf_blade.feature_column import reference
from tf_blade.feature_column.emit import emit_lookup
from tf_blade.feature_column.emit.expressions import literal, string
from tf_blade.feature_column.emit.vocabularies import fingerprints, hash_of_int, place
from tf_blade.feature_column.spec import (
    Bag,
    Dense,
    Expr,
    Lookup,
    Output,
    Part,
    Stream,
    Table,
    Vocabulary,
)
from tf_blade.machine import cpu_target

F32 = np.dtype(np.float32)
SEEDS = range(10)


def compiled(lookups: list[Lookup]) -> list[_runtime.Executable]:
    sources = [emit_lookup("lookup", lookup) for lookup in lookups]
    results = build(
        sources,
        compiler=find_compiler(None),
        targets=[cpu_target()],
        cache_dir=None,
        jobs=2,
        extra_flags=["-O1"],
    )
    executables = []
    for result, source in zip(results, sources, strict=True):
        assert not isinstance(result, CompileError), f"{result}\n{source[-4000:]}"
        executables.append(_runtime.Executable(result.executable))
    return executables


@pytest.fixture(scope="module")
def random_lookups():
    """seed -> (lookup, its executable)."""
    lookups = [random_case(seed)[0] for seed in SEEDS]
    return dict(zip(SEEDS, zip(lookups, compiled(lookups), strict=True), strict=True))


def run(executable, lookup: Lookup, inputs, threads=1):
    return executable.run(inputs, [F32] * len(lookup.outputs), threads=threads)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_random_lookups(random_lookups, seed, threads):
    lookup, executable = random_lookups[seed]
    inputs = random_case(seed)[1]
    try:
        expected = reference.evaluate(lookup, inputs)
    except reference.Refused:
        with pytest.raises(_runtime.Refused):
            run(executable, lookup, inputs, threads)
        return
    try:
        outputs = run(executable, lookup, inputs, threads)
    except _runtime.Refused as error:
        assert "too many crosses" in str(error)
        return
    for output, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=2e-5, atol=1e-6)


def value(dtype: str, at: int = 0) -> Expr:
    return Expr("value", dtype, at=at)


def const(dtype: str, scalar) -> Expr:
    return Expr("const", dtype, scalar=scalar)


def element_wise(exprs: list[Expr], dtypes: tuple[str, ...]) -> Lookup:
    """An output for each f32 expression over inputs [B, 1]."""
    outputs = tuple(Output((Part(0, 1, dense=expr),), (1,)) for expr in exprs)
    return Lookup(dtypes, (), (), outputs, VOCABULARIES)


def test_every_expression_is_tensorflow_s():
    i64, i32, f32, f64, text = (
        value(dtype, at) for at, dtype in enumerate(("i64", "i32", "f32", "f64", "string"))
    )

    def f(expr: Expr) -> Expr:
        return Expr("cast", "f32", (expr,))

    # Not near 2^63: the f32 results must tell right from wrong.
    small = Expr("floor_mod", "i64", (i64, const("i64", 10_007)))
    exprs = [
        f(Expr(op, "i64", (small, const("i64", c))))
        for op in ("add", "sub", "mul", "floor_div", "floor_mod", "maximum", "minimum")
        for c in (7, -3)
    ]
    exprs += [f(Expr(op, "i32", (i32, const("i32", -3)))) for op in ("floor_div", "floor_mod")]
    exprs += [
        f(Expr(op, t, (x, const(t, 0.7))))
        for op in ("add", "sub", "mul", "floor_div", "floor_mod", "maximum", "minimum")
        for t, x in (("f32", f32), ("f64", f64))
    ]
    exprs += [
        f(Expr("div", t, (x, const(t, scalar))))
        for scalar in (0.7, 0.0, -3.0)
        for t, x in (("f32", f32), ("f64", f64))
    ]
    exprs += [
        f(Expr("add", t, (x, Expr("constants", t, constants=(c,)))))
        for t, x, c in (("i64", small, -7), ("i32", i32, 5), ("f32", f32, 0.1), ("f64", f64, 0.1))
    ]
    exprs += [
        f(Expr(op, t, (x,)))
        for op in ("neg", "abs")
        for t, x in (("i64", small), ("i32", i32), ("f32", f32), ("f64", f64))
    ]
    compare = [
        Expr(op, "bool", (small, const("i64", 3))) for op in ("eq", "ne", "lt", "le", "gt", "ge")
    ]
    compare += [
        Expr(op, "bool", (f32, const("f32", 0.5))) for op in ("eq", "ne", "lt", "le", "gt", "ge")
    ]
    compare += [Expr(op, "bool", (text, const("string", b'\xff\x00?"\\1'))) for op in ("eq", "ne")]
    compare += [Expr(op, "bool", (compare[0], compare[3])) for op in ("and", "or")]
    compare += [Expr("not", "bool", (compare[0],))]
    exprs += [f(expr) for expr in compare]
    exprs += [Expr("select", "f32", (compare[2], f32, const("f32", float("-inf"))))]
    decimal = Expr("as_string", "string", (i64,))
    for word in (text, decimal, Expr("select", "string", (compare[2], text, decimal))):
        exprs += [
            f(Expr("hash_fast", "i64", (word,), buckets=9973)),
            f(Expr("hash_strong", "i64", (word,), buckets=9973, key=(2**63 - 1, 5))),
        ]
        exprs += [f(Expr("find", "i64", (word,), at=at, scalar=-1)) for at in (0, 2)]
    exprs += [f(Expr("find", "i64", (i64,), at=1, scalar=-2))]
    for x in (f32, f64, i64, i32):
        exprs.append(f(Expr("bucketize", "i32", (x,), boundaries=(-1.5, 0.0, 0.1, 3.0))))
    lookup = element_wise(exprs, ("i64", "i32", "f32", "f64", "string"))
    words = [
        b"",
        b"a",
        b'\xff\x00?"\\1',
        b"word 7",
        b"x" * 100,
        b"long enough to be kept elsewhere",
    ]
    n = 60
    rng = np.random.default_rng(3)
    strings = np.empty((n, 1), object)
    strings[:, 0] = [words[i % len(words)] for i in range(n)]
    floats = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 0.1, 0.5, -1.5, 3.0, 1e30])
    inputs = [
        rng.choice([-(2**63), 2**63 - 1, 2**40, -1, 0, 3, 5, -7, 10**12], (n, 1)),
        rng.choice(np.array([-(2**31), 2**31 - 1, -1, 0, 3, 5, -7], np.int32), (n, 1)),
        rng.choice(floats.astype(np.float32), (n, 1)),
        rng.choice(floats, (n, 1)),
        strings,
    ]
    (executable,) = compiled([lookup])
    found = run(executable, lookup, inputs)
    expected = reference.evaluate(lookup, inputs)
    for expr, ours, wanted in zip(exprs, found, expected, strict=True):
        np.testing.assert_array_equal(ours, wanted, err_msg=str(expr))


def test_a_division_by_zero_is_refused():
    quotient = Expr("floor_div", "i64", (value("i64"), value("i64", 1)))
    lookup = element_wise([Expr("cast", "f32", (quotient,))], ("i64", "i64"))
    (executable,) = compiled([lookup])
    ones = np.ones((3, 1), np.int64)
    np.testing.assert_array_equal(run(executable, lookup, [ones * 6, ones * 3])[0], ones * 2)
    with pytest.raises(_runtime.Refused, match="no value"):
        run(executable, lookup, [ones, ones * 0])


def test_what_is_required_and_does_not_hold_is_refused():
    known = Expr("ge", "bool", (value("f32"), const("f32", 0.0)))
    whole = Expr("cast", "i32", (Expr("require", "f32", (known, value("f32"))),))
    lookup = element_wise([Expr("cast", "f32", (whole,))], ("f32",))
    (executable,) = compiled([lookup])
    numbers = np.array([[2.75], [0.0]], np.float32)
    np.testing.assert_array_equal(run(executable, lookup, [numbers])[0], [[2], [0]])
    for wrong in (-1.0, np.nan):
        with pytest.raises(_runtime.Refused, match="no value"):
            run(executable, lookup, [np.array([[1.0], [wrong]], np.float32)])


def test_constants_go_by_the_place_in_a_row():
    constants = Expr("constants", "i64", constants=(0, 10, 20))
    stream = Stream(Dense((0,), dims=(3,)), Expr("add", "i64", (value("i64"), constants)))
    means = Expr("constants", "f32", constants=(0.5, -1.0, 4.0))
    centred = Expr("sub", "f32", (Expr("cast", "f32", (value("i64"),)), means))
    parts = (Part(0, 30, bag=0), Part(30, 3, dense=centred))
    lookup = Lookup(("i64",), (stream,), (Bag(0, 30),), (Output(parts, (33,)),))
    (executable,) = compiled([lookup])
    for rows in (np.arange(600).reshape(200, 3) % 10, np.tile([3, 1, 2], (50, 1))):
        found = run(executable, lookup, [rows], threads=3)[0]
        np.testing.assert_array_equal(found, reference.evaluate(lookup, [rows])[0])
        hot = np.eye(30, dtype=np.float32)[np.add(rows, [0, 10, 20])].sum(axis=1)
        np.testing.assert_array_equal(found, np.hstack([hot, rows - np.float32([0.5, -1, 4])]))


def test_refusals_name_the_column():
    bag = Bag(0, 4, Table((1,)), column="occupation")
    output = Output((Part(0, 4, bag=0),), (4,))
    lookup = Lookup(("i64", "f32"), (Stream(Dense((0,)), value("i64")),), (bag,), (output,))
    (executable,) = compiled([lookup])
    with pytest.raises(_runtime.Refused, match="'occupation': an id is outside its table"):
        run(executable, lookup, [np.array([[9]]), np.zeros((9, 4), np.float32)])


def test_equal_lookups_give_equal_source_and_equal_streams_share_code():
    lookup, _ = random_case(1)
    assert emit_lookup("a", lookup) == emit_lookup("a", replace(lookup))
    stream = Stream(Dense((0,)), Expr("hash_fast", "i64", (value("string"),), buckets=100))
    bags = tuple(Bag(i, 4, Table((1,))) for i in range(50))
    parts = tuple(Part(4 * i, 4, bag=i) for i in range(50))
    many = Lookup(("string", "f32"), (stream,) * 50, bags, (Output(parts, (200,)),))
    assert emit_lookup("many", many).count("Fingerprint64(t0)") == 1


def test_places_of_a_vocabulary_are_found_where_the_kernels_look():
    keys = [b"a", b"", b"\xff", *(f"key {i}".encode() for i in range(500))]
    hashes = [int(h) for h in fingerprints(keys)]
    slots = place(hashes)
    assert sorted(slots)[-len(keys) :] == list(range(1, len(keys) + 1))
    for position, value_ in enumerate(hashes):
        at = value_ & (len(slots) - 1)
        while slots[at] != position + 1:
            assert slots[at] != 0
            at = (at + 1) & (len(slots) - 1)
    assert place([]) == [0, 0]
    assert hash_of_int(-1) < 2**64


def test_literals_keep_their_value():
    assert string(b'?"\\\n1') == '"\\077\\042\\134\\0121"'
    assert literal(const("i64", -(2**63))) == "BladeInt{(-9223372036854775807 - 1)}"
    assert literal(const("f32", float("inf"))) == "static_cast<float>(__builtin_inf())"
    assert literal(const("bool", True)) == "true"


def test_an_empty_vocabulary_finds_nothing():
    find = Expr("find", "i64", (value("i64"),), at=0, scalar=4)
    lookup = replace(
        element_wise([Expr("cast", "f32", (find,))], ("i64",)), vocabularies=(Vocabulary(()),)
    )
    (executable,) = compiled([lookup])
    np.testing.assert_array_equal(run(executable, lookup, [np.array([[0], [1]])])[0], [[4], [4]])
