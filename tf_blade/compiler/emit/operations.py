"""Each elementwise primitive as a C++ expression."""

from __future__ import annotations

from dataclasses import dataclass

from tf_blade.compiler.emit.c import literal, type_name
from tf_blade.compiler.fuse.scalar import Scalar
from tf_blade.compiler.ir.types import DType

_SUFFIX = {DType.F32: "f", DType.F64: ""}
# Functions of the prelude for f32; the C library's for f64.
_PRELUDE_F32 = frozenset(
    "exp exp_decay expm1 log log1p tanh logistic erf erfc sin cos tan asin acos atan sinh cosh "
    "asinh acosh atanh atan2 pow rsqrt".split()
)
_PRELUDE_F64 = frozenset("logistic rsqrt".split())
_LIBRARY = {
    **{k: k for k in "exp expm1 log log1p sqrt sin cos tan asin acos atan sinh cosh tanh".split()},
    **{k: k for k in "asinh acosh atanh erf erfc floor ceil pow atan2".split()},
    "abs": "fabs",
    "round": "rint",
    "rem": "fmod",
}
_COMPARE = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
_BITWISE = {"and": "&", "or": "|", "xor": "^"}
_NARROW = (DType.I8, DType.I16, DType.U8, DType.U16)
_DIVISIONS = ("div", "floor_div", "rem", "floor_mod")


@dataclass
class Expression:
    """text: the C++ expression. functions: what it takes from the prelude.

    refuses_if: when not empty, a C++ condition on which the run is refused for `refusal`; the
      expression itself is then harmless.
    """

    text: str
    functions: tuple[str, ...] = ()
    refuses_if: str = ""
    refusal: str = ""


def operation(
    kind: str, dtype: DType, operand: DType, args: list[str], payload: str | None
) -> Expression:
    """The primitive applied to the C++ expressions `args`, of type `operand`, giving `dtype`."""
    x = args[0]
    if kind == "select":
        return Expression(f"{x} ? {args[1]} : {args[2]}")
    if kind == "compare":
        assert payload is not None
        return Expression(f"{x} {_COMPARE[payload]} {args[1]}")
    if kind == "checked":
        return Expression(x, (), f"!{args[1]}", "a value that TensorFlow reports as an error")
    if kind == "convert":
        return _convert(dtype, operand, x)
    if kind in ("is_nan", "is_inf", "is_finite"):
        infinity = f"__builtin_inf{_SUFFIX[operand]}()"
        size = f"__builtin_fabs{_SUFFIX[operand]}({x})"
        sign = {"is_inf": "==", "is_finite": "<"}
        return Expression(f"{x} != {x}" if kind == "is_nan" else f"{size} {sign[kind]} {infinity}")
    if operand.is_float:
        return _of_floats(kind, dtype, args)
    return _of_integers(kind, dtype, args)


def may_refuse(s: Scalar) -> bool:
    """Whether computing the scalar may refuse the run."""
    if s.kind in ("literal", "dim", "index", "load", "local"):
        return False
    names = ["x"] * len(s.args)
    return s.kind == "taken" or bool(
        operation(s.kind, s.dtype, s.args[0].dtype, names, s.payload).refuses_if
    )


def _convert(dtype: DType, operand: DType, x: str) -> Expression:
    functions: tuple[str, ...] = ()
    if operand.is_half:
        functions = (f"f32_from_{operand.value}",)
        x, operand = f"{functions[0]}({x})", DType.F32
    if dtype.is_half:
        functions += (f"{dtype.value}_from_f32",)
        return Expression(f"{functions[-1]}({_converted(DType.F32, operand, x)})", functions)
    return Expression(_converted(dtype, operand, x), functions)


def _converted(dtype: DType, operand: DType, x: str) -> str:
    if dtype is operand:
        return x
    if dtype is DType.BOOL:
        return f"{x} != 0"
    if operand is DType.BOOL and dtype.is_float:  # a select is vectorised, this conversion isn't
        return f"{x} ? {literal(1, dtype)} : {literal(0, dtype)}"
    return f"({type_name(dtype)}){x}"


def _of_floats(kind: str, dtype: DType, args: list[str]) -> Expression:
    x, name = args[0], type_name(dtype)
    if kind in _ARITHMETIC or kind == "div":
        return Expression(f"{x} {_ARITHMETIC.get(kind, '/')} {args[1]}")
    if kind == "neg":
        return Expression(f"-{x}")
    if kind == "floor_div":
        return Expression(f"__builtin_floor{_SUFFIX[dtype]}({x} / {args[1]})")
    own = _PRELUDE_F32 if dtype is DType.F32 else _PRELUDE_F64
    if kind in own or kind in ("max", "min", "sign", "floor_mod"):
        function = f"{kind}_{name}"
        expression = Expression(f"{function}({', '.join(args)})", (function,))
        if kind in ("sin", "cos", "tan"):
            # Beyond, neighbouring numbers are further apart than a period.
            size = f"__builtin_fabsf({x})"
            expression.refuses_if = f"{size} > 0x1p45f & {size} < __builtin_inff()"
            expression.refusal = f"{kind} of a number beyond 2^45"
        return expression
    return Expression(f"__builtin_{_LIBRARY[kind]}{_SUFFIX[dtype]}({', '.join(args)})")


def _of_integers(kind: str, dtype: DType, args: list[str]) -> Expression:
    x, name = args[0], type_name(dtype)

    def narrow(text: str) -> str:
        return f"({name})({text})" if dtype in _NARROW else text

    if kind in _ARITHMETIC:
        return Expression(narrow(f"{x} {_ARITHMETIC[kind]} {args[1]}"))
    if kind in _BITWISE:
        text = f"{x} {_BITWISE[kind]} {args[1]}"
        return Expression(f"({name})({text})" if dtype is DType.BOOL else narrow(text))
    if kind == "not":
        return Expression(f"!{x}" if dtype is DType.BOOL else narrow(f"~{x}"))
    if kind == "neg":
        return Expression(narrow(f"-{x}"))
    if kind == "abs":
        return Expression(narrow(f"{x} < 0 ? -{x} : {x}") if dtype.is_signed else x)
    if kind == "sign":
        negative = f" - ({x} < 0)" if dtype.is_signed else ""
        return Expression(f"({name})(({x} > 0){negative})")
    if kind in ("floor", "ceil", "round"):
        return Expression(x)
    if kind in ("max", "min"):
        return Expression(f"{x} {'>' if kind == 'max' else '<'} {args[1]} ? {x} : {args[1]}")
    if kind in _DIVISIONS:
        function = f"{kind}_integer"
        return Expression(
            f"{function}<{name}>({x}, {args[1]})",
            (function,),
            f"{args[1]} == 0",
            "integer division by zero",
        )
    if kind == "pow":
        refuses = f"{args[1]} < 0" if dtype.is_signed else ""
        return Expression(
            f"pow_integer<{name}>({x}, {args[1]})",
            ("pow_integer",),
            refuses,
            "integer raised to a negative power",
        )
    function = f"{kind}_integer"  # shifts
    return Expression(f"{function}<{name}>({x}, {args[1]})", (function,))
