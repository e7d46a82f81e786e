"""Prints scalars into nested C++ blocks, each expression in the outermost block that can hold it.

A block (`Scope`) has the loop variables that are set in it. What doesn't depend on the innermost
loop's variables is therefore computed outside that loop, without a pass of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tf_blade.compiler.emit import c
from tf_blade.compiler.emit.operations import Expression, operation
from tf_blade.compiler.fuse.index import Affine, Atom, LoopVar, Quotient, Remainder, Taken
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.dims import Dim, symbols_of
from tf_blade.compiler.ir.program import Op, Value
from tf_blade.compiler.ir.signs import is_nonpositive
from tf_blade.compiler.ir.types import DType

_OUT_OF_RANGE = "index out of range"


def _kind(s: Scalar) -> str:
    """What to compute: the scalar's kind, or a cheaper one that does for its operand."""
    if s.kind == "exp" and s.dtype is DType.F32:
        assert s.value is not None and s.value.op is not None
        return "exp_decay" if is_nonpositive(s.value.op.operands[0]) else "exp"
    return s.kind


@dataclass(eq=False)
class Scope:
    """Lines of one block. vars: the loop variables set here. parent: the block around it."""

    parent: Scope | None = None
    vars: frozenset[LoopVar] = frozenset()
    lines: list[str] = field(default_factory=list)
    names: dict[Any, str] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)  # refusal flags that are set in this block

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth + 1

    def chain(self) -> list[Scope]:
        """From the outermost block to this one."""
        return [*(self.parent.chain() if self.parent else []), self]

    def inner(self, variables: Iterable[LoopVar] = ()) -> Scope:
        return Scope(self, frozenset(variables))

    def close(self, inner: Scope, header: str) -> None:
        """Appends the finished inner block."""
        self.lines += [f"{header} {{", *(f"  {line}" for line in inner.lines), "}"]

    def find(self, key: Any) -> str | None:
        scope: Scope | None = self
        while scope is not None:
            if key in scope.names:
                return scope.names[key]
            scope = scope.parent
        return None


