"""The text form of a `Lookup`, which the runtime reads (cc/lookup/parse.cc).

Tokens with white space between them; lists begin with their length. Strings are "x" and their bytes
in hexadecimal, floats the sixteen hexadecimal digits of an IEEE f64, so nothing is rounded and no
token depends on a locale. Expressions are listed operands first; operands are numbers in that list.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tf_blade.feature_column.spec import (
    Bag,
    Cross,
    Dense,
    Expr,
    Lookup,
    Output,
    Part,
    Ragged,
    Scalar,
    Source,
    Sparse,
    Stream,
    Vocabulary,
)

VERSION = 1


def encode(lookup: Lookup) -> str:
    """The text of a lookup, one part a line."""
    lines = [
        f"lookup {VERSION}",
        f"inputs {_list(lookup.inputs)}",
        f"vocabularies {len(lookup.vocabularies)}",
        *(_vocabulary(vocabulary) for vocabulary in lookup.vocabularies),
        f"streams {len(lookup.streams)}",
        *(_stream(stream) for stream in lookup.streams),
        f"bags {len(lookup.bags)}",
        *(_bag(bag) for bag in lookup.bags),
        f"outputs {len(lookup.outputs)}",
        *(_output(output) for output in lookup.outputs),
    ]
    return "\n".join(lines) + "\n"


def _words(items: Sequence[object]) -> str:
    return " ".join(map(str, items))


def _list(items: Sequence[object]) -> str:
    return f"{len(items)} {_words(items)}"


def _bytes(data: bytes) -> str:
    return "x" + data.hex()


def _float(value: float) -> str:
    return struct.pack(">d", value).hex()


def _vocabulary(vocabulary: Vocabulary) -> str:
    strings = bool(vocabulary.keys) and isinstance(vocabulary.keys[0], bytes)
    keys = [_bytes(key) if isinstance(key, bytes) else str(key) for key in vocabulary.keys]
    return f"{'strings' if strings else 'ints'} {_list(keys)} {_list(vocabulary.values)}"


def _stream(stream: Stream) -> str:
    results = [stream.ids]
    results += [expr for expr in (stream.keep, stream.weight) if expr is not None]
    flags = f"{int(stream.keep is not None)} {int(stream.weight is not None)}"
    return f"{_source(stream.source)} {flags} {_exprs(results)}"


def _source(source: Source) -> str:
    if isinstance(source, Dense):
        shape = "0" if source.dims is None else f"{1 + len(source.dims)} {_words(source.dims)}"
        return f"dense {_list(source.values)} {int(source.per_element)} {shape}"
    if isinstance(source, Sparse):
        rows = f"{source.row_dims} {int(source.complete)} {source.rank or 0}"
        return f"sparse {_list(source.values)} {source.indices} {source.shape} {rows}"
    if isinstance(source, Ragged):
        return f"ragged {_list(source.values)} {source.splits}"
    assert isinstance(source, Cross)
    return f"cross {_list(source.parts)} {source.buckets} {source.key}"


def _exprs(results: Sequence[Expr]) -> str:
    """All operations that the results need, then the numbers of the results."""
    numbers: dict[str, int] = {}
    known: dict[int, int] = {}  # by id: operands are often one object

    def number(expr: Expr) -> int:
        if id(expr) not in known:
            text = _operation(expr, [number(arg) for arg in expr.args])
            known[id(expr)] = numbers.setdefault(text, len(numbers))
        return known[id(expr)]

    found = [number(expr) for expr in results]
    return " ".join([str(len(numbers)), *numbers, *map(str, found)])


def _operation(expr: Expr, args: Sequence[int]) -> str:
    return " ".join([expr.op, expr.dtype, _list(args), *_fields(expr)])


def _fields(expr: Expr) -> Iterator[str]:
    if expr.op == "value":
        yield str(expr.at)
    elif expr.op == "const":
        yield _scalar(expr.dtype, expr.scalar)
    elif expr.op == "constants":
        yield _list([_scalar(expr.dtype, scalar) for scalar in expr.constants])
    elif expr.op == "find":
        yield f"{expr.at} {expr.scalar!r}"
    elif expr.op == "hash_fast":
        yield str(expr.buckets)
    elif expr.op == "hash_strong":
        yield f"{expr.buckets} {expr.key[0]} {expr.key[1]}"
    elif expr.op == "bucketize":
        yield _list([_float(boundary) for boundary in expr.boundaries])


def _scalar(dtype: str, scalar: Scalar) -> str:
    if isinstance(scalar, bytes):
        return _bytes(scalar)
    return _float(scalar) if dtype in ("f32", "f64") else str(int(scalar))


def _optional(value: str | None) -> str:
    return "none" if value is None else value


def _bag(bag: Bag) -> str:
    table = "indicator"
    if bag.table is not None:
        table = f"table {_list(bag.table.parts)} {bag.table.strategy}"
    empty = _optional(None if bag.empty is None else str(bag.empty))
    norm = _optional(None if bag.max_norm is None else _float(bag.max_norm))
    column = _bytes(bag.column.encode())
    return (
        f"{bag.stream} {bag.dim} {table} {bag.combiner} {empty} {norm} {int(bag.binary)} {column}"
    )


def _output(output: Output) -> str:
    parts = " ".join(_part(part) for part in output.parts)
    return f"{_list(output.tail)} {int(output.add)} {len(output.parts)} {parts}"


def _part(part: Part) -> str:
    """Dense expressions read values by their number in the list of inputs before them."""
    if part.dense is None:
        return f"{part.offset} {part.width} bag {part.bag}"
    inputs = sorted({expr.at for expr in part.dense.walk() if expr.op == "value"})
    dense = _renumber(part.dense, {at: number for number, at in enumerate(inputs)})
    return f"{part.offset} {part.width} dense {_list(inputs)} {_exprs([dense])}"


def _renumber(expr: Expr, numbers: dict[int, int]) -> Expr:
    args = tuple(_renumber(arg, numbers) for arg in expr.args)
    at = numbers[expr.at] if expr.op == "value" else expr.at
    return replace(expr, args=args, at=at)
