"""The loops meant to be vectorised are: GCC says so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.compiler.emit.example import Example
from tests.compiler.emit.programs import EXAMPLES
from tf_blade.compiler import compile_program
from tf_blade.compiler.build import find_compiler

UNARY = (
    "exp expm1 log log1p tanh logistic erf erfc sin cos tan asin acos atan sinh cosh asinh acosh "
    "atanh rsqrt sqrt abs sign floor round"
)
VECTORISED = [
    *(
        Example(kind, "(%x: f32[a, b]) -> (%0)", f"%0: f32[a, b] = {kind}(%x)")
        for kind in UNARY.split()
    ),
    Example("power", "(%x: f32[a], %y: f32[a]) -> (%0)", "%0: f32[a] = pow(%x, %y)"),
    Example("angle", "(%x: f32[a], %y: f32[a]) -> (%0)", "%0: f32[a] = atan2(%x, %y)"),
    Example(
        "gelu",
        "(%x: f32[a, b], %bias: f32[b]) -> (%8)",
        """%0: f32[a, b] = broadcast_in_dim(%bias, shape=[a, b], dims=[1])
        %1: f32[a, b] = add(%x, %0)
        %c: f32[] = constant(value=-0.70710677)
        %2: f32[a, b] = broadcast_in_dim(%c, shape=[a, b], dims=[])
        %3: f32[a, b] = mul(%1, %2)
        %4: f32[a, b] = erfc(%3)
        %8: f32[a, b] = mul(%1, %4)""",
    ),
    Example(
        "clipped",
        "(%x: f32[a]) -> (%5)",
        """%zero: f32[] = constant(value=0.0)
        %six: f32[] = constant(value=6.0)
        %0: f32[a] = broadcast_in_dim(%zero, shape=[a], dims=[])
        %1: f32[a] = broadcast_in_dim(%six, shape=[a], dims=[])
        %2: f32[a] = max(%x, %0)
        %3: f32[a] = min(%2, %1)
        %4: f32[a] = exp(%3)
        %5: f32[a] = mul(%4, %3)""",
    ),
    Example(
        "clipped_by_columns",
        "(%x: f32[a, b], %v: f32[b]) -> (%5)",
        """%0: f32[a, b] = broadcast_in_dim(%v, shape=[a, b], dims=[1])
        %1: f32[a, b] = min(%x, %0)
        %2: f32[a, b] = neg(%0)
        %5: f32[a, b] = max(%1, %2)""",
    ),
    Example(
        "largest_of_what_is_chosen",
        "(%x: f32[a, b]) -> (%3)",
        """%c: f32[] = constant(value=-3.5)
        %0: f32[a, b] = broadcast_in_dim(%c, shape=[a, b], dims=[])
        %1: bool[a, b] = compare(%x, %0, direction=GT)
        %2: f32[a, b] = select(%1, %x, %0)
        %3: f32[a] = reduce(%2, kind=max, dims=[1])""",
    ),
    *(
        Example(
            f"of_{half}",
            f"(%x: {half}[a], %y: {half}[a]) -> (%4)",
            f"""%0: f32[a] = convert(%x, dtype=f32)
            %1: f32[a] = convert(%y, dtype=f32)
            %2: f32[a] = mul(%0, %1)
            %4: {half}[a] = convert(%2, dtype={half})""",
        )
        for half in ("f16", "bf16")
    ),
    Example(
        "masked",
        "(%x: f32[a], %m: bool[a], %n: bool[a]) -> (%3, %4, %5)",
        """%0: bool[a] = and(%m, %n)
        %1: f32[a] = neg(%x)
        %3: f32[a] = select(%0, %x, %1)
        %2: f32[a] = convert(%m, dtype=f32)
        %4: f32[a] = mul(%2, %x)
        %5: i32[a] = convert(%n, dtype=i32)""",
    ),
    Example(
        "chosen",
        "(%x: f32[a], %y: f32[a]) -> (%7)",
        """%0: bool[a] = compare(%x, %y, direction=LT)
        %1: bool[a] = is_finite(%y)
        %2: bool[a] = and(%0, %1)
        %3: f32[a] = exp(%x)
        %4: f32[a] = select(%2, %3, %y)
        %5: bool[a] = compare(%4, %x, direction=GE)
        %6: bool[a] = or(%5, %2)
        %7: f32[a] = select(%6, %4, %x)""",
    ),
    Example(
        "softmax_of_known_width",
        "(%x: f32[a, 100]) -> (%8)",
        """%0: f32[a] = reduce(%x, kind=max, dims=[1])
        %2: f32[a, 100] = broadcast_in_dim(%0, shape=[a, 100], dims=[0])
        %3: f32[a, 100] = sub(%x, %2)
        %4: f32[a, 100] = exp(%3)
        %5: f32[a] = reduce(%4, kind=sum, dims=[1])
        %7: f32[a, 100] = broadcast_in_dim(%5, shape=[a, 100], dims=[0])
        %8: f32[a, 100] = div(%4, %7)""",
    ),
    *(
        e
        for e in EXAMPLES
        if e.name
        in (
            "flat bias_and_scale softmax layer_norm_of_a_residual reductions_of_rows "
            "reductions_of_columns several_outputs_of_one_loop long_sums concatenated_columns "
            "select_and_compare"
        ).split()
    ),
]


# Those that call vector functions where there is AVX-512.
IN_PIECES = ("tanh", "erf", "erfc", "gelu")
CASES = [
    *((example, "x86-64-v3") for example in VECTORISED),
    *((example, "x86-64-v4") for example in VECTORISED if example.name in IN_PIECES),
]


@pytest.mark.parametrize(
    ("example", "target"), CASES, ids=lambda x: x.name if isinstance(x, Example) else x
)
def test_every_loop_meant_to_be_is_vectorised(example: Example, target: str, tmp_path: Path):
    compiler = find_compiler()
    if compiler.family != "gcc":
        pytest.skip("reads GCC's report")
    source = compile_program(example.program())
    path = tmp_path / "kernels.cc"
    path.write_text(source)
    command = compiler.compile_command(target, str(path), str(tmp_path / "k.o"), "BLADE_RUN=r")
    report = subprocess.run(
        [*command, "-fopt-info-vec-optimized"], capture_output=True, text=True, check=True
    ).stderr
    vectorised = {int(n) for n in re.findall(r"kernels\.cc:(\d+):\d+: optimized: loop vec", report)}
    lines = source.splitlines()
    loops = [i for i, line in enumerate(lines) if line.strip().startswith("#pragma omp simd")]
    assert loops
    missed = [lines[i + 1] for i in loops if not vectorised & set(range(i + 1, end_of(lines, i)))]
    assert not missed, f"not vectorised:\n{chr(10).join(missed)}\nin\n{source}"


def end_of(lines: list[str], start: int) -> int:
    """The line, counted from 1, after the block that follows line `start`."""
    closing = lines[start][: len(lines[start]) - len(lines[start].lstrip())] + "}"
    return lines.index(closing, start) + 2