@dataclass(eq=False)
class KernelText:
    """What a kernel uses, collected while it is printed.

    buffers: values read or written through pointers, whether written. symbols: dims it needs.
    functions: parts of the prelude. flags: refusal flags and the op and reason of each.
    takes: (op, reason, size of the dim indexed) and number of elements, for each gather.
    dims: what is computed of symbols once, at the kernel's top, with its name.
    """

    value_name: Callable[[Value], str]
    buffers: dict[Value, bool] = field(default_factory=dict)
    data: dict[Value, None] = field(default_factory=dict)
    symbols: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    flags: dict[tuple[str, str], str] = field(default_factory=dict)
    scratch: dict[Value, str] = field(default_factory=dict)
    takes: dict[tuple[str, str, Dim], Dim] = field(default_factory=dict)
    dims: dict[str, str] = field(default_factory=dict)
    _used: dict[str, int] = field(default_factory=dict)

    # -- names ----------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """The name, numbered when it was used before in this kernel."""
        count = self._used.get(name, 0)
        self._used[name] = count + 1
        return name if count == 0 else self.unique(f"{name}_{count + 1}")

    def dim(self, dim: Dim) -> str:
        self.symbols |= {str(s.name) for s in symbols_of(dim)}
        text = c.dim(dim)
        used = [name for name in c.DIM_FUNCTIONS if name in text]
        self.functions.update(used)
        if used and text not in self.dims:
            self.dims[text] = self.unique("extent")
        return self.dims.get(text, text)

    def flag(self, op: Op, reason: str) -> str:
        """The variable that is set when the run must be refused because of `op`."""
        key = (op.source or str(op.result), reason)
        if key not in self.flags:
            self.flags[key] = f"refused_{len(self.flags)}"
        return self.flags[key]

    def pointer(self, value: Value, written: bool) -> str:
        if value in self.scratch:
            return self.scratch[value]
        name = self.value_name(value)
        if not written and value.op is not None and value.op.kind == "constant":
            self.data[value] = None
            return f"{name}_data"
        if not written and value.op is not None and value.op.kind == "shape_value":
            name = f"{name}_dims"
            self.buffers.setdefault(value, False)
            return name
        self.buffers[value] = self.buffers.get(value, False) or written
        return f"{name}_ptr"

    # -- expressions ----------------------------------------------------------------------

    def home(self, s: Scalar, scope: Scope) -> Scope:
        """The outermost block around `scope` in which everything the scalar needs is known."""
        return scope.chain()[self._depth(s, scope)]

    def _depth(self, s: Scalar, scope: Scope) -> int:
        return self._depth_of_vars(s.vars, scope)

    @staticmethod
    def _depth_of_vars(variables: frozenset[LoopVar], scope: Scope) -> int:
        depth = 0
        for block in scope.chain():
            if block.vars & variables:
                depth = block.depth
        return depth

    def text(self, s: Scalar, scope: Scope) -> str:
        """An expression (a name or a number) for the scalar, valid in `scope`."""
        found = scope.find(s)
        if found is not None:
            return found
        if s.kind == "literal":
            return c.literal(s.payload, s.dtype)
        if s.kind == "dim":
            return f"({c.type_name(s.dtype)}){self.dim(s.payload)}"
        if s.kind == "local":
            raise AssertionError(f"{s} is used before it is computed")
        return self._define(s, self.home(s, scope))

    def _define(self, s: Scalar, scope: Scope) -> str:
        kind = c.type_name(s.dtype)
        if s.kind == "index":
            assert s.index is not None
            return self._declare(s, scope, kind, "index", f"({kind})({self.index(s.index, scope)})")
        if s.kind == "load":
            assert s.index is not None and s.value is not None
            place = self.address(s.value, s.index, scope, written=False)
            if s.dtype is DType.BOOL:
                self.functions.add("is_set")
                place = f"is_set({place})"
            return self._declare(s, scope, kind, f"{self._hint(s.value)}_x", place)
        if s.kind == "taken":
            return self._taken(s, scope)
        args = [self.text(a, scope) for a in s.args]
        expression = operation(_kind(s), s.dtype, s.args[0].dtype, args, s.payload)
        self.functions.update(expression.functions)
        self._refuse(s, expression, scope)
        assert s.value is not None
        return self._declare(s, scope, kind, self._hint(s.value), expression.text)

    def _hint(self, value: Value) -> str:
        return self.value_name(value)

    def _declare(self, s: Scalar, scope: Scope, kind: str, hint: str, text: str) -> str:
        name = self.unique(hint)
        scope.lines.append(f"const {kind} {name} = {text};")
        scope.names[s] = name
        return name

    def _refuse(self, s: Scalar, expression: Expression, scope: Scope) -> None:
        if not expression.refuses_if:
            return
        assert s.value is not None and s.value.op is not None
        flag = self.flag(s.value.op, expression.refusal)
        scope.lines.append(f"{flag} |= {expression.refuses_if};")
        scope.flags.add(flag)

    def _taken(self, s: Scalar, scope: Scope) -> str:
        assert s.value is not None and s.value.op is not None
        flag = self.flag(s.value.op, _OUT_OF_RANGE)
        self.takes[(s.value.op.source or str(s.value), _OUT_OF_RANGE, s.payload)] = (
            s.value.type.size
        )
        raw = self.text(s.args[0], scope)
        name = self.unique("at")
        bad = self.unique("outside")
        extent = self.dim(s.payload)
        signed = f"(i64){raw}"
        scope.lines.append(f"const bool {bad} = {signed} < 0 || {signed} >= {extent};")
        scope.lines.append(f"{flag} |= {bad};")
        scope.flags.add(flag)
        scope.lines.append(f"const i64 {name} = {bad} ? 0 : {signed};")
        scope.names[s] = name
        return name

    # -- indices --------------------------------------------------------------------------

    def index(self, x: Affine, scope: Scope) -> str:
        """The affine expression as C++."""
        parts = [self._term(atom, coefficient, scope) for atom, coefficient in x.terms]
        if x.const != 0 or not parts:
            parts.append(self.dim(x.const))
        return " + ".join(parts)

    def _term(self, atom: Atom, coefficient: Dim, scope: Scope) -> str:
        name = self._atom(atom, scope)
        if coefficient == 1:
            return name
        return f"{name} * {self.dim(coefficient)}"

    def _atom(self, atom: Atom, scope: Scope) -> str:
        if isinstance(atom, LoopVar):
            return atom.name
        found = scope.find(atom)
        if found is not None:
            return found
        if isinstance(atom, Taken):
            return self.text(atom.scalar, scope)
        home = scope.chain()[self._depth_of_vars(atom.of.vars, scope)]
        value = self.index(atom.of, home)
        name = self.unique("q" if isinstance(atom, Quotient) else "r")
        if isinstance(atom.by, int):
            sign = "/" if isinstance(atom, Quotient) else "%"
            text = f"({value}) {sign} {atom.by}"
        else:
            function = "dim_floor_div" if isinstance(atom, Quotient) else "dim_floor_mod"
            self.functions.add(function)
            text = f"{function}({value}, {self.dim(atom.by)})"
        home.lines.append(f"const i64 {name} = {text};")
        home.names[atom] = name
        return name

    def _atom_depth(self, atom: Atom, scope: Scope) -> int:
        if isinstance(atom, LoopVar):
            variables = frozenset([atom])
        elif isinstance(atom, Taken):
            variables = atom.scalar.vars
        else:
            assert isinstance(atom, Quotient | Remainder)
            variables = atom.of.vars
        return self._depth_of_vars(variables, scope)

    def address(self, value: Value, x: Affine, scope: Scope, *, written: bool) -> str:
        """`pointer[index]`; what doesn't change in the innermost block goes into the pointer."""
        pointer = self.pointer(value, written)
        inner = [t for t in x.terms if self._atom_depth(t[0], scope) == scope.depth]
        outer = [t for t in x.terms if self._atom_depth(t[0], scope) < scope.depth]
        if scope.parent is None:
            inner, outer = [*inner, *outer], []
        base = Affine(tuple(outer), x.const)
        if scope.parent is not None and (outer or x.const != 0):
            depth = max((self._atom_depth(a, scope) for a, _ in outer), default=0)
            pointer = self._row_pointer(value, pointer, base, scope.chain()[depth], written)
            rest = Affine(tuple(inner), 0)
        else:
            rest = Affine(tuple(inner), x.const)
        return f"{pointer}[{self.index(rest, scope)}]"

    def _row_pointer(
        self, value: Value, pointer: str, base: Affine, home: Scope, written: bool
    ) -> str:
        key = ("row", value, base, pointer)
        found = home.find(key)
        if found is None:
            offset = self.index(base, home)
            found = self.unique(f"{pointer.removesuffix('_ptr')}_row")
            home.lines.append(f"auto* {found} = {pointer} + ({offset});")
            home.names[key] = found
        return found
