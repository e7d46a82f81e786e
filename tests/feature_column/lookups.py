"""Random lookups with inputs for them, for tests that compare a kernel with reference.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tf_blade.feature_column.spec import (
    Bag,
    Cross,
    Dense,
    Expr,
    Lookup,
    Output,
    Part,
    Ragged,
    Source,
    Sparse,
    Stream,
    Table,
    Vocabulary,
)

VOCABULARIES = (
    Vocabulary((b"a", b"", b"long enough to be kept elsewhere", b"\xff\x00\xfe")),
    Vocabulary((3, -7, 2**40, 0), values=(5, 0, 2, 2)),
    Vocabulary(tuple(f"word {i}".encode() for i in range(100))),
)
_STRINGS = [
    b"",
    b"a",
    b"word 7",
    b"\xff\x00\xfe",
    b"long enough to be kept elsewhere",
    b"x" * 70,
    b"42",
]
_INTEGERS = [0, 1, 2, 3, -1, -7, 2**31, 2**40, 5]
_NUMBERS = {
    "i32": np.int32,
    "i64": np.int64,
    "f32": np.float32,
    "f64": np.float64,
}


@dataclass
class Case:
    """A lookup that is being made, and the arrays of its inputs."""

    rng: np.random.Generator
    dims: tuple[int, ...]
    dtypes: list[str] = field(default_factory=list)
    inputs: list[np.ndarray] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    bags: list[Bag] = field(default_factory=list)
    long_rows: set[int] = field(default_factory=set)  # streams with rows of very many elements

    @property
    def rows(self) -> int:
        return int(np.prod(self.dims))

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def input(self, dtype: str, array: np.ndarray) -> int:
        self.dtypes.append(dtype)
        self.inputs.append(array)
        return len(self.inputs) - 1

    def values(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """Values of which some are equal, odd, or in no vocabulary."""
        count = int(np.prod(shape))
        if dtype == "string":
            out = np.empty(count, object)
            out[:] = [self.pick(_STRINGS) for _ in range(count)]
        elif dtype == "bool":
            out = self.rng.random(count) < 0.5
        elif dtype in ("i32", "i64"):
            numbers = [self.pick(_INTEGERS) for _ in range(count)]
            out = np.array(numbers, np.int64).astype(_NUMBERS[dtype])
        else:
            out = (self.rng.integers(-8, 8, count) / 2).astype(_NUMBERS[dtype])
        return out.reshape(shape)


def random_case(seed: int, rows: int | None = None) -> tuple[Lookup, list[np.ndarray]]:
    """A lookup of a few streams, bags and outputs, and inputs, most of which it accepts."""
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([1, 2, 3, 5, 70])) if rows is None else rows
    dims: tuple[int, ...] = (rows,)
    if rng.random() < 0.2:
        dims = (rows, int(rng.integers(1, 4)))
    case = Case(rng, dims)
    for _ in range(rng.integers(1, 5)):
        case.streams.append(_stream(case))
    usable = [i for i, stream in enumerate(case.streams) if stream.ids.dtype == "i64"]
    for _ in range(rng.integers(1, 6)):
        if usable:
            case.bags.append(_bag(case, case.pick(usable)))
    outputs = _outputs(case)
    lookup = Lookup(
        tuple(case.dtypes), tuple(case.streams), tuple(case.bags), outputs, VOCABULARIES
    )
    return lookup, case.inputs


# -- streams ------------------------------------------------------------------------------


def _stream(case: Case) -> Stream:
    parts = [
        i
        for i, stream in enumerate(case.streams)
        if not isinstance(stream.source, Cross) and i not in case.long_rows
    ]
    if parts and len(case.dims) == 1 and case.chance(0.25):
        numbers = tuple(int(i) for i in case.rng.choice(parts, case.rng.integers(1, 4)))
        source: Source = Cross(numbers, case.pick([0, 10, 1000]), case.pick([0, 123, 2**63 - 1]))
        dtypes = ["i64"]
    else:
        dtypes = [case.pick(["string", "i64", "i32"])]
        dtypes += [case.pick(["f32", "i64", "f64"]) for _ in range(case.rng.integers(0, 3))]
        source = _source(case, dtypes)
    exprs = Expressions(case, dtypes, _row_length(case, source))
    ids = exprs.ids(modulus=case.pick([6, 6, 6, 8]))
    if not isinstance(source, Cross) and dtypes[0] == "string" and case.chance(0.1):
        ids = Expr("value", "string")  # only good for a cross
    keep = exprs.any("bool", 2) if case.chance(0.5) else None
    weight = exprs.any("f32", 1) if case.chance(0.4) else None
    return Stream(source, ids, keep, weight)


def _row_length(case: Case, source: Source) -> int:
    """How many elements each row has, if all have as many."""
    if not isinstance(source, Dense) or source.per_element:
        return 0
    return int(np.prod(case.inputs[source.values[0]].shape[1:]))


def _source(case: Case, dtypes: list[str]) -> Source:
    def values(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(case.input(dtype, case.values(dtype, shape)) for dtype in dtypes)

    same = case.chance(0.3)  # rows hold the same elements

    def repeated(shape: tuple[int, ...]) -> tuple[int, ...]:
        found = values(shape)
        for i in found:
            case.inputs[i] = np.repeat(case.inputs[i][:1], case.dims[0], 0)
        return found

    if len(case.dims) == 2:
        if case.chance(0.5):
            return Dense(values(case.dims), per_element=True)
        return _sparse(case, values, row_dims=2)
    kind = case.pick(["dense", "sparse", "ragged"])
    if kind == "dense":
        tail = case.pick([(), (1,), (3,), (2, 2), (0,), (40,)])
        shape = (*case.dims, *tail)
        found = repeated(shape) if same else values(shape)
        return Dense(found, dims=case.pick([None, tail, (-1,) * len(tail)]))
    if kind == "ragged":
        lengths = case.rng.integers(0, 4, case.dims[0])
        if same:
            lengths[:] = lengths[0]
        splits = np.concatenate([[0], np.cumsum(lengths)])
        found = values((int(splits[-1]),))
        if same:
            for i in found:
                case.inputs[i] = np.tile(case.inputs[i][: lengths[0]], case.dims[0])
        dtype = case.pick(["i32", "i64"])
        return Ragged(found, case.input(dtype, splits.astype(_NUMBERS[dtype])))
    return _sparse(case, values, row_dims=1)


def _sparse(case: Case, values: Callable, row_dims: int) -> Sparse:
    extra = case.pick([(4,), (2, 2), (1200,)] + ([()] if row_dims == 2 else []))
    shape = (*case.dims, *extra)
    if row_dims == 1 and case.chance(0.05):
        # Rows that are longer than what kernels look at together.
        case.long_rows.add(len(case.streams))
        taken = np.sort(case.rng.choice(int(np.prod(shape)), int(np.prod(shape)) * 2 // 3, False))
    else:
        most = min(int(np.prod(shape)), 3 * case.rows)
        count = int(case.rng.integers(0, most + 1))
        taken = np.sort(case.rng.choice(int(np.prod(shape)), count, replace=False))
    indices = np.stack(np.unravel_index(taken, shape), 1).astype(np.int64)
    indices = indices.reshape(len(taken), len(shape))
    found = values((len(taken),))
    return Sparse(
        case.input("i64", indices),
        found,
        case.input("i64", np.array(shape, np.int64)),
        row_dims,
        rank=case.pick([None, len(shape)]),
    )


class Expressions:
    """Random expressions over a source's values.

    Attributes:
      row: elements of a row, 0 if rows have different numbers of them.
    """

    def __init__(self, case: Case, dtypes: list[str], row: int) -> None:
        self.case = case
        self.dtypes = dtypes
        self.row = row

    def ids(self, modulus: int) -> Expr:
        """i64, mostly in [0, modulus)."""
        expr = self.any("i64", 3)
        if self.case.chance(0.9):
            return Expr("floor_mod", "i64", (expr, Expr("const", "i64", scalar=modulus)))
        return expr

    def any(self, dtype: str, depth: int) -> Expr:
        """Any expression of that dtype."""
        options = [lambda: self.const(dtype)]
        values = [at for at, found in enumerate(self.dtypes) if found == dtype]
        options += [lambda: Expr("value", dtype, at=self.case.pick(values))] * 3 * bool(values)
        if depth > 0:
            options += self._operations(dtype, depth - 1) * 2
        return self.case.pick(options)()

    def const(self, dtype: str) -> Expr:
        if 0 < self.row <= 40 and dtype in _NUMBERS and self.case.chance(0.5):
            values = self.case.values(dtype, (self.row,)).tolist()
            return Expr("constants", dtype, constants=tuple(values))
        value = self.case.values(dtype, ()).item()
        return Expr("const", dtype, scalar=value)

    def _operations(self, dtype: str, depth: int) -> list[Callable[[], Expr]]:
        pick, any_ = self.case.pick, self.any

        def same(op: str, count: int = 2) -> Callable[[], Expr]:
            return lambda: Expr(op, dtype, tuple(any_(dtype, depth) for _ in range(count)))

        def compare(op: str, dtypes: list[str]) -> Callable[[], Expr]:
            def make() -> Expr:
                of = pick(dtypes)
                return Expr(op, "bool", (any_(of, depth), any_(of, depth)))

            return make

        def cast() -> Expr:
            return Expr("cast", dtype, (any_(pick(["i32", "i64", "f32", "bool"]), depth),))

        def select() -> Expr:
            return Expr(
                "select", dtype, (any_("bool", depth), any_(dtype, depth), any_(dtype, depth))
            )

        def require() -> Expr:
            # Mostly of what holds: a refusal says little of all else.
            true = Expr("const", "bool", scalar=True)
            condition = any_("bool", depth) if self.case.chance(0.02) else true
            return Expr("require", dtype, (condition, any_(dtype, depth)))

        if dtype == "string":
            numbers = ["i32", "i64"]
            text = Expr("as_string", dtype, (any_(pick(numbers), depth),))
            return [lambda: text, select, require]
        if dtype == "bool":
            every = [*_NUMBERS, "string", "bool"]
            orders = [compare(op, [*_NUMBERS]) for op in ("lt", "le", "gt", "ge")]
            equal = [compare(op, every) for op in ("eq", "ne")] * 2
            return [*orders, *equal, same("and"), same("or"), same("not", 1), cast, select]
        found = [same(op) for op in ("add", "sub", "mul", "maximum", "minimum")]
        found += [same("neg", 1), same("abs", 1), cast, select, require]
        if dtype in ("f32", "f64"):
            by = Expr("const", dtype, scalar=pick([0.5, -4.0]))
            found.append(lambda: Expr("div", dtype, (any_(dtype, depth), by)))
        if dtype in ("i32", "i64"):
            divisor = Expr("const", dtype, scalar=pick([2, 3, -1, -5, 7]))

            def divide(op: str) -> Callable[[], Expr]:
                return lambda: Expr(op, dtype, (any_(dtype, depth), divisor))

            found += [divide("floor_mod"), divide("floor_div")]
        if dtype == "i32":
            bounds = pick([(), (0.0,), (-2.0, 0.5, 1.0), tuple(np.arange(-20.0, 20.0, 0.5))])
            found.append(
                lambda: Expr(
                    "bucketize", "i32", (any_(pick([*_NUMBERS]), depth),), boundaries=bounds
                )
            )
        if dtype == "i64":

            def hashed(op: str, **fields: Any) -> Callable[[], Expr]:
                return lambda: Expr(op, "i64", (any_("string", depth),), **fields)

            def find() -> Expr:
                at, of = pick([(0, "string"), (1, "i64"), (2, "string")])
                return Expr("find", "i64", (any_(of, depth),), at, scalar=-1)

            found += [
                hashed("hash_fast", buckets=pick([1, 7, 2**40])),
                hashed("hash_strong", buckets=pick([1, 7]), key=(1, -5)),
                find,
            ] * 2
        return found


# -- bags, outputs ------------------------------------------------------------------------


def _bag(case: Case, stream: int) -> Bag:
    dim = case.pick([1, 2, 3, 4, 8, 16, 20, 32, 64, 70])
    weighted = case.streams[stream].weight is not None
    combiner = case.pick(["sum", "mean", "sqrtn"])
    empty = case.pick([None, None, 0, 3])
    name = f"column {len(case.bags)}"
    if case.chance(0.2):
        binary = not weighted and case.chance(0.5)
        return Bag(stream, dim, None, "sum", empty, None, binary, name)
    sizes = case.pick([(8,), (8,), (3, 3, 2)])
    parts = tuple(
        case.input("f32", (case.rng.integers(-16, 16, (n, dim)) / 8).astype(np.float32))
        for n in sizes
    )
    table = Table(parts, case.pick(["mod", "div"]))
    return Bag(stream, dim, table, combiner, empty, case.pick([None, None, 1.5]), False, name)


def _outputs(case: Case) -> tuple[Output, ...]:
    """Bags in a concat with dense parts, and some of one dim added up."""
    outputs = []
    offset, parts = 0, []
    for number, bag in enumerate(case.bags):
        parts.append(Part(offset, bag.dim, bag=number))
        offset += bag.dim
    for _ in range(case.rng.integers(0 if parts else 1, 3)):
        parts.append(_dense_part(case, offset))
        offset += parts[-1].width
    outputs.append(Output(tuple(parts), case.pick([(offset,), (1, offset), (offset, 1)])))
    added = [n for n, bag in enumerate(case.bags) if bag.dim == case.bags[0].dim and not bag.binary]
    if added and case.chance(0.5):
        width = case.bags[0].dim
        pieces = tuple(Part(0, width, bag=number) for number in added)
        outputs.append(Output(pieces, (width,), add=True))
    return tuple(outputs)


def _dense_part(case: Case, offset: int) -> Part:
    width = case.pick([1, 1, 3, 1500])
    dtypes = [case.pick(["f32", "f32", "i64"]), "f32"]
    expr = (
        Expressions(case, dtypes, width).any("f32", 2) if case.chance(0.5) else Expr("value", "f32")
    )
    if not any(e.op == "value" for e in expr.walk()):
        expr = Expr("value", "f32", at=1)
    used = sorted({e.at for e in expr.walk() if e.op == "value"})
    shape = case.dims if width == 1 and case.chance(0.3) else (*case.dims, width)
    if dtypes[0] != "f32" and expr == Expr("value", "f32"):
        expr, used = Expr("value", "f32", at=1), [1]
    numbers = {at: case.input(dtypes[at], case.values(dtypes[at], shape)) for at in used}
    return Part(offset, width, dense=_renumber(expr, numbers))


def _renumber(expr: Expr, numbers: dict[int, int]) -> Expr:
    args = tuple(_renumber(arg, numbers) for arg in expr.args)
    at = numbers[expr.at] if expr.op == "value" else expr.at
    return replace(expr, args=args, at=at)
