"""A Lookup as the static data of kernels/plan.h, and the functions that it points to."""

from __future__ import annotations

from collections.abc import Iterable

from tf_blade.feature_column.emit.expressions import bool_text, dense_body, int64, stream_body
from tf_blade.feature_column.emit.vocabularies import vocabulary_data
from tf_blade.feature_column.spec import (
    Bag,
    Cross,
    Dense,
    Lookup,
    Output,
    Part,
    Ragged,
    Source,
    Sparse,
    Stream,
)

_DTYPES = {
    "i32": "BLADE_I32",
    "i64": "BLADE_I64",
    "f32": "BLADE_F32",
    "f64": "BLADE_F64",
    "bool": "BLADE_BOOL",
    "string": "BLADE_STRING",
}
_COMBINERS = {"sum": "kSum", "mean": "kMean", "sqrtn": "kSqrtN"}
_STREAM_FUNCTION = (
    "const void*, const void* const* values, BladeInt begin, BladeInt n, const Elements& e"
)
_DENSE_FUNCTION = "const void*, const void* const* values, BladeInt begin, BladeInt n, float* out"


class PlanPrinter:
    """Prints one lookup.

    Attributes:
      columns: what a message calls each bag, stream and dense part, in the order in which refusals
        number them; the lookup as a whole comes last.
    """

    def __init__(self, lookup: Lookup) -> None:
        self.lookup = lookup
        # Bags are ordered by stream in a plan.
        self._order = sorted(range(len(lookup.bags)), key=lambda b: lookup.bags[b].stream)
        self._bags_of: dict[int, list[int]] = {}  # places in that order, by stream
        for place, number in enumerate(self._order):
            self._bags_of.setdefault(lookup.bags[number].stream, []).append(place)
        self._places: dict[int, list[str]] = {}  # where each bag goes
        for number, output in enumerate(lookup.outputs):
            for part in output.parts:
                if part.bag is not None:
                    place_text = f"{{{number}, {part.offset}}}"
                    self._places.setdefault(part.bag, []).append(place_text)
        sources = [stream.source for stream in lookup.streams]
        self._crossed = {p for source in sources if isinstance(source, Cross) for p in source.parts}
        self._dense = [
            (number, part)
            for number, output in enumerate(lookup.outputs)
            for part in output.parts
            if part.dense is not None
        ]
        self._lines: list[str] = []
        self._arrays: dict[tuple[str, ...], str] = {}
        self._functions: dict[tuple[str, str], str] = {}
        self._vocabularies = [f"vocabulary_{i}" for i in range(len(lookup.vocabularies))]
        self.columns = self._names()

    def text(self) -> str:
        """Definitions, the last one being `plan`, a LookupPlan."""
        lookup = self.lookup
        for name, vocabulary in zip(self._vocabularies, lookup.vocabularies, strict=True):
            self._lines.append(vocabulary_data(name, vocabulary))
        dtypes = self._array("int", (_DTYPES[dtype] for dtype in lookup.inputs))
        streams = [self._stream(i, stream) for i, stream in enumerate(lookup.streams)]
        bags = [self._bag(number) for number in self._order]
        dense = [self._dense_part(number, part) for number, part in self._dense]
        outputs = [self._output(output) for output in lookup.outputs]
        parts = [
            f"{len(lookup.inputs)}, {dtypes}",
            self._table("StreamPlan", "streams", streams),
            self._table("BagPlan", "bags", bags),
            self._table("DensePlan", "dense_parts", dense),
            self._table("OutputPlan", "outputs", outputs),
        ]
        self._lines.append(f"static const LookupPlan plan = {{{', '.join(parts)}}};")
        return "\n\n".join(self._lines)

    # -- pieces of data -------------------------------------------------------------------

    def _table(self, kind: str, name: str, rows: list[str]) -> str:
        """Defines an array of structs; returns its size and name."""
        if not rows:
            return "0, nullptr"
        body = "".join(f"    {row},\n" for row in rows)
        self._lines.append(f"static const {kind} {name}[] = {{\n{body}}};")
        return f"{len(rows)}, {name}"

    def _array(self, kind: str, items: Iterable[object]) -> str:
        """The name of a constant array, defined once for equal contents; nullptr for none."""
        key = (kind, *map(str, items))
        if len(key) == 1:
            return "nullptr"
        if key not in self._arrays:
            self._arrays[key] = name = f"array_{len(self._arrays)}"
            self._lines.append(f"static const {kind} {name}[] = {{{', '.join(key[1:])}}};")
        return self._arrays[key]

    def _function(self, kind: str, parameters: str, body: str) -> str:
        """The name of a function, defined once for equal bodies."""
        if (kind, body) not in self._functions:
            self._functions[kind, body] = name = f"{kind}_{len(self._functions)}"
            self._lines.append(f"static bool {name}({parameters}) {{\n{body}\n}}")
        return self._functions[kind, body]

    # -- parts of the plan ----------------------------------------------------------------

    def _stream(self, number: int, stream: Stream) -> str:
        body = stream_body(stream, number in self._crossed, self._vocabularies)
        function = self._function("stream", _STREAM_FUNCTION, body)
        mine = self._bags_of.get(number, [])
        filtered, weighted = stream.keep is not None, stream.weight is not None
        return (
            f"{{{self._source(stream.source)}, {function}, nullptr, "
            f"{bool_text(filtered)}, {bool_text(weighted)}, {mine[0] if mine else 0}, {len(mine)}}}"
        )

    def _source(self, source: Source) -> str:
        """In the order of SourcePlan's fields; -1 stands for inputs that the kind doesn't have."""
        kind, numbers = "kDense", source.parts if isinstance(source, Cross) else source.values
        indices = shape = splits = -1
        row_dims, complete, per_element, buckets, key = 1, True, False, 0, 0
        rank, dims = 0, "nullptr"
        if isinstance(source, Dense):
            per_element = source.per_element
            if source.dims is not None:
                rank, dims = len(source.dims) + 1, self._array("BladeInt", source.dims)
        elif isinstance(source, Sparse):
            kind, indices, shape = "kSparse", source.indices, source.shape
            row_dims, complete, rank = source.row_dims, source.complete, source.rank or 0
        elif isinstance(source, Ragged):
            kind, splits = "kRagged", source.splits
        else:
            kind, buckets, key = "kCross", source.buckets, source.key
        fields = [
            kind,
            len(numbers),
            self._array("int", numbers),
            indices,
            shape,
            splits,
            row_dims,
            bool_text(complete),
            bool_text(per_element),
            rank,
            dims,
            buckets,
            int64(key),
        ]
        return f"{{{', '.join(map(str, fields))}}}"

    def _bag(self, number: int) -> str:
        bag: Bag = self.lookup.bags[number]
        places = self._places.get(number, [])
        tables = bag.table.parts if bag.table else ()
        fields = [
            bag.dim,
            len(tables),
            self._array("int", tables),
            bool_text(bag.table is not None and bag.table.strategy == "div"),
            _COMBINERS[bag.combiner],
            bool_text(bag.empty is not None),
            int64(bag.empty or 0),
            bool_text(bag.max_norm is not None),
            f"static_cast<float>({float(bag.max_norm or 0).hex()})",
            bool_text(bag.binary),
            len(places),
            self._array("Place", places),
        ]
        return f"{{{', '.join(map(str, fields))}}}"

    def _dense_part(self, output: int, part: Part) -> str:
        assert part.dense is not None
        inputs = sorted({e.at for e in part.dense.walk() if e.op == "value"})
        function = "nullptr"
        if part.dense.op != "value":
            numbers = {at: k for k, at in enumerate(inputs)}
            body = dense_body(part.dense, numbers, self._vocabularies)
            function = self._function("dense", _DENSE_FUNCTION, body)
        values = self._array("int", inputs)
        place = f"{{{output}, {part.offset}}}"
        return f"{{{place}, {part.width}, {len(inputs)}, {values}, {function}, nullptr}}"

    def _output(self, output: Output) -> str:
        tail = self._array("BladeInt", output.tail)
        return f"{{{len(output.tail)}, {tail}, {output.width}, {bool_text(output.add)}}}"

    # -- messages -------------------------------------------------------------------------

    def _names(self) -> list[str]:
        bags = self.lookup.bags
        names = [bags[number].column for number in self._order]
        for number in range(len(self.lookup.streams)):
            mine = self._bags_of.get(number)
            names.append(bags[self._order[mine[0]]].column if mine else "")
        names += ["" for _ in self._dense]
        return [*names, ""]
