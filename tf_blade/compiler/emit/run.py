"""The run function: reads shapes, checks them, makes room, and calls the kernels in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import sympy

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.columns import column_reduce_function
from tf_blade.compiler.emit.conv import conv_call
from tf_blade.compiler.emit.gemm import Batch, gemm_call
from tf_blade.compiler.emit.kernels import kernel_function
from tf_blade.compiler.emit.loop import row_update, while_loop
from tf_blade.compiler.emit.nest import Function
from tf_blade.compiler.emit.scan import scan_function
from tf_blade.compiler.emit.scatter import scatter_function
from tf_blade.compiler.emit.scope import KernelText
from tf_blade.compiler.emit.top_k import top_k_function
from tf_blade.compiler.fuse.index import mul
from tf_blade.compiler.fuse.matrices import base
from tf_blade.compiler.ir.dims import Dim, FloorDiv, FloorMod, to_text
from tf_blade.compiler.ir.loops import nested_programs
from tf_blade.compiler.ir.program import InputDim, InputElement, Program, Value
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.schedule.kernel import (
    ColumnReduce,
    Conv,
    Gemm,
    HostStores,
    Kernel,
    RowUpdate,
    Scan,
    Scatter,
    Step,
    TopK,
    WhileLoop,
)
from tf_blade.compiler.schedule.schedule import Schedule

# Kernels known to take fewer cycles than this are called without asking for threads.
INLINE_CYCLES = 20_000
# Columns of a comment; names of nodes can be very long.
WIDEST = 160


@dataclass
class Source:
    """The printed program: functions of the prelude it needs, constants, kernels, run's body."""

    functions: set[str] = field(default_factory=set)
    data: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    run: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


