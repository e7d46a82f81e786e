"""The page of supported ops: `python -m tf_blade.compiler.lower.table > docs/supported_ops.md`."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.lower import LOWERINGS
from tf_blade.compiler.lower.registry import COMPARABLE, FLOATS, INTEGERS, NUMBERS, SIGNED, DTypes
from tf_blade.compiler.lower.scope import COMPLEX, STRUCTURED

_NAMES: dict[DTypes, str] = {
    FLOATS: "floats",
    INTEGERS: "integers",
    NUMBERS: "numbers",
    COMPARABLE: "any",
    SIGNED: "signed numbers",
}


_HEADING = """# Supported ops

The {count} TensorFlow ops that the compiler knows, from its table of lowerings. An op may still
stay in TensorFlow for a reason that this table doesn't hold (an axis that isn't a constant, an
unknown rank, a large window): the report names the reason of each node that was left out.
"Integers" are all signed and unsigned ones, "floats" f32 and f64. Where f32 is, f16 and bf16 are
too, computed in f32 and rounded after each op; their products and convolutions stay in TensorFlow.
Convolutions, pooling and blocks
of pixels are known channels last (NHWC, NDHWC): in the other formats TensorFlow itself reports an
error on CPUs, unless it has oneDNN. BiasAdd and batch normalisation are known in both.

`While` and `StatelessWhile` are not in the table: a loop becomes part of a cluster when the
compiler knows all ops of its condition and its body, what it carries keeps its shape, and a counter
bounds its iterations. So do the lists that it reads and writes:
{lists}.
Inside loops, all branches of `If` and `Case` (`StatelessIf`, `StatelessCase`) are computed and one
of the results is chosen, if no branch has an effect or may fail.

Complex numbers (complex64) don't enter or leave a cluster: all nodes that share some of them go in
together, and with them what lies between, when the compiler knows them all. Transforms are of f32
along the last dim, of constant length. What is known of complex numbers:
{complexes}.
"""


def page() -> str:
    """The documentation's page."""
    lists = ", ".join(f"`{op}`" for op in sorted(STRUCTURED) if op.startswith("TensorList"))
    complexes = ", ".join(f"`{op}`" for op in sorted(COMPLEX))
    heading = _HEADING.format(count=len(LOWERINGS), lists=lists, complexes=complexes)
    return f"{heading}\n{markdown()}\n"


def markdown() -> str:
    """One row an op: its dtypes (by type attribute) and what it computes."""
    lines = ["| Op | Dtypes | Computes |", "|---|---|---|"]
    for op, lowering in sorted(LOWERINGS.items()):
        definition = op_def_registry.get(op)
        known = {attr.name for attr in definition.attr}
        dtypes = ", ".join(
            dtypes_text(allowed) if attr == "T" else f"{attr}: {dtypes_text(allowed)}"
            for attr, allowed in lowering.dtypes.items()
            if attr in known
        )
        first = definition.input_arg[0].type if definition.input_arg else 0
        if first and "T" not in known and not lowering.dtypes:  # the op's own, not a choice
            dtypes = tf.dtypes.as_dtype(first).name
        summary = lowering.summary.replace("|", "\\|")
        lines.append(f"| {op} | {dtypes or 'any'} | {summary} |")
    return "\n".join(lines)


def dtypes_text(allowed: DTypes) -> str:
    return _NAMES.get(allowed) or " ".join(t.value for t in DType if t in allowed)


if __name__ == "__main__":
    print(page(), end="")
