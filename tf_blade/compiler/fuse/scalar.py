"""Scalar expressions: what one element of a tensor is, in terms of loop variables and memory.

`Tracer.at(value, index)` inlines producers into one expression by mapping the index through
broadcasts, transposes, slices, reshapes, gathers; it stops at values that are in memory. Equal
expressions are one object, so that what an element needs twice is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tf_blade.compiler.fuse import index as ix
from tf_blade.compiler.fuse.index import Affine, LoopVar
from tf_blade.compiler.ir.dims import Dim
from tf_blade.compiler.ir.ops import ELEMENTWISE
from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.ir.types import DType

Index = tuple[Affine, ...]


class NotInPlace(Exception):
    """A value of the same kernel is read at another element than the one being computed."""


@dataclass(eq=False)
class Scalar:
    """One node of an expression.

    kind: an elementwise kind of the IR, or
      literal  a number (`payload`)
      dim      a dimension (`payload`) as a number
      index    the expression `index` as a number
      load     element `index` of the buffer of `value`
      local    `value`'s element at this iteration, computed before in the same kernel
      taken    args[0], an index into a dim of size `payload`, checked for `value` (a gather)
    value: for elementwise kinds, the IR value this is an element of (for names and messages).
    vars: the loop variables it depends on.
    """

    kind: str
    dtype: DType
    number: int
    args: tuple[Scalar, ...] = ()
    index: Affine | None = None
    payload: Any = None
    value: Value | None = None
    vars: frozenset[LoopVar] = frozenset()

    def __repr__(self) -> str:
        return f"<{self.number}: {self.kind} {self.value or self.payload}>"

    def needs(self) -> list[Scalar]:
        """The expressions this one is computed from, those inside its index included."""
        inside = [t.scalar for t in self.index.taken()] if self.index is not None else []
        return [*self.args, *inside]


class Pool:
    """Makes scalars; equal ones are one object."""

    def __init__(self) -> None:
        self._known: dict[Any, Scalar] = {}

    def make(
        self,
        kind: str,
        dtype: DType,
        args: tuple[Scalar, ...] = (),
        *,
        index: Affine | None = None,
        payload: Any = None,
        value: Value | None = None,
        vars: frozenset[LoopVar] | None = None,
    ) -> Scalar:
        literal = payload.tobytes() if isinstance(payload, np.generic) else payload
        identity = (value, vars) if kind in ("load", "local") else None
        key = (kind, dtype, tuple(a.number for a in args), index, literal, identity)
        found = self._known.get(key)
        if found is None:
            if vars is None:
                vars = frozenset[LoopVar]().union(
                    *(a.vars for a in args), index.vars if index is not None else ()
                )
            found = Scalar(kind, dtype, len(self._known), args, index, payload, value, vars)
            self._known[key] = found
        return found

    def literal(self, number: Any, dtype: DType) -> Scalar:
        return self.make("literal", dtype, payload=np.asarray(number).astype(dtype.numpy)[()])

    def dim(self, dim: Dim, dtype: DType) -> Scalar:
        if isinstance(dim, int):
            return self.literal(dim, dtype)
        return self.make("dim", dtype, payload=dim)

    def local(self, value: Value, variables: frozenset[LoopVar]) -> Scalar:
        return self.make("local", value.type.dtype, value=value, vars=variables)

    def load(
        self, value: Value, index: Affine, variables: frozenset[LoopVar] | None = None
    ) -> Scalar:
        """variables: the loops that what lies there depends on, if not only those of the index."""
        return self.make("load", value.type.dtype, index=index, value=value, vars=variables)


class Tracer:
    """Expands values into scalars.

    in_memory: values that have a buffer (parameters are always among them).
    local: values computed in the same kernel: the only index at which they may be read, and what
      is read there. Reading one at another index raises NotInPlace.
    """

    def __init__(
        self,
        pool: Pool,
        in_memory: Container[Value],
        local: Mapping[Value, tuple[Index, Scalar]] | None = None,
    ) -> None:
        self.pool = pool
        self._in_memory = in_memory
        self._local = local or {}
        self._memo: dict[tuple[Value, Index], Scalar] = {}

    def at(self, value: Value, index: Index) -> Scalar:
        """The element of `value` at `index`."""
        found = self._memo.get((value, index))
        if found is None:
            found = self._at(value, index)
            self._memo[(value, index)] = found
        return found

    def _at(self, value: Value, index: Index) -> Scalar:
        if value in self._local:
            expected, scalar = self._local[value]
            if index != expected:
                raise NotInPlace(str(value))
            return scalar
        if value.op is None or value in self._in_memory:
            return self.pool.load(value, ix.linear(index, value.type.shape))
        return self.body(value.op, index)

    def body(self, op: Op, index: Index) -> Scalar:
        """The element of op's result at `index`, in terms of its operands."""
        if op.kind in ELEMENTWISE:
            args = tuple(self.at(v, index) for v in op.operands)
            return self.pool.make(
                op.kind,
                op.result.type.dtype,
                args,
                payload=op.attrs.get("direction"),
                value=op.result,
            )
        return _RULES[op.kind](self, op, index)


def splat_value(value: Value) -> Any | None:
    """The number that a constant repeats, or None when it is no constant or has several."""
    if value.op is None or value.op.kind != "constant":
        return None
    array = value.op.attrs["value"]
    if array.size == 0:
        return array.dtype.type(0)
    bits = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    return array.flat[0] if (bits == bits[0]).all() else None


