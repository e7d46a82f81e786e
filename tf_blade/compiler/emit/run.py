"""The run function: reads shapes, checks them, makes room, and calls the kernels in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import sympy

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.fft import fft_call
from tf_blade.compiler.emit.kernel_calls import KernelStep, kernel_step
from tf_blade.compiler.emit.library_calls import conv_step, gemm_step
from tf_blade.compiler.emit.listing import first_equal_call, positions_call
from tf_blade.compiler.emit.loop import row_update, while_loop
from tf_blade.compiler.fuse.index import mul
from tf_blade.compiler.fuse.matrices import base
from tf_blade.compiler.ir.dims import Dim, FloorDiv, FloorMod, symbols_of, to_text
from tf_blade.compiler.ir.loops import nested_programs
from tf_blade.compiler.ir.program import InputDim, InputElement, Program, Value
from tf_blade.compiler.ir.sizes import Sizes, live_ops, upper_bound
from tf_blade.compiler.schedule.kernel import (
    Conv,
    Fft,
    FirstEqual,
    Gemm,
    HostStores,
    Positions,
    RowUpdate,
    Step,
    WhileLoop,
)
from tf_blade.compiler.schedule.schedule import Schedule
from tf_blade.errors import UnsupportedError

# Columns of a comment; names of nodes can be very long.
WIDEST = 160


@dataclass
class Source:
    """The printed program: functions of the prelude it needs, constants, kernels, run's body.

    structs: types of kernels' arguments, where run is in another file than the kernels.
    """

    functions: set[str] = field(default_factory=set)
    data: list[str] = field(default_factory=list)
    structs: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    run: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


class RunPrinter:
    """Prints everything of one program between the prelude and the dispatch table.

    print_kernel: prints the kernel of a step; the lines that call it.
    """

    def __init__(
        self,
        schedule: Schedule,
        print_kernel: Callable[[RunPrinter, KernelStep, int], list[str]] = kernel_step,
    ) -> None:
        self.schedule = schedule
        self._print_kernel = print_kernel
        self.program: Program = schedule.plan.program
        self.memory = schedule.memory
        self.names = c.Names(self.program)
        self.source = Source()
        # What the names of kernels begin with.
        self.prefix = ""
        # Parameters that are inputs of the cluster and the same in every call, with their number.
        self.constant_inputs = {i: i for i in self.program.constant_params}
        self._inner: list[RunPrinter] = []
        self._data: set[Value] = set()
        self._host_arrays: set[Value] = set()
        # Room besides: name -> type of the elements, bytes.
        self._rooms: dict[str, tuple[str, str]] = {}
        # Sizes that steps compute: what mentions them is declared when they are known.
        self.sizes: Sizes = live_ops(self.program)[1]
        self._unknown = set(self.sizes)
        self._later: list[tuple[set[sympy.Symbol], list[str]]] = []
        # Kernels printed so far, by their text with neutral names: layers of a model repeat.
        self.printed: dict[str, str] = {}

    def print(self) -> Source:
        # Kernels first: what they use decides what run has to provide.
        calls = self._calls()
        last_step = {step.group.name: i for i, step in enumerate(self.schedule.steps)}
        self._symbols_and_checks()
        self._pointers()
        self._temporaries()
        self._shape_arrays()
        if any("&refused" in line for call in calls for line in call):
            self._add("i32 refused = 0;")
        self._declare_sizes(self._sizes_of_no_step())
        for number, (step, call) in enumerate(zip(self.schedule.steps, calls, strict=True)):
            self._require_outputs(step)
            self._add("", *call)
            if last_step[step.group.name] == number:
                self._declare_sizes(self._sizes_made_by(step))
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
        inner = RunPrinter(schedule, self._print_kernel)
        self.names.nest(inner.program)
        inner.names, inner.sizes = self.names, self.sizes
        inner.source = replace(self.source, run=[])  # shares all but its own lines
        inner.prefix = prefix
        inner.constant_inputs = {i: n for i, n in constant_inputs.items() if n >= 0}
        inner._data, inner.printed = self._data, self.printed
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
            return self.host_array(value)
        return self.pointer(value)

    def host_array(self, value: Value) -> str:
        """The array of dims that a value of kind shape_value is for kernels; run declares it."""
        self._host_arrays.add(value)
        return f"{self.names[value]}_dims"

    def constant_input(self, value: Value) -> int:
        """The number of the cluster's input that the value is, if it is constant, else -1."""
        params = self.program.params
        index = params.index(value) if value in params else -1
        return self.constant_inputs.get(index, -1)

    def add_room(self, name: str, kind: str, size: str) -> None:
        """Declares temporary memory `NAME_ptr` of `size` bytes."""
        self._rooms[name] = (kind, size)

    # -- small helpers --------------------------------------------------------------------

    def _add(self, *lines: str) -> None:
        self.source.run += lines

    def dim(self, dim: Dim) -> str:
        self.source.functions |= {name for name in c.DIM_FUNCTIONS if name in c.dim(dim)}
        return c.dim(dim)

    def refusal(self, reason: str) -> int:
        """The number of a refusal, counted from 1."""
        if reason not in self.source.refusals:
            self.source.refusals.append(reason)
        return self.source.refusals.index(reason) + 1

    def room(self, dim: Dim) -> str:
        """The dim for memory that is taken at the start: its bound if it isn't known by then."""
        if not symbols_of(dim) & self.sizes.keys():
            return self.dim(dim)
        bound = upper_bound(dim, self.sizes)
        if bound is None:
            raise UnsupportedError(f"no bound of {to_text(dim)}", self._source_of_sizes())
        return self.dim(bound)

    def _refuse_unless(self, condition: str, reason: str) -> None:
        self._add(*self._refusal_unless(condition, reason))

    def _refusal_unless(self, condition: str, reason: str) -> list[str]:
        return [f"if (!({condition})) return {self.refusal(reason)};"]

    # -- computed sizes -------------------------------------------------------------------

    def _when_known(self, dims: Iterable[Dim], lines: list[str]) -> None:
        """Adds the lines, here or where the computed sizes that the dims mention are known."""
        needed = set().union(*map(symbols_of, dims)) & self._unknown
        if needed:
            self._later.append((needed, lines))
        else:
            self._add(*lines)

    def _sizes_of_no_step(self) -> list[sympy.Symbol]:
        made = {base(r) for step in self.schedule.steps for r in step.group.roots}
        return [symbol for symbol, size in self.sizes.items() if base(size.value) not in made]

    def _sizes_made_by(self, step: Step) -> list[sympy.Symbol]:
        roots = set(step.group.roots)
        return [symbol for symbol, size in self.sizes.items() if base(size.value) in roots]

    def _declare_sizes(self, symbols: list[sympy.Symbol]) -> None:
        for symbol in symbols:
            number = f"(i64){self.buffer(self.sizes[symbol].value)}[0]"
            self._add(f"const i64 {symbol.name} = {number};")
            self._unknown.discard(symbol)
            waiting, self._later = self._later, []
            for needed, lines in waiting:
                if needed - {symbol}:
                    self._later.append((needed - {symbol}, lines))
                else:
                    self._add(*lines)

    def _require_outputs(self, step: Step) -> None:
        """Raises UnsupportedError if the shape of a result that the step writes isn't known yet."""
        for root in step.group.roots:
            if root in self.memory.outputs:
                shape = self.program.results[self.memory.outputs[root]].type.shape
                if set().union(*map(symbols_of, shape)) & self._unknown:
                    raise UnsupportedError(
                        f"the shape of {root} is known after its elements", self._source_of_sizes()
                    )

    def _source_of_sizes(self) -> str:
        """The TensorFlow node that the first computed size comes from."""
        ops = (size.value.op for size in self.sizes.values())
        sources = (op.source for op in ops if op is not None and op.source)
        return next(sources, "").split(", ")[0]

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
            lines = self._refusal_unless(f"{left} {sign} {right}", constraint.reason)
            self._when_known((constraint.left, constraint.right), lines)
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
                lines = self._refusal_unless(
                    f"{self.dim(divisor)} != 0", f"{to_text(quotient)} divides by zero"
                )
                self._when_known((divisor,), lines)

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
        lines = [
            self._dims_array(f"output_{number}_dims", shape),
            f"{kind}* const {name}_ptr = static_cast<{kind}*>(",
            f"    host->allocate_output(ctx, {number}, {len(shape)}, output_{number}_dims));",
            f"if ({name}_ptr == nullptr) return BLADE_OUT_OF_MEMORY;",
        ]
        self._when_known(shape, lines)

    def _temporaries(self) -> None:
        printers = [self]
        for printer in printers:
            printers += printer._inner
        slots = [slot for printer in printers for slot in printer.memory.slots]
        rooms = [room for printer in printers for room in printer._rooms.items()]
        if not slots and not rooms:
            return
        self._add("", "// Temporaries")
        pointers: list[str] = []
        self._add("i64 temp_bytes = 0;")
        self.source.functions.add("take_temp")
        for number, slot in enumerate(slots):
            size = self.room(slot.sizes[0])
            for other in slot.sizes[1:]:
                self.source.functions.add("dim_max")
                size = f"dim_max({size}, {self.room(other)})"
            self._add(f"const i64 slot_{number} = take_temp(&temp_bytes, {size});")
            for value in slot.values:
                kind, name = c.type_name(value.type.dtype), self.names[value]
                pointers.append(
                    f"{kind}* const {name}_ptr = reinterpret_cast<{kind}*>(temp + slot_{number});"
                )
        for name, (kind, size) in rooms:
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
                line = f"const {kind} {self.names[value]}_dims[] = {{{elements}}};"
                self._when_known(value.op.attrs["elements"], [line])

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
            return gemm_step(self, step)
        if isinstance(step, Conv):
            return conv_step(self, step)
        if isinstance(step, Fft):
            return fft_call(self, step)
        if isinstance(step, HostStores):
            return self._host_stores(step)
        if isinstance(step, Positions):
            return positions_call(self, step)
        if isinstance(step, FirstEqual):
            return first_equal_call(self, step)
        if isinstance(step, RowUpdate):
            return row_update(self, step)
        if isinstance(step, WhileLoop):
            return while_loop(self, step)
        return self._print_kernel(self, step, number)

    def heading(self, step: Step, name: str) -> list[str]:
        ops = self.schedule.plan.ops(step.group)
        sources = list(dict.fromkeys(op.source for op in ops if op.source))
        lines = c.comment(f"{name}: {', '.join(sources)}" if sources else name)
        lines += [line for op in ops for line in c.comment(f"  {op}")]
        return [line if len(line) <= WIDEST else f"{line[: WIDEST - 2]} …" for line in lines]

    def _host_stores(self, step: HostStores) -> list[str]:
        (root,) = step.group.roots
        assert root.op is not None
        kind = c.type_name(root.type.dtype)
        name = self.names[root]
        return [
            f"{name}_ptr[{i}] = ({kind}){self.dim(n)};"
            for i, n in enumerate(root.op.attrs["elements"])
        ]

    def constant(self, value: Value) -> None:
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

    def pointer(self, value: Value) -> str:
        if value.op is not None and value.op.kind == "constant":
            self.constant(value)
            return f"{self.names[value]}_data"
        return f"{self.names[value]}_ptr"
