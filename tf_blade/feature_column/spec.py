"""What a fused lookup computes: the contract between recognising, the kernels and the compiler.

A `Lookup` maps a batch of rows to one or several row-major tensors. It reads *streams*: for each
row a list of elements (ids with weights), made from an input by element-wise expressions and a
filter. A *bag* combines, for each row, the table rows its stream's ids name. An *output* lays bags
and dense inputs out side by side in its rows, or adds them up.

    rows of a stream:   [[3, 7], [], [7]]
    bag, mean, dim 4:   [(t[3] + t[7]) / 2, 0, t[7]]            4 floats a row
    output, concat:     bag 0 at 0..4, bag 1 at 4..12, dense input at 12..13

Everything is exact in `reference.py`, in numpy. Inputs are numbered; several parts may read one.

A kernel may refuse a run (an index out of order, an id outside its table, rows that don't agree):
the original subgraph then runs with the same inputs, and its result, or its error, is the answer.
So kernels check, and never guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Combiner = Literal["sum", "mean", "sqrtn"]
Scalar = int | float | bytes

# -- element-wise expressions -----------------------------------------------------------------

EXPRESSIONS = {
    # leaves
    "value": 0,  # element of the source's values number `at`
    "const": 0,  # `scalar`
    # number i of `constants` for element i of each row: of a dense part, or of Dense rows that are
    # not per_element; rows have as many elements
    "constants": 0,
    # strings and tables
    "as_string": 1,  # integer -> decimal text, as AsString
    "hash_fast": 1,  # string -> Fingerprint64(s) mod `buckets`, as StringToHashBucketFast
    "hash_strong": 1,  # the same with SipHash-2-4 and `key`, as StringToHashBucketStrong
    "find": 1,  # string or int64 -> its position in vocabulary `at`, or `scalar`: LookupTableFindV2
    "bucketize": 1,  # number -> how many `boundaries` are <= it, i32, as Bucketize
    # arithmetic, on operands of one dtype, as the TensorFlow op of that name; integers wrap
    "add": 2,
    "sub": 2,
    "mul": 2,
    "floor_mod": 2,
    "floor_div": 2,
    "maximum": 2,
    "minimum": 2,
    "div": 2,  # of floats
    "neg": 1,
    "abs": 1,
    "cast": 1,  # to `dtype`; of a float to an integer only where that holds it
    # comparisons -> bool; eq and ne on strings too
    "eq": 2,
    "ne": 2,
    "lt": 2,
    "le": 2,
    "gt": 2,
    "ge": 2,
    "and": 2,
    "or": 2,
    "not": 1,
    "select": 3,  # condition, then, else
    # condition, value: the value. The run is refused unless the condition holds for all elements of
    # the source, those that are not kept too.
    "require": 2,
}
DTYPES = ("i32", "i64", "f32", "f64", "bool", "string")


@dataclass(frozen=True)
class Expr:
    """One element-wise operation on a stream's elements. Equal expressions are computed once.

    Attributes:
      op: a key of EXPRESSIONS, which says what the other fields mean.
      dtype: of the result, one of DTYPES.
      args: operands, as many as EXPRESSIONS says.
    """

    op: str
    dtype: str
    args: tuple[Expr, ...] = ()
    at: int = 0
    scalar: Scalar = 0
    buckets: int = 0
    key: tuple[int, int] = (0, 0)
    boundaries: tuple[float, ...] = ()
    constants: tuple[int | float, ...] = ()

    def walk(self) -> Iterator[Expr]:
        """The expression's parts, operands first."""
        for arg in self.args:
            yield from arg.walk()
        yield self


# -- streams ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dense:
    """Elements of dense inputs of one shape [B, ...]; a row's elements are the rest, flattened.

    A rank-1 input has one element a row. With per_element every element is a row of its own, and
    the rows' dims are the whole shape.

    Attributes:
      values: one or several inputs.
      dims: what the dims after the first must be, -1 where any will do (else the run is refused);
        None for any number of any dims.
    """

    values: tuple[int, ...]
    per_element: bool = False
    dims: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Sparse:
    """Elements of SparseTensors with the same indices.

    Attributes:
      indices: i64 [n, rank], rank >= row_dims, each inside `shape` and each greater than the one
        before it, in lexicographic order (or the run is refused: TensorFlow's ops differ there).
      values: one or several inputs [n].
      shape: i64 [rank], the dense shape.
      row_dims: how many leading dims number the rows; 1, or 2 for sequences.
      complete: whether rows are as many as `shape` says. If not, they end with the last row that
        has an element (embedding_lookup_sparse without filling empty rows).
      rank: what the rank must be (else the run is refused); None for any.
    """

    indices: int
    values: tuple[int, ...]
    shape: int
    row_dims: int = 1
    complete: bool = True
    rank: int | None = None