def _constant(t: Tracer, op: Op, index: Index) -> Scalar:
    dtype = op.result.type.dtype
    number = splat_value(op.result)
    if number is not None:
        return t.pool.literal(number, dtype)
    position = ix.linear(index, op.result.type.shape)
    if not position.terms and isinstance(position.const, int):
        return t.pool.literal(op.attrs["value"].reshape(-1)[position.const], dtype)
    return t.pool.load(op.result, position)


def _shape_value(t: Tracer, op: Op, index: Index) -> Scalar:
    position = ix.linear(index, op.result.type.shape)
    if not position.terms and isinstance(position.const, int):
        return t.pool.dim(op.attrs["elements"][position.const], op.result.type.dtype)
    return t.pool.load(op.result, position)


def _iota(t: Tracer, op: Op, index: Index) -> Scalar:
    return _number(t.pool, index[op.attrs["dim"]], op.result.type.dtype)


def _number(pool: Pool, index: Affine, dtype: DType) -> Scalar:
    if not index.terms:
        return pool.dim(index.const, dtype)
    return pool.make("index", dtype, index=index)


def _broadcast_in_dim(t: Tracer, op: Op, index: Index) -> Scalar:
    source = op.operands[0]
    inner = tuple(
        ix.ZERO if n == 1 else index[dim]
        for n, dim in zip(source.type.shape, op.attrs["dims"], strict=True)
    )
    return t.at(source, inner)


def _reshape(t: Tracer, op: Op, index: Index) -> Scalar:
    source = op.operands[0]
    return t.at(source, ix.reshape_index(index, op.result.type.shape, source.type.shape))


def _transpose(t: Tracer, op: Op, index: Index) -> Scalar:
    perm = op.attrs["perm"]
    inner = [ix.ZERO] * len(perm)
    for position, axis in zip(index, perm, strict=True):
        inner[axis] = position
    return t.at(op.operands[0], tuple(inner))


def _slice(t: Tracer, op: Op, index: Index) -> Scalar:
    starts, strides = op.attrs["start"], op.attrs["stride"]
    inner = tuple(
        x.times(stride).plus(start) for x, start, stride in zip(index, starts, strides, strict=True)
    )
    return t.at(op.operands[0], inner)


def _reverse(t: Tracer, op: Op, index: Index) -> Scalar:
    shape = op.result.type.shape
    inner = tuple(
        x.times(-1).plus(ix.sub(shape[i], 1)) if i in op.attrs["dims"] else x
        for i, x in enumerate(index)
    )
    return t.at(op.operands[0], inner)


def _gather(t: Tracer, op: Op, index: Index) -> Scalar:
    params, indices = op.operands
    axis, batch = op.attrs["axis"], op.attrs["batch_dims"]
    end = axis + indices.type.rank - batch
    number = t.at(indices, (*index[:batch], *index[axis:end]))
    extent = params.type.shape[axis]
    if number.kind == "literal" and isinstance(extent, int) and 0 <= number.payload < extent:
        position = ix.constant(int(number.payload))
    elif number.kind == "index" and number.index is not None and number.index.is_below(extent):
        position = number.index
    elif number.kind == "load" and _all_below(number.value, extent):
        wide = t.pool.make("convert", DType.I64, (number,), value=op.result)
        position = Affine(((ix.Taken(wide, extent), 1),))
    else:
        checked = t.pool.make(
            "taken", DType.I64, (number,), payload=extent, value=op.result, vars=number.vars
        )
        position = Affine(((ix.Taken(checked, extent), 1),))
    return t.at(params, (*index[:axis], position, *index[end:]))


def _all_below(value: Value | None, extent: Dim) -> bool:
    """Whether the value is a constant whose elements all lie in [0, extent)."""
    if value is None or value.op is None or value.op.kind != "constant":
        return False
    array: np.ndarray = value.op.attrs["value"]
    return isinstance(extent, int) and bool(((array >= 0) & (array < extent)).all())


_RULES: dict[str, Callable[[Tracer, Op, Index], Scalar]] = {
    "constant": _constant,
    "shape_value": _shape_value,
    "iota": _iota,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "gather": _gather,
}
INLINED = ELEMENTWISE | frozenset(_RULES)
INDEX_KINDS = frozenset(_RULES) - {"constant", "shape_value", "iota"}


def rename(
    pool: Pool, scalars: list[Scalar], merged: Mapping[LoopVar, LoopVar | None]
) -> list[Scalar]:
    """The scalars with loop variables renamed as `index.substitute` does."""
    done: dict[Scalar, Scalar] = {}

    def renamed(s: Scalar) -> Scalar:
        found = done.get(s)
        if found is not None:
            return found
        args = tuple(renamed(a) for a in s.args)
        index = rename_index(s.index) if s.index is not None else None
        variables = None
        if s.kind in ("local", "load"):
            targets = (merged.get(v, v) for v in s.vars)
            variables = frozenset(v for v in targets if v is not None)
        made = pool.make(
            s.kind, s.dtype, args, index=index, payload=s.payload, value=s.value, vars=variables
        )
        done[s] = made
        return made

    def rename_index(x: Affine) -> Affine:
        return _retake(ix.substitute(x, merged), renamed)

    return [renamed(s) for s in scalars]


def _retake(x: Affine, renamed: Callable[[Scalar], Scalar]) -> Affine:
    terms: list[tuple[ix.Atom, Dim]] = []
    for atom, coefficient in x.terms:
        if isinstance(atom, ix.Taken):
            atom = ix.Taken(renamed(atom.scalar), atom.extent)
        elif isinstance(atom, ix.Quotient | ix.Remainder):
            atom = type(atom)(_retake(atom.of, renamed), atom.by)
        terms.append((atom, coefficient))
    return ix.make(terms, x.const)