class RunPrinter:
    """Prints everything of one program between the prelude and the dispatch table."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.program: Program = schedule.plan.program
        self.memory = schedule.memory
        self.names = c.Names(self.program)
        self.source = Source()
        # What the names of kernels begin with.
        self.prefix = ""
        # Parameters that are inputs of the cluster and the same in every call, with their number.
        self._constant_inputs = {i: i for i in self.program.constant_params}
        self._inner: list[RunPrinter] = []
        self._data: set[Value] = set()
        self._host_arrays: set[Value] = set()
        self._long_scratch: dict[Value, str] = {}
        # Room besides: name, type of the elements, bytes.
        self._rooms: list[tuple[str, str, str]] = []
        # Kernels printed so far, by their text with neutral names: layers of a model repeat.
        self._printed: dict[str, str] = {}

    def print(self) -> Source:
        # Kernels first: what they use decides what run has to provide.
        calls = self._calls()
        self._symbols_and_checks()
        self._pointers()
        self._temporaries()
        self._shape_arrays()
        if any("&refused" in line for call in calls for line in call):
            self._add("i32 refused = 0;")
        for call in calls:
            self._add("", *call)
        self._last_outputs()
        self._add("return BLADE_OK;")
        return self.source

    def _calls(self) -> list[list[str]]:
        return [self._step(step, number) for number, step in enumerate(self.schedule.steps)]

    # -- programs inside ops --------------------------------------------------------------

    def nested(
        self, schedule: Schedule, prefix: str, constant_inputs: dict[int, int]
    ) -> RunPrinter:
        """The printer of a program inside an op; its kernels' names begin with `prefix`."""
        inner = RunPrinter(schedule)
        self.names.nest(inner.program)
        inner.names = self.names
        inner.source = replace(self.source, run=[])  # shares all but its own lines
        inner.prefix = prefix
        inner._constant_inputs = {i: n for i, n in constant_inputs.items() if n >= 0}
        inner._data, inner._printed = self._data, self._printed
        self._inner.append(inner)
        return inner

    def steps(self) -> list[str]:
        """Prints the kernels; the lines that run them."""
        return [line for call in self._calls() for line in call]

    def shape_arrays(self) -> list[str]:
        """Declarations of the arrays of dims that the kernels read."""
        self._shape_arrays()
        return self.source.run

    def buffer(self, value: Value) -> str:
        """The pointer to a value's elements."""
        value = base(value)
        kind = value.op.kind if value.op is not None else "parameter"
        if kind == "shape_value" and value not in self.memory.stored:
            self._host_arrays.add(value)
            return f"{self.names[value]}_dims"
        return self._pointer(value)

    def constant_input(self, value: Value) -> int:
        """The number of the cluster's input that the value is, if it is constant, else -1."""
        params = self.program.params
        index = params.index(value) if value in params else -1
        return self._constant_inputs.get(index, -1)

    def add_room(self, name: str, kind: str, size: str) -> None:
        """Declares temporary memory `NAME_ptr` of `size` bytes."""
        self._rooms.append((name, kind, size))

    # -- small helpers --------------------------------------------------------------------

    def _add(self, *lines: str) -> None:
        self.source.run += lines

    def dim(self, dim: Dim) -> str:
        self.source.functions |= {
            name
            for name in ("dim_floor_div", "dim_floor_mod", "dim_max", "dim_min", "dim_if_negative")
            if name in c.dim(dim)
        }
        return c.dim(dim)

    def refusal(self, reason: str) -> int:
        """The number of a refusal, counted from 1."""
        if reason not in self.source.refusals:
            self.source.refusals.append(reason)
        return self.source.refusals.index(reason) + 1

    def _refuse_unless(self, condition: str, reason: str) -> None:
        self._add(f"if (!({condition})) return {self.refusal(reason)};")

    # -- shapes ---------------------------------------------------------------------------

    def _symbols_and_checks(self) -> None:
        program = self.program
        self._add("// Shapes")
        for symbol, source in program.symbols.items():
            if isinstance(source, InputDim):
                self._add(f"const i64 {symbol.name} = inputs[{source.param}].dims[{source.axis}];")
        for index, param in enumerate(program.params):
            for axis, dim in enumerate(param.type.shape):
                if isinstance(dim, int):
                    self._check_dim(index, axis, dim)
        for symbol, source in program.symbols.items():
            if isinstance(source, InputElement):
                self._read_element(symbol, source)
        self._check_divisors()
        for constraint in program.constraints:
            sign = "==" if constraint.kind == "eq" else "<="
            left, right = self.dim(constraint.left), self.dim(constraint.right)
            self._refuse_unless(f"{left} {sign} {right}", constraint.reason)
        for index, param in enumerate(program.params):
            for axis, dim in enumerate(param.type.shape):
                own = program.symbols.get(dim) if not isinstance(dim, int) else None
                if not isinstance(dim, int) and own != InputDim(index, axis):
                    self._check_dim(index, axis, dim)

    def _check_dim(self, index: int, axis: int, dim: Dim) -> None:
        param = self.program.params[index]
        self._refuse_unless(
            f"inputs[{index}].dims[{axis}] == {self.dim(dim)}",
            f"input {index} is not of shape {[to_text(n) for n in param.type.shape]}",
        )

    def _read_element(self, symbol: sympy.Symbol, source: InputElement) -> None:
        param = self.program.params[source.param]
        if not all(isinstance(n, int) for n in param.type.shape):
            self._refuse_unless(
                f"{self.dim(param.type.size)} > {source.index}",
                f"input {source.param} has no element {source.index}",
            )
        kind = c.type_name(param.type.dtype)
        self._add(
            f"const i64 {symbol.name} = "
            f"(i64) static_cast<const {kind}*>(inputs[{source.param}].data)[{source.index}];"
        )

    def _check_divisors(self) -> None:
        checked: set[sympy.Expr] = set()
        for dim in self._every_dim():
            for quotient in sorted(dim.atoms(FloorDiv, FloorMod), key=str):
                divisor = quotient.args[1]
                if divisor in checked or divisor.is_nonzero or divisor.is_positive:
                    continue
                checked.add(divisor)
                self._refuse_unless(
                    f"{self.dim(divisor)} != 0", f"{to_text(quotient)} divides by zero"
                )

    def _every_dim(self) -> Iterator[sympy.Expr]:
        def walk(value: object) -> Iterator[sympy.Expr]:
            if isinstance(value, sympy.Expr):
                yield value
            elif isinstance(value, tuple | list):
                for item in value:
                    yield from walk(item)

        for constraint in self.program.constraints:
            yield from walk((constraint.left, constraint.right))
        todo = [self.program]
        for program in todo:
            for value in program.values():
                yield from walk(value.type.shape)
            for op in program.ops:
                yield from walk(tuple(op.attrs.values()))
                todo += nested_programs(op)

    # -- memory ---------------------------------------------------------------------------

    def _pointers(self) -> None:
        for index, param in enumerate(self.program.params):
            kind = c.type_name(param.type.dtype)
            name = self.names[param]
            self._add(
                f"[[maybe_unused]] const {kind}* const {name}_ptr = "
                f"static_cast<const {kind}*>(inputs[{index}].data);"
            )
        if self.memory.outputs:
            self._add("", "// Outputs")
        for root, number in self.memory.outputs.items():
            self._allocate_output(root, number)

    def _dims_array(self, name: str, shape: tuple[Dim, ...]) -> str:
        dims = ", ".join(self.dim(n) for n in shape) or "0"
        return f"const BladeInt {name}[] = {{{dims}}};"

    def _allocate_output(self, root: Value, number: int) -> None:
        shape = self.program.results[number].type.shape
        kind, name = c.type_name(root.type.dtype), self.names[root]
        self._add(
            self._dims_array(f"output_{number}_dims", shape),
            f"{kind}* const {name}_ptr = static_cast<{kind}*>(",
            f"    host->allocate_output(ctx, {number}, {len(shape)}, output_{number}_dims));",
            f"if ({name}_ptr == nullptr) return BLADE_OUT_OF_MEMORY;",
        )

    def _temporaries(self) -> None:
        printers = [self]
        for printer in printers:
            printers += printer._inner
        slots = [slot for printer in printers for slot in printer.memory.slots]
        scratch = [item for printer in printers for item in printer._long_scratch.items()]
        rooms = [room for printer in printers for room in printer._rooms]
        if not slots and not scratch and not rooms:
            return
        self._add("", "// Temporaries")
        pointers: list[str] = []
        self._add("i64 temp_bytes = 0;")
        self.source.functions.add("take_temp")
        for number, slot in enumerate(slots):
            size = self.dim(slot.sizes[0])
            for other in slot.sizes[1:]:
                self.source.functions.add("dim_max")
                size = f"dim_max({size}, {self.dim(other)})"
            self._add(f"const i64 slot_{number} = take_temp(&temp_bytes, {size});")
            for value in slot.values:
                kind, name = c.type_name(value.type.dtype), self.names[value]
                pointers.append(
                    f"{kind}* const {name}_ptr = reinterpret_cast<{kind}*>(temp + slot_{number});"
                )
        rooms += [(self.names[v], c.type_name(v.type.dtype), size) for v, size in scratch]
        for name, kind, size in rooms:
            self._add(f"const i64 {name}_place = take_temp(&temp_bytes, {size});")
            pointers.append(
                f"{kind}* const {name}_ptr = reinterpret_cast<{kind}*>(temp + {name}_place);"
            )
        self._add(
            "char* temp = nullptr;",
            "if (temp_bytes > 0) {",
            "  temp = static_cast<char*>(host->allocate_temp(ctx, temp_bytes));",
            "  if (temp == nullptr) return BLADE_OUT_OF_MEMORY;",
            "}",
            *pointers,
        )

    def _shape_arrays(self) -> None:
        for value in self.program.values():
            if value in self._host_arrays:
                assert value.op is not None
                kind = c.type_name(value.type.dtype)
                elements = ", ".join(f"({kind}){self.dim(n)}" for n in value.op.attrs["elements"])
                self._add(f"const {kind} {self.names[value]}_dims[] = {{{elements}}};")

    def _last_outputs(self) -> None:
        for number, first in self.memory.copies.items():
            result = self.program.results[number]
            origin = base(self.program.results[first])
            kind, name = c.type_name(result.type.dtype), f"output_{number}"
            size = self.dim(mul(result.type.size, result.type.dtype.size))
            self._add(
                "",
                f"// Output {number} repeats output {first}",
                self._dims_array(f"{name}_dims", result.type.shape),
                f"{kind}* const {name}_ptr = static_cast<{kind}*>(",
                f"    host->allocate_output(ctx, {number}, {result.type.rank}, {name}_dims));",
                f"if ({name}_ptr == nullptr) return BLADE_OUT_OF_MEMORY;",
                f"__builtin_memcpy({name}_ptr, {self.names[origin]}_ptr, {size});",
            )
        for number, index in self.memory.forwards.items():
            shape = self.program.results[number].type.shape
            self._add(
                "",
                f"// Output {number} is input {index}",
                self._dims_array(f"output_{number}_dims", shape),
                f"if (host->forward_input(ctx, {number}, {index}, {len(shape)}, "
                f"output_{number}_dims) != 0)",
                "  return BLADE_HOST_ERROR;",
            )

    # -- steps ----------------------------------------------------------------------------

    def _step(self, step: Step, number: int) -> list[str]:
        """Prints the step's kernel, if it has one; returns the lines that run it."""
        if isinstance(step, Gemm):
            return self._gemm(step)
        if isinstance(step, Conv):
            return self._conv(step)
        if isinstance(step, HostStores):
            return self._host_stores(step)
        if isinstance(step, RowUpdate):
            return row_update(self, step)
        if isinstance(step, WhileLoop):
            return while_loop(self, step)
        text = KernelText(self.names.__getitem__)
        if isinstance(step, ColumnReduce):
            function = column_reduce_function(step, text)
        elif isinstance(step, Scan):
            function = scan_function(step, text)
        elif isinstance(step, Scatter):
            function = scatter_function(step, text)
        elif isinstance(step, TopK):
            function = top_k_function(step, text)
        else:
            function = kernel_function(step, text)
        return self._kernel(step, function, number)

    def _kernel(
        self, step: Kernel | ColumnReduce | Scan | Scatter | TopK, function: Function, number: int
    ) -> list[str]:
        text = function.text
        same_group = [s for s in self.schedule.steps[:number] if s.group is step.group]
        name = self.prefix + step.group.name + (f"_part_{len(same_group)}" if same_group else "")
        self.source.functions |= text.functions
        fields: list[tuple[str, str]] = []
        for value, written in text.buffers.items():
            kind = c.type_name(value.type.dtype)
            pointer = f"{self.names[value]}_ptr"
            if value.op is not None and value.op.kind == "shape_value" and not written:
                self._host_arrays.add(value)
                pointer = f"{self.names[value]}_dims"
            fields.append((f"{kind}*" if written else f"const {kind}*", pointer))
        fields += [("i64", symbol) for symbol in sorted(text.symbols, key=_natural)]
        if text.flags:
            fields.append(("i32*", "refused"))
        for value in text.data:
            self._constant(value)
        for value, scratch in function.long_scratch.items():
            bytes_ = self.dim(mul(mul(scratch.rows, scratch.row), value.type.dtype.size))
            row = self.dim(scratch.row)
            self._long_scratch[value] = f"{row} > {scratch.capacity} ? {bytes_} : 0"
        neutral = "" if text.flags or text.data else _neutral(function.body, fields)
        same = self._printed.get(neutral)
        if same is not None:
            heading = self._heading(step, f"{name} runs {same}")
            return [*heading, *self._call(function, same, name, fields)]
        if neutral:
            self._printed[neutral] = name
        self._print_kernel(step, function, name, fields)
        return self._call(function, name, name, fields)

    def _print_kernel(
        self,
        step: Kernel | ColumnReduce | Scan | Scatter | TopK,
        function: Function,
        name: str,
        fields: list[tuple[str, str]],
    ) -> None:
        lines = [*self._heading(step, name)]
        lines.append(f"struct {name}_args {{")
        lines += [f"  {kind} {field_name};" for kind, field_name in fields]
        lines += ["};", ""]
        lines.append(f"KERNEL void {name}(const void* raw, BladeInt begin, BladeInt end) {{")
        lines.append(f"  const {name}_args& args = *static_cast<const {name}_args*>(raw);")
        for kind, field_name in fields:
            if field_name != "refused":
                qualifier = " __restrict" if kind.endswith("*") else ""
                const = "const " if not kind.endswith("*") else ""
                lines.append(f"  {const}{kind}{qualifier} {field_name} = args.{field_name};")
        lines += [f"  {line}" for line in function.body]
        for (op, reason), flag in function.text.flags.items():
            refusal = self.refusal(f"{op}: {reason}")
            store = f"__atomic_store_n(args.refused, {refusal}, __ATOMIC_RELAXED)"
            lines.append(f"  if ({flag}) {store};")
        uses = "\n".join(function.body)
        if "begin" not in uses:
            lines.append("  (void)begin, (void)end;")
        lines.append("}")
        self.source.kernels.append("\n".join(lines))

    def _heading(self, step: Step, name: str) -> list[str]:
        ops = self.schedule.plan.ops(step.group)
        sources = list(dict.fromkeys(op.source for op in ops if op.source))
        lines = c.comment(f"{name}: {', '.join(sources)}" if sources else name)
        lines += [line for op in ops for line in c.comment(f"  {op}")]
        return [line if len(line) <= WIDEST else f"{line[: WIDEST - 2]} …" for line in lines]

    def _call(
        self, function: Function, kernel: str, name: str, fields: list[tuple[str, str]]
    ) -> list[str]:
        """Calls the printed function `kernel` for the step `name`."""
        if function.units == 0:
            return []
        lines: list[str] = []
        for (op, reason, extent), size in function.text.takes.items():
            if not (isinstance(extent, int) and extent > 0):
                refusal = self.refusal(f"{op}: {reason}")
                lines.append(
                    f"if ({self.dim(extent)} == 0 && {self.dim(size)} > 0) return {refusal};"
                )
        values = ", ".join("&refused" if f == "refused" else f for _, f in fields)
        lines.append(f"const {kernel}_args {name}_values = {{{values}}};")
        units = self.dim(function.units)
        cycles, known = self._cycles(function)
        total = known * function.units if isinstance(function.units, int) and known else None
        if total is not None and total < INLINE_CYCLES:
            lines.append(f"{kernel}(&{name}_values, 0, {units});")
        else:
            lines += [
                f"if ({units} > 0) {{",
                f"  host->parallel_for(ctx, {units}, {cycles}, {kernel}, &{name}_values);",
                "}",
            ]
        if function.text.flags:
            lines.append("if (refused != 0) return refused;")
        return lines

    def _cycles(self, function: Function) -> tuple[str, float | None]:
        """C++ for the cycles of one unit, and their number when it is known."""
        constant = sum(f * n for f, n in function.unit_cost if isinstance(n, int))
        varying = [(f, n) for f, n in function.unit_cost if not isinstance(n, int)]
        parts = [f"{f:.2f} * (double){self.dim(n)}" for f, n in varying]
        parts.append(f"{constant:.2f}")
        return " + ".join(parts), None if varying else constant

    def _host_stores(self, step: HostStores) -> list[str]:
        (root,) = step.group.roots
        assert root.op is not None
        kind = c.type_name(root.type.dtype)
        name = self.names[root]
        return [
            f"{name}_ptr[{i}] = ({kind}){self.dim(n)};"
            for i, n in enumerate(root.op.attrs["elements"])
        ]

    def _constant(self, value: Value) -> None:
        if value in self._data:
            return
        self._data.add(value)
        assert value.op is not None
        array: np.ndarray = value.op.attrs["value"]
        kind = c.type_name(value.type.dtype)
        elements = ", ".join(c.literal(x, value.type.dtype) for x in array.reshape(-1)) or "0"
        self.source.data.append(
            f"alignas(64) const {kind} {self.names[value]}_data[] = {{{elements}}};"
        )

    def _pointer(self, value: Value) -> str:
        if value.op is not None and value.op.kind == "constant":
            self._constant(value)
            return f"{self.names[value]}_data"
        return f"{self.names[value]}_ptr"

    def _gemm(self, step: Gemm) -> list[str]:
        (root,) = step.group.roots
        roots, constants = self.schedule.plan.roots, self._constant_inputs
        call = gemm_call(root, self.program, roots, constants)
        kind = c.type_name(root.type.dtype)
        name = f"{self.prefix}{step.group.name}_call"
        outer, inner = call.batch[:-1], call.batch[-1:]
        counters = [f"b{i}" for i in range(len(outer))]

        def place(pointer: str, offset: Dim, strides: list[Dim]) -> str:
            terms = [self.dim(offset)] if offset != 0 else []
            terms += [
                f"{counter} * {self.dim(stride)}"
                for counter, stride in zip(counters, strides, strict=True)
                if stride != 0
            ]
            return " + ".join([pointer, *terms])

        batch = inner[0] if inner else Batch(1, 0, 0, 0)
        a, b, out = call.a, call.b, call.c
        fields = {
            "dtype": "BLADE_F64" if root.type.dtype is DType.F64 else "BLADE_F32",
            "transpose_a": int(call.transpose_a),
            "transpose_b": int(call.transpose_b),
            "batch": self.dim(batch.count),
            "m": self.dim(call.m),
            "n": self.dim(call.n),
            "k": self.dim(call.k),
            "a": place(self._pointer(a.buffer), a.offset, [x.a for x in outer]),
            "lda": self.dim(a.leading),
            "a_stride": self.dim(batch.a),
            "b": place(self._pointer(b.buffer), b.offset, [x.b for x in outer]),
            "ldb": self.dim(b.leading),
            "b_stride": self.dim(batch.b),
            "c": place(f"{self.names[root]}_ptr", 0, [x.c for x in outer]),
            "ldc": self.dim(out.leading),
            "c_stride": self.dim(batch.c),
            "bias": self._pointer(base(call.bias)) if call.bias is not None else "nullptr",
            "activation": _ACTIVATIONS[call.activation],
            "b_constant_input": str(call.constant_input),
        }
        lines = [f"BladeGemm {name} = {{}};"]
        lines += [f"{name}.{key} = {value};" for key, value in fields.items() if value != 0]
        run = f"if (host->gemm(ctx, &{name}) != 0) return BLADE_HOST_ERROR;"
        if isinstance(call.k, int) and call.k > 0:
            lines.append(run)
        else:
            self.source.functions.add("add_bias_only")
            lines += [
                f"if ({self.dim(call.k)} == 0) {{",
                f"  add_bias_only<{kind}>(&{name});",
                f"}} else {run}",
            ]
        for counter, loop in reversed(list(zip(counters, outer, strict=True))):
            header = f"for (i64 {counter} = 0; {counter} < {self.dim(loop.count)}; ++{counter})"
            lines = [f"{header} {{", *(f"  {line}" for line in lines), "}"]
        size = root.type.size
        if not (isinstance(size, int) and size > 0):
            lines = [f"if ({self.dim(size)} > 0) {{", *(f"  {line}" for line in lines), "}"]
        return [*self._heading(step, self.prefix + step.group.name), *lines]

    def _conv(self, step: Conv) -> list[str]:
        (root,) = step.group.roots
        call = conv_call(root)
        name = f"{self.prefix}{step.group.name}_call"
        fields = {
            "dtype": "BLADE_F64" if root.type.dtype is DType.F64 else "BLADE_F32",
            **{key: self.dim(n) for key, n in call.sizes.items()},
            "x": self._pointer(call.x),
            "filter": self._pointer(call.window),
            "bias": self._pointer(call.bias) if call.bias is not None else "nullptr",
            "y": f"{self.names[root]}_ptr",
            "activation": _ACTIVATIONS[call.activation],
            "filter_constant_input": str(self.constant_input(call.window)),
        }
        lines = [f"BladeConv {name} = {{}};"]
        lines += [f"{name}.{key} = {value};" for key, value in fields.items()]
        lines.append(f"if (host->conv(ctx, &{name}) != 0) return BLADE_HOST_ERROR;")
        size = root.type.size
        if not (isinstance(size, int) and size > 0):
            lines = [f"if ({self.dim(size)} > 0) {{", *(f"  {line}" for line in lines), "}"]
        return [*self._heading(step, step.group.name), *lines]


_ACTIVATIONS = {"none": "BLADE_ACTIVATION_NONE", "relu": "BLADE_ACTIVATION_RELU"}
_VALUE_NAME = re.compile(r"\b[pv]\d+(?=_|\b)")


def _neutral(body: list[str], fields: list[tuple[str, str]]) -> str:
    """The kernel's text with its values numbered in order of appearance: equal texts are kernels
    that differ in what they are given only."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"value{len(numbers)}")

    header = "\n".join(f"{kind} {name}" for kind, name in fields)
    return _VALUE_NAME.sub(number, "\n".join([header, *body]))


def _natural(symbol: str) -> tuple[str, int]:
    """s2 before s10."""
    head = symbol.rstrip("0123456789")
    return head, int(symbol[len(head) :] or 0)