@dataclass(frozen=True)
class Ragged:
    """Elements of RaggedTensors with the same splits (i32 or i64 [B + 1])."""

    values: tuple[int, ...]
    splits: int


@dataclass(frozen=True)
class Cross:
    """The crosses of other streams' elements, row by row, as SparseCross with hashed output.

    Each element is hash(...hash(first, second)..., last) mod buckets, the last stream varying
    fastest. The parts' `ids` are strings or i64; strings are fingerprinted first.

    Attributes:
      parts: numbers of streams that come earlier in the Lookup.
      buckets: modulus; 0 for the full range (then mod int64 max).
      key: the op's hash_key, the start value of the chain.
    """

    parts: tuple[int, ...]
    buckets: int
    key: int


Source = Dense | Sparse | Ragged | Cross


@dataclass(frozen=True)
class Stream:
    """For each row, elements in order.

    Attributes:
      source: where elements come from. A Cross has the one value number 0, an i64.
      ids: what each element is: i64, or a string or i64 in a part of a cross.
      keep: bool; elements for which it is false are not there. None keeps all.
      weight: f32, or None where every element weighs 1.
    """

    source: Source
    ids: Expr
    keep: Expr | None = None
    weight: Expr | None = None


# -- bags and outputs -------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Rows of an embedding, perhaps in partitions.

    Attributes:
      parts: inputs, each f32 [n_i, ...] with `dim` elements a row: resources of variables, or
        tensors.
      strategy: where row i of the whole is. "mod": row i // len(parts) of part i % len(parts);
        "div": parts follow each other, the first n % len(parts) of them one row longer.
    """

    parts: tuple[int, ...]
    strategy: Literal["mod", "div"] = "mod"


@dataclass(frozen=True)
class Bag:
    """For each row of a stream, one vector of `dim` floats.

    With weights w and table rows v: sum = Σ w·v, mean = Σ w·v / Σ w, sqrtn = Σ w·v / sqrt(Σ w²),
    where a quotient by zero is 0, as DivNoNan.
    With `table` None it is an indicator: component i is Σ w over elements with id i; ids outside
    [0, dim) count nothing.

    Attributes:
      stream: number of the stream.
      empty: what a row without elements gives: None for zeros, else the id (weight 1) that it is
        taken to hold.
      max_norm: table rows whose L2 norm is larger are scaled down to it; None for no limit.
      binary: of an indicator: a component is 1 if any element has its id.
    """

    stream: int
    dim: int
    table: Table | None = None
    combiner: Combiner = "sum"
    empty: int | None = None
    max_norm: float | None = None
    binary: bool = False
    column: str = ""  # what to call it in messages


@dataclass(frozen=True)
class Part:
    """A piece of an output's row: bag number `bag`, or `dense`, which is applied to the elements
    of inputs [B, ...] with `width` elements a row (its "value" `at` is the number of an input)."""

    offset: int
    width: int
    bag: int | None = None
    dense: Expr | None = None


@dataclass(frozen=True)
class Output:
    """A tensor f32 of the rows' dims followed by `tail`.

    Attributes:
      parts: they cover a row without gaps (concat), or all lie at 0 with its full width (add).
      tail: static dims after the rows' dims; their product is the row's width. () is a width of 1.
      add: whether parts are added up.
    """

    parts: tuple[Part, ...]
    tail: tuple[int, ...]
    add: bool = False

    @property
    def width(self) -> int:
        """Floats a row."""
        size = 1
        for dim in self.tail:
            size *= dim
        return size


@dataclass(frozen=True)
class Vocabulary:
    """Distinct keys; a key's value is its position, or `values[position]` where given."""

    keys: tuple[bytes, ...] | tuple[int, ...]
    values: tuple[int, ...] = field(default=())


@dataclass(frozen=True)
class Lookup:
    """A fused lookup. All streams have the same rows, or the run is refused. So is one without
    rows: there TensorFlow's ops differ in whether they fail.

    The op that runs it may have more inputs than `inputs`: those that follow, tensors and resources
    (of lookup tables, too), are read by its fallback only.

    Attributes:
      inputs: dtype of each input, one of DTYPES; a table's resource counts as its f32 tensor.
      streams: a Cross comes after its parts.
    """

    inputs: tuple[str, ...]
    streams: tuple[Stream, ...]
    bags: tuple[Bag, ...]
    outputs: tuple[Output, ...]
    vocabularies: tuple[Vocabulary, ...] = ()
