"""Programs for each kind of kernel, with the sizes that they are run at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.compiler.emit.loop_programs import LOOPS
from tf_blade.compiler.ir.dims import evaluate
from tf_blade.compiler.ir.parser import parse
from tf_blade.compiler.ir.program import InputDim, Program
from tf_blade.compiler.ir.types import DType
from tf_blade.compiler.ir.verifier import verify

# Nothing, one, fewer than a vector, whole vectors, tails.
SIZES = (0, 1, 2, 3, 5, 8, 9, 17, 33, 64)


# What `plain)` and so on at the end of a dot_general stand for.
_PRODUCTS = {
    "plain)": "transpose_a=false, transpose_b=false, activation=none)",
    "plain_a)": "transpose_a=true, transpose_b=false, activation=none)",
    "plain_b)": "transpose_a=false, transpose_b=true, activation=none)",
    "relu)": "transpose_a=false, transpose_b=false, activation=relu)",
}


@dataclass(frozen=True)
class Example:
    """A program's text without its frame.

    signature: `(params) -> (results)`. body: what stands between the braces, without the symbols
    of the parameters' dims. sizes: what each symbol may be, SIZES if it isn't named. runs: how many
    combinations of sizes.
    """

    name: str
    signature: str
    body: str
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    runs: int = 8

    def program(self) -> Program:
        symbols: list[str] = []
        for param in self.signature.split("->")[0].strip(" ()").split("%")[1:]:
            name, dims = param.split(":")[0], param.split("[")[1].split("]")[0]
            for axis, dim in enumerate(x.strip() for x in dims.split(",")):
                if dim.isidentifier() and not any(s.split()[1] == dim for s in symbols):
                    symbols.append(f"symbol {dim} = dim(%{name}, {axis})")
        lines = [*symbols, *(_expanded(line.strip()) for line in self.body.strip().splitlines())]
        program = parse(f"program {self.name}{self.signature} {{\n" + "\n".join(lines) + "\n}")
        verify(program)
        return program

    def inputs(self, program: Program, rng: np.random.Generator) -> list[np.ndarray]:
        """Random inputs. Integers are drawn from 0 to 3, so that they can be indices."""
        choices = dict(self.sizes)
        sizes = {
            s: int(rng.choice(choices.get(s.name, SIZES)))
            for s, source in program.symbols.items()
            if isinstance(source, InputDim)
        }
        return [
            draw(rng, p.type.dtype, [evaluate(n, sizes) for n in p.type.shape])
            for p in program.params
        ]


def _expanded(line: str) -> str:
    if " = dot_general(" not in line:
        return line
    head, _, last = line.rpartition(" ")
    return f"{head} {_PRODUCTS.get(last, last)}"


def draw(rng: np.random.Generator, dtype: DType, shape: list[int]) -> np.ndarray:
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return rng.random(shape) < 0.6
    return rng.integers(0, 4, shape).astype(dtype.numpy)


EXAMPLES = [
    # -- loops ----------------------------------------------------------------------------
    Example(
        "flat",
        "(%x: f32[a, b], %y: f32[a, b]) -> (%2)",
        """%0: f32[a, b] = mul(%x, %y)
        %1: f32[a, b] = exp(%x)
        %2: f32[a, b] = add(%0, %1)""",
    ),
    Example(
        "bias_and_scale",
        "(%x: f32[a, b], %bias: f32[b], %scale: f32[], %row: f32[a]) -> (%6)",
        """%0: f32[a, b] = broadcast_in_dim(%bias, shape=[a, b], dims=[1])
        %1: f32[a, b] = add(%x, %0)
        %2: f32[a, b] = broadcast_in_dim(%scale, shape=[a, b], dims=[])
        %3: f32[a, b] = mul(%1, %2)
        %4: f32[a] = exp(%row)
        %5: f32[a, b] = broadcast_in_dim(%4, shape=[a, b], dims=[0])
        %6: f32[a, b] = sub(%3, %5)""",
    ),
    Example(
        "broadcast_of_ones",
        "(%x: f32[a, 1, b], %y: f32[1, c, 1]) -> (%2)",
        """%0: f32[a, c, b] = broadcast_in_dim(%x, shape=[a, c, b], dims=[0, 1, 2])
        %1: f32[a, c, b] = broadcast_in_dim(%y, shape=[a, c, b], dims=[0, 1, 2])
        %2: f32[a, c, b] = max(%0, %1)""",
    ),
    Example(
        "long_rows_are_cut_into_blocks",
        "(%x: f32[a, b], %y: f32[b]) -> (%1)",
        """%0: f32[a, b] = broadcast_in_dim(%y, shape=[a, b], dims=[1])
        %1: f32[a, b] = add(%x, %0)""",
        sizes=(("a", (1, 2)), ("b", (16384, 16385, 50000))),
        runs=3,
    ),
    Example(
        "transposed",
        "(%x: f32[a, b], %y: f32[b, a]) -> (%1, %0)",
        """%0: f32[b, a] = transpose(%x, perm=[1, 0])
        %1: f32[b, a] = mul(%0, %y)""",
    ),
    Example(
        "transposed_in_large_blocks",
        "(%x: f32[a, b], %y: f32[b, a], %z: f32[a]) -> (%3)",
        """%0: f32[b, a] = transpose(%x, perm=[1, 0])
        %1: f32[b, a] = broadcast_in_dim(%z, shape=[b, a], dims=[1])
        %2: f32[b, a] = mul(%0, %y)
        %3: f32[b, a] = add(%2, %1)""",
        sizes=(("a", (7, 64, 65, 257, 600)), ("b", (3, 63, 256, 300, 1000))),
        runs=6,
    ),
    Example(
        "transposed_elements_of_all_sizes",
        "(%x: i64[a, b], %y: i16[a, b], %z: bool[a, b], %w: f64[c, a, b]) -> (%0, %1, %2, %3)",
        """%0: i64[b, a] = transpose(%x, perm=[1, 0])
        %1: i16[b, a] = transpose(%y, perm=[1, 0])
        %2: bool[b, a] = transpose(%z, perm=[1, 0])
        %3: f64[b, a, c] = transpose(%w, perm=[2, 1, 0])""",
        sizes=(("a", (1, 8, 20, 70)), ("b", (1, 9, 64, 65)), ("c", (1, 3, 17))),
    ),
    Example(
        "transposed_in_four_dims",
        "(%x: f32[a, b, c, 4]) -> (%0, %1)",
        """%0: f32[a, c, b, 4] = transpose(%x, perm=[0, 2, 1, 3])
        %1: f32[4, c, b, a] = transpose(%x, perm=[3, 2, 1, 0])""",
        sizes=(("a", (0, 1, 3)), ("b", (1, 2, 17)), ("c", (1, 5, 20))),
    ),
    Example(
        "strided_and_reversed",
        "(%x: f32[a, 9]) -> (%1, %3)",
        """%0: f32[a, 4] = slice(%x, start=[0, 1], limit=[a, 8], stride=[1, 2])
        %1: f32[a, 4] = exp(%0)
        %2: f32[a, 9] = reverse(%x, dims=[0, 1])
        %3: f32[a, 9] = add(%2, %x)""",
    ),
    Example(
        "reshaped_across_dims",
        "(%x: f32[a, 6], %y: f32[4]) -> (%5, %6)",
        """%0: f32[a, 2, 3] = reshape(%x, shape=[a, 2, 3])
        %1: f32[a, 3, 2] = transpose(%0, perm=[0, 2, 1])
        %2: f32[a, 6] = reshape(%1, shape=[a, 6])
        %3: f32[6*a] = reshape(%2, shape=[6*a])
        %4: f32[6*a] = reverse(%3, dims=[0])
        %5: f32[a, 6] = reshape(%4, shape=[a, 6])
        %6: f32[2, 2] = reshape(%y, shape=[2, 2])""",
    ),
    Example(
        "iota_and_shapes",
        "(%x: i64[a, b]) -> (%3, %4, %5, %7)",
        """%0: i64[a, b] = iota(dtype=i64, shape=[a, b], dim=1)
        %1: i64[a, b] = iota(dtype=i64, shape=[a, b], dim=0)
        %2: i64[a, b] = add(%0, %1)
        %3: i64[a, b] = mul(%2, %x)
        %4: i32[2] = shape_value(dtype=i32, shape=[2], elements=[a, 2*b])
        %5: i64[] = shape_value(dtype=i64, shape=[], elements=[a + b])
        %6: i32[a, 2] = broadcast_in_dim(%4, shape=[a, 2], dims=[1])
        %7: f32[a, 2] = convert(%6, dtype=f32)""",
    ),
    Example(
        "select_and_compare",
        "(%x: f32[a], %y: f32[a]) -> (%2, %0, %4)",
        """%0: bool[a] = compare(%x, %y, direction=LT)
        %1: f32[a] = neg(%x)
        %2: f32[a] = select(%0, %1, %y)
        %3: bool[a] = is_nan(%y)
        %4: bool[a] = or(%0, %3)""",
    ),
    Example(
        "conversions",
        "(%x: f32[a], %i: i32[a], %b: bool[a], %u: u8[a]) -> (%0, %1, %2, %3, %4, %5, %6)",
        """%0: i32[a] = convert(%x, dtype=i32)
        %1: f64[a] = convert(%i, dtype=f64)
        %2: f32[a] = convert(%b, dtype=f32)
        %3: bool[a] = convert(%i, dtype=bool)
        %4: i64[a] = convert(%u, dtype=i64)
        %5: i8[a] = convert(%i, dtype=i8)
        %6: u64[a] = convert(%b, dtype=u64)""",
    ),
    Example(
        "gathers",
        "(%t: f32[5, b], %i: i32[a], %j: i64[a, 2], %u: f32[a, 5, 3]) -> (%0, %1, %2, %3)",
        """%0: f32[a, b] = gather(%t, %i, axis=0, batch_dims=0)
        %1: f32[5, a, 2] = gather(%s, %j, axis=1, batch_dims=0)
        %2: f32[a, 2, 3] = gather(%u, %j, axis=1, batch_dims=1)
        %3: f32[a, b] = tanh(%0)""".replace(
            "%1:", "%s: f32[5, 4] = iota(dtype=f32, shape=[5, 4], dim=1)\n        %1:"
        ),
    ),
    Example(
        "index_computed_by_a_gather",
        "(%t: f32[4, b], %m: i32[4], %i: i32[a]) -> (%1)",
        """%0: i32[a] = gather(%m, %i, axis=0, batch_dims=0)
        %1: f32[a, b] = gather(%t, %0, axis=0, batch_dims=0)""",
    ),
    Example(
        "integers",
        "(%x: i32[a], %y: i32[a], %u: u8[a]) -> (%2, %3, %4, %5, %6, %7, %8)",
        """%one: i32[] = constant(value=1)
        %0: i32[a] = broadcast_in_dim(%one, shape=[a], dims=[])
        %1: i32[a] = add(%y, %0)
        %n: i32[a] = neg(%x)
        %2: i32[a] = div(%n, %1)
        %3: i32[a] = floor_div(%n, %1)
        %4: i32[a] = floor_mod(%n, %1)
        %5: i32[a] = rem(%n, %1)
        %6: i32[a] = pow(%1, %y)
        %7: u8[a] = sub(%u, %u2)
        %8: i32[a] = shift_left(%1, %y)""".replace("%7:", "%u2: u8[a] = mul(%u, %u)\n        %7:"),
    ),
    Example(
        "several_outputs_of_one_loop",
        "(%x: f32[a, b], %y: f32[a, b]) -> (%1, %2, %3)",
        """%0: f32[a, b] = tanh(%x)
        %1: f32[a, b] = add(%0, %y)
        %2: f32[a, b] = mul(%0, %y)
        %3: f32[a, b] = exp(%0)""",
    ),
    Example(
        "nothing_to_do",
        "(%x: f32[2, 0, 3]) -> (%1, %2)",
        """%0: f32[3, 0, 2] = transpose(%x, perm=[2, 1, 0])
        %1: f32[3, 0, 2] = exp(%0)
        %2: f32[2, 3] = reduce(%x, kind=sum, dims=[1])""",
    ),
    # -- results that are nothing new -----------------------------------------------------
    Example(
        "results_that_repeat_inputs_and_each_other",
        "(%x: f32[a, b], %y: f32[a]) -> (%0, %1, %1, %2, %y)",
        """%0: f32[a*b] = reshape(%x, shape=[a*b])
        %1: f32[a] = exp(%y)
        %2: f32[a, 1] = reshape(%1, shape=[a, 1])""",
    ),
    Example(
        "constant_results",
        "(%x: f32[a]) -> (%0, %1, %2, %3)",
        """%0: f32[3] = constant(value=[1.5, -2.0, inf])
        %one: f32[] = constant(value=1.0)
        %1: f32[a, 2] = broadcast_in_dim(%one, shape=[a, 2], dims=[])
        %t: f32[2] = constant(value=[0.25, 3.0])
        %2: f32[a, 2] = broadcast_in_dim(%t, shape=[a, 2], dims=[1])
        %3: bool[] = constant(value=true)""",
    ),
    # -- concatenate and pad --------------------------------------------------------------
    Example(
        "concatenated_columns",
        "(%x: f32[a, b], %y: f32[a, 3], %z: f32[a, b]) -> (%2)",
        """%0: f32[a, b] = exp(%x)
        %1: f32[a, 3] = neg(%y)
        %2: f32[a, 2*b + 3] = concatenate(%0, %1, %z, dim=1)""",
    ),
    Example(
        "concatenated_rows_and_middle",
        "(%x: f32[a, b, 2], %y: f32[c, b, 2], %z: f32[a, c, 2]) -> (%0, %1)",
        """%0: f32[a + c, b, 2] = concatenate(%x, %y, dim=0)
        %1: f32[a, b + c, 2] = concatenate(%x, %z, dim=1)""",
    ),
    Example(
        "concatenated_transposes",
        "(%x: f32[b, a], %y: f32[1, b]) -> (%2)",
        """%0: f32[a, b] = transpose(%x, perm=[1, 0])
        %1: f32[a, b] = broadcast_in_dim(%y, shape=[a, b], dims=[0, 1])
        %2: f32[a, 2*b] = concatenate(%0, %1, dim=1)""",
    ),
    Example(
        "padded",
        "(%x: f32[a, b, 2], %v: f32[]) -> (%1, %2, %3)",
        """%0: f32[a, b, 2] = exp(%x)
        %1: f32[a + 3, b + 1, 2] = pad(%0, %v, low=[1, 0, 0], high=[2, 1, 0])
        %2: f32[a, b, 7] = pad(%x, %v, low=[0, 0, 2], high=[0, 0, 3])
        %3: f32[a + 1, b + 2, 4] = pad(%x, %v, low=[0, 1, 1], high=[1, 1, 1])""",
    ),
    Example(
        "padded_scalar_and_row",
        "(%x: f32[], %y: f32[1, a], %v: f32[]) -> (%0, %1)",
        """%0: f32[] = pad(%x, %v, low=[], high=[])
        %1: f32[3, a] = pad(%y, %v, low=[2, 0], high=[0, 0])""",
    ),
    # -- reductions -----------------------------------------------------------------------
    Example(
        "reductions_of_rows",
        "(%x: f32[a, b]) -> (%0, %1, %2, %4, %5)",
        """%0: f32[a] = reduce(%x, kind=sum, dims=[1])
        %1: f32[a] = reduce(%x, kind=max, dims=[1])
        %2: f32[a] = reduce(%x, kind=min, dims=[1])
        %3: f32[a, b] = tanh(%x)
        %4: f32[a] = reduce(%3, kind=prod, dims=[1])
        %5: f32[a, b] = mul(%3, %x)""",
    ),
    Example(
        "reductions_of_columns",
        "(%x: f32[a, b], %y: f32[b]) -> (%3, %1, %5)",
        """%0: f32[b] = reduce(%x, kind=sum, dims=[0])
        %1: f32[b] = reduce(%x, kind=max, dims=[0])
        %2: f32[b] = mul(%0, %y)
        %3: f32[b] = exp(%2)
        %4: f32[a, b] = mul(%x, %x)
        %5: f32[b] = reduce(%4, kind=sum, dims=[0])""",
        sizes=(("a", (0, 1, 3, 17)), ("b", (0, 1, 9, 256, 300))),
    ),
    Example(
        "reductions_of_middle_and_outer_dims",
        "(%x: f32[a, b, c, 3]) -> (%0, %1, %2, %3)",
        """%0: f32[a, c, 3] = reduce(%x, kind=sum, dims=[1])
        %1: f32[b, 3] = reduce(%x, kind=max, dims=[0, 2])
        %2: f32[a, c] = reduce(%x, kind=sum, dims=[1, 3])
        %3: f32[] = reduce(%x, kind=min, dims=[0, 1, 2, 3])""",
        sizes=tuple((s, (0, 1, 2, 5, 9)) for s in "abc"),
    ),
    Example(
        "reductions_of_integers_and_bools",
        "(%x: i8[a, b], %y: bool[a, b], %z: i64[a, b]) -> (%0, %1, %2, %3, %4, %5)",
        """%0: i8[a] = reduce(%x, kind=prod, dims=[1])
        %1: i8[b] = reduce(%x, kind=sum, dims=[0])
        %2: bool[a] = reduce(%y, kind=and, dims=[1])
        %3: bool[b] = reduce(%y, kind=or, dims=[0])
        %4: i64[a] = reduce(%z, kind=min, dims=[1])
        %5: i64[b] = reduce(%z, kind=max, dims=[0])""",
    ),
    Example(
        "long_sums",
        "(%x: f32[a]) -> (%0, %2)",
        """%0: f32[] = reduce(%x, kind=sum, dims=[0])
        %1: f32[a] = mul(%x, %x)
        %2: f32[] = reduce(%1, kind=sum, dims=[0])""",
        sizes=(("a", (2047, 2049, 16384, 100_003)),),
        runs=4,
    ),
    Example(
        "sums_of_a_few_rows",
        "(%x: f32[3, a]) -> (%0)",
        "%0: f32[3] = reduce(%x, kind=sum, dims=[1])",
        sizes=(("a", (1, 7, 16, 17, 40_000)),),
        runs=4,
    ),
    Example(
        "long_column_sums",
        "(%x: f32[a, 5]) -> (%0, %1)",
        """%0: f32[5] = reduce(%x, kind=sum, dims=[0])
        %1: f32[5] = reduce(%x, kind=min, dims=[0])""",
        sizes=(("a", (3000, 40_001)),),
        runs=2,
    ),
    Example(
        "variance_of_everything",
        "(%x: f32[a, b]) -> (%5)",
        """%0: f32[] = reduce(%x, kind=sum, dims=[0, 1])
        %1: f32[] = tanh(%0)
        %2: f32[a, b] = broadcast_in_dim(%1, shape=[a, b], dims=[])
        %3: f32[a, b] = sub(%x, %2)
        %4: f32[a, b] = mul(%3, %3)
        %5: f32[] = reduce(%4, kind=sum, dims=[0, 1])""",
    ),
    Example(
        "sum_of_a_transpose",
        "(%x: f32[a, b]) -> (%1, %2)",
        """%0: f32[b, a] = transpose(%x, perm=[1, 0])
        %1: f32[b] = reduce(%0, kind=sum, dims=[1])
        %2: f32[a] = reduce(%0, kind=max, dims=[0])""",
    ),
    Example(
        "softmax",
        "(%x: f32[a, b]) -> (%8, %5)",
        """%0: f32[a] = reduce(%x, kind=max, dims=[1])
        %1: f32[a, 1] = reshape(%0, shape=[a, 1])
        %2: f32[a, b] = broadcast_in_dim(%1, shape=[a, b], dims=[0, 1])
        %3: f32[a, b] = sub(%x, %2)
        %4: f32[a, b] = exp(%3)
        %5: f32[a] = reduce(%4, kind=sum, dims=[1])
        %6: f32[a, 1] = reshape(%5, shape=[a, 1])
        %7: f32[a, b] = broadcast_in_dim(%6, shape=[a, b], dims=[0, 1])
        %8: f32[a, b] = div(%4, %7)""",
    ),
    Example(
        "softmax_of_long_rows",
        "(%x: f32[a, b]) -> (%8)",
        """%0: f32[a] = reduce(%x, kind=max, dims=[1])
        %2: f32[a, b] = broadcast_in_dim(%0, shape=[a, b], dims=[0])
        %3: f32[a, b] = sub(%x, %2)
        %4: f32[a, b] = exp(%3)
        %5: f32[a] = reduce(%4, kind=sum, dims=[1])
        %7: f32[a, b] = broadcast_in_dim(%5, shape=[a, b], dims=[0])
        %8: f32[a, b] = div(%4, %7)""",
        sizes=(("a", (1, 3)), ("b", (8192, 8193, 20_000))),
        runs=3,
    ),
    Example(
        "rows_of_a_few_elements",
        "(%x: f32[a, b], %m: bool[a, b], %g: f32[b], %w: f64[a]) -> (%12, %5, %14)",
        """%zero: f32[] = constant(value=0.0)
        %0: f32[a, b] = broadcast_in_dim(%zero, shape=[a, b], dims=[])
        %1: f32[a, b] = select(%m, %x, %0)
        %2: f32[a] = reduce(%1, kind=max, dims=[1])
        %3: f32[a, b] = broadcast_in_dim(%2, shape=[a, b], dims=[0])
        %4: f32[a, b] = sub(%1, %3)
        %6: f32[a, b] = exp(%4)
        %5: f32[a] = reduce(%6, kind=sum, dims=[1])
        %7: f32[a] = log(%5)
        %8: f32[a, b] = broadcast_in_dim(%7, shape=[a, b], dims=[0])
        %9: f32[a, b] = sub(%4, %8)
        %10: f32[a, b] = broadcast_in_dim(%g, shape=[a, b], dims=[1])
        %12: f32[a, b] = mul(%9, %10)
        %13: f64[a] = convert(%2, dtype=f64)
        %14: f64[a] = mul(%13, %w)""",
        sizes=(("a", (0, 1, 63, 64, 65, 130)), ("b", (0, 1, 2, 7, 12, 15, 16, 17))),
        runs=16,
    ),
    Example(
        "softmax_of_short_rows_in_several_dims",
        "(%x: f32[a, b, 5]) -> (%8)",
        """%0: f32[a, b] = reduce(%x, kind=max, dims=[2])
        %2: f32[a, b, 5] = broadcast_in_dim(%0, shape=[a, b, 5], dims=[0, 1])
        %3: f32[a, b, 5] = sub(%x, %2)
        %4: f32[a, b, 5] = exp(%3)
        %5: f32[a, b] = reduce(%4, kind=sum, dims=[2])
        %7: f32[a, b, 5] = broadcast_in_dim(%5, shape=[a, b, 5], dims=[0, 1])
        %8: f32[a, b, 5] = div(%4, %7)""",
    ),
    Example(
        "short_rows_that_take_long",
        "(%x: f32[a, b], %v: f32[b]) -> (%3)",
        """%0: f32[a, b] = broadcast_in_dim(%v, shape=[a, b], dims=[1])
        %1: f32[a, b] = add(%x, %0)
        %2: f32[a, b] = erfc(%1)
        %3: f32[a, b] = mul(%2, %x)""",
        sizes=(("a", (0, 1, 64, 70)), ("b", (1, 3, 12, 16, 17, 40))),
    ),
    Example(
        "short_rows_in_several_loops",
        "(%x: f32[a, b, c, d], %y: f32[a, d]) -> (%6, %7)",
        """%0: f32[a, c] = reduce(%x, kind=sum, dims=[1, 3])
        %1: f32[a, b, c, d] = broadcast_in_dim(%0, shape=[a, b, c, d], dims=[0, 2])
        %2: f32[a, b, c, d] = sub(%x, %1)
        %3: f32[a, b, c, d] = broadcast_in_dim(%y, shape=[a, b, c, d], dims=[0, 3])
        %4: f32[a, b, c, d] = mul(%2, %3)
        %5: f32[a, c] = reduce(%4, kind=max, dims=[1, 3])
        %6: f32[a, b, c, d] = neg(%4)
        %7: f32[a, c] = tanh(%5)""",
        sizes=(("a", (1, 5, 30)), ("b", (1, 2, 3)), ("c", (1, 2, 7)), ("d", (1, 3, 5, 9))),
    ),
    Example(
        "short_rows_of_integers",
        "(%x: i8[a, b], %y: u16[a, 3], %z: i64[a, b]) -> (%0, %1, %2)",
        """%0: i8[a] = reduce(%x, kind=sum, dims=[1])
        %1: u16[a] = reduce(%y, kind=max, dims=[1])
        %2: i64[a] = reduce(%z, kind=prod, dims=[1])""",
        sizes=(("a", (1, 64, 100)), ("b", (1, 2, 9, 16))),
    ),
    Example(
        "sums_of_short_runs",
        "(%x: f32[a, b, c, d]) -> (%0, %2)",
        """%0: f32[a, c] = reduce(%x, kind=sum, dims=[1, 3])
        %1: f32[a, b, c, d] = mul(%x, %x)
        %2: f32[a, c] = reduce(%1, kind=sum, dims=[1, 3])""",
        sizes=(("a", (1, 3)), ("b", (1, 70)), ("c", (1, 2)), ("d", (9, 16, 17, 40))),
    ),
    Example(
        "short_rows_with_what_is_the_same_in_all",
        "(%x: f32[a, b], %v: f32[b], %w: f64[a, b], %m: bool[b]) -> (%5, %6, %7)",
        """%0: f32[b] = exp(%v)
        %1: f32[a, b] = broadcast_in_dim(%0, shape=[a, b], dims=[1])
        %2: f32[a, b] = add(%x, %1)
        %3: bool[a, b] = broadcast_in_dim(%m, shape=[a, b], dims=[1])
        %5: f32[a, b] = select(%3, %2, %x)
        %4: f64[a, b] = convert(%1, dtype=f64)
        %6: f64[a, b] = mul(%w, %4)
        %i: i64[a, b] = iota(dtype=i64, shape=[a, b], dim=1)
        %j: i64[a, b] = convert(%x, dtype=i64)
        %7: i64[a, b] = add(%i, %j)""",
        sizes=(("a", (7, 8, 60, 300)), ("b", (0, 1, 2, 7, 23, 64, 127, 128, 129))),
        runs=14,
    ),
    Example(
        "short_rows_that_lie_apart",
        "(%x: f32[a, c, b], %v: f32[c, b], %m: bool[a, c, b], %n: i64[a, c, b]) -> (%3, %4, %5)",
        """%0: f32[c, a, b] = transpose(%x, perm=[1, 0, 2])
        %1: f32[c, a, b] = broadcast_in_dim(%v, shape=[c, a, b], dims=[0, 2])
        %2: f32[c, a, b] = add(%0, %1)
        %3: f32[c, a, b] = tanh(%2)
        %4: bool[c, a, b] = transpose(%m, perm=[1, 0, 2])
        %5: i64[c, a, b] = transpose(%n, perm=[1, 0, 2])""",
        sizes=(("a", (1, 8, 70, 200)), ("b", (1, 2, 3, 4, 5, 9, 17, 24, 25)), ("c", (1, 2, 5))),
        runs=16,
    ),
    Example(
        "halves_of_short_rows",
        "(%x: f32[a, 14], %y: f16[a, b]) -> (%3, %4)",
        """%0: f32[a, 7] = slice(%x, start=[0, 0], limit=[a, 7], stride=[1, 1])
        %1: f32[a, 7] = slice(%x, start=[0, 7], limit=[a, 14], stride=[1, 1])
        %2: f32[a, 7] = logistic(%0)
        %3: f32[a, 7] = mul(%2, %1)
        %c: f32[a, b] = convert(%y, dtype=f32)
        %i: f32[a, b] = iota(dtype=f32, shape=[a, b], dim=1)
        %4: f32[a, b] = add(%c, %i)""",
        sizes=(("a", (7, 8, 60, 300)), ("b", (0, 1, 6, 100))),
    ),
    Example(
        "normalised_groups_of_a_few_elements",
        "(%x: f32[a, b, 6, c], %g: f32[6, c], %y: f64[a, b]) -> (%6, %9)",
        """%0: f32[a, 6] = reduce(%x, kind=sum, dims=[1, 3])
        %1: f32[a, b, 6, c] = broadcast_in_dim(%0, shape=[a, b, 6, c], dims=[0, 2])
        %2: f32[a, b, 6, c] = sub(%x, %1)
        %3: f32[a, 6] = reduce(%2, kind=max, dims=[1, 3])
        %4: f32[a, b, 6, c] = broadcast_in_dim(%3, shape=[a, b, 6, c], dims=[0, 2])
        %5: f32[a, b, 6, c] = broadcast_in_dim(%g, shape=[a, b, 6, c], dims=[2, 3])
        %7: f32[a, b, 6, c] = mul(%2, %5)
        %6: f32[a, b, 6, c] = sub(%7, %4)
        %8: f64[a] = reduce(%y, kind=max, dims=[1])
        %10: f64[a, b] = broadcast_in_dim(%8, shape=[a, b], dims=[0])
        %9: f64[a, b] = sub(%10, %y)""",
        sizes=(("a", (0, 1, 9, 40)), ("b", (1, 3, 5, 16, 40)), ("c", (0, 1, 2, 3, 5, 16, 17))),
        runs=16,
    ),
    Example(
        "groups_side_by_side",
        "(%x: f32[a, b, 8, c], %g: f32[8, c], %w: f32[a, 8]) -> (%9, %5, %10)",
        """%0: f32[a, 8] = reduce(%x, kind=sum, dims=[1, 3])
        %1: f32[a, 8] = mul(%0, %w)
        %2: f32[a, b, 8, c] = broadcast_in_dim(%1, shape=[a, b, 8, c], dims=[0, 2])
        %3: f32[a, b, 8, c] = sub(%x, %2)
        %5: f32[a, 8] = reduce(%3, kind=max, dims=[1, 3])
        %6: f32[a, 8] = reduce(%3, kind=min, dims=[1, 3])
        %7: f32[a, 8] = sub(%5, %6)
        %8: f32[a, b, 8, c] = broadcast_in_dim(%7, shape=[a, b, 8, c], dims=[0, 2])
        %n: f32[a, b, 8, c] = sub(%3, %8)
        %h: f32[a, b, 8, c] = broadcast_in_dim(%g, shape=[a, b, 8, c], dims=[2, 3])
        %9: f32[a, b, 8, c] = mul(%n, %h)
        %10: f32[a, 8] = tanh(%7)""",
        sizes=(
            ("a", (0, 1, 2, 9)),
            ("b", (0, 1, 3, 16, 40, 2049)),
            ("c", (0, 1, 2, 3, 7, 10, 16, 17)),
        ),
        runs=20,
    ),
    Example(
        "many_groups_of_integers",
        "(%x: i32[a, b, 300, c], %y: i16[a, b, 5, c]) -> (%0, %1, %2)",
        """%0: i32[a, 300] = reduce(%x, kind=sum, dims=[1, 3])
        %1: i32[a, 300] = reduce(%x, kind=max, dims=[1, 3])
        %2: i16[a, 5] = reduce(%y, kind=max, dims=[1, 3])""",
        sizes=(("a", (1, 2)), ("b", (1, 3)), ("c", (1, 2, 3, 16))),
    ),
    Example(
        "softmax_over_two_dims",
        "(%x: f32[a, 16, b, 17]) -> (%8)",
        """%0: f32[a, b] = reduce(%x, kind=max, dims=[1, 3])
        %2: f32[a, 16, b, 17] = broadcast_in_dim(%0, shape=[a, 16, b, 17], dims=[0, 2])
        %3: f32[a, 16, b, 17] = sub(%x, %2)
        %4: f32[a, 16, b, 17] = exp(%3)
        %5: f32[a, b] = reduce(%4, kind=sum, dims=[1, 3])
        %7: f32[a, 16, b, 17] = broadcast_in_dim(%5, shape=[a, 16, b, 17], dims=[0, 2])
        %8: f32[a, 16, b, 17] = div(%4, %7)""",
        sizes=(("a", (1, 2)), ("b", (1, 3))),
        runs=3,
    ),
    Example(
        "layer_norm_of_a_residual",
        "(%x: f32[a, b, 24], %y: f32[a, b, 24], %g: f32[24], %h: f32[24]) -> (%18, %0)",
        """%0: f32[a, b, 24] = add(%x, %y)
        %1: f32[a, b] = reduce(%0, kind=sum, dims=[2])
        %2: f32[] = constant(value=0.041666668)
        %3: f32[a, b] = broadcast_in_dim(%2, shape=[a, b], dims=[])
        %4: f32[a, b] = mul(%1, %3)
        %5: f32[a, b, 24] = broadcast_in_dim(%4, shape=[a, b, 24], dims=[0, 1])
        %6: f32[a, b, 24] = sub(%0, %5)
        %7: f32[a, b, 24] = mul(%6, %6)
        %8: f32[a, b] = reduce(%7, kind=sum, dims=[2])
        %9: f32[a, b] = mul(%8, %3)
        %10: f32[] = constant(value=1e-05)
        %11: f32[a, b] = broadcast_in_dim(%10, shape=[a, b], dims=[])
        %12: f32[a, b] = add(%9, %11)
        %13: f32[a, b] = rsqrt(%12)
        %14: f32[a, b, 24] = broadcast_in_dim(%13, shape=[a, b, 24], dims=[0, 1])
        %15: f32[a, b, 24] = mul(%6, %14)
        %16: f32[a, b, 24] = broadcast_in_dim(%g, shape=[a, b, 24], dims=[2])
        %17: f32[a, b, 24] = mul(%15, %16)
        %h2: f32[a, b, 24] = broadcast_in_dim(%h, shape=[a, b, 24], dims=[2])
        %18: f32[a, b, 24] = add(%17, %h2)""",
    ),
    Example(
        "masked_means",
        "(%x: f32[a, b, c], %m: i32[a, b], %w: f32[a, b]) -> (%13)",
        """%0: f32[a, b] = convert(%m, dtype=f32)
        %1: f32[a, b, c] = broadcast_in_dim(%0, shape=[a, b, c], dims=[0, 1])
        %2: f32[a, b, c] = mul(%x, %1)
        %3: f32[a, c] = reduce(%2, kind=sum, dims=[1])
        %4: f32[a] = reduce(%0, kind=sum, dims=[1])
        %5: f32[] = constant(value=1.0)
        %6: f32[a] = broadcast_in_dim(%5, shape=[a], dims=[])
        %7: f32[a] = max(%4, %6)
        %8: f32[a, c] = broadcast_in_dim(%7, shape=[a, c], dims=[0])
        %9: f32[a, c] = div(%3, %8)
        %10: f32[a] = reduce(%w, kind=max, dims=[1])
        %11: f32[a] = exp(%10)
        %12: f32[a, c] = broadcast_in_dim(%11, shape=[a, c], dims=[0])
        %13: f32[a, c] = mul(%9, %12)""",
        sizes=(("a", (0, 1, 3, 7)), ("b", (1, 2, 20, 33)), ("c", (0, 1, 9, 256, 600))),
    ),
    Example(
        "masked_mean_of_one_long_row",
        "(%x: f32[1, b, 8, 40], %m: i32[1, b, 8]) -> (%6)",
        """%0: f32[1, b, 8] = convert(%m, dtype=f32)
        %1: f32[1, b, 8, 40] = broadcast_in_dim(%0, shape=[1, b, 8, 40], dims=[0, 1, 2])
        %2: f32[1, b, 8, 40] = mul(%x, %1)
        %3: f32[1, 40] = reduce(%2, kind=sum, dims=[1, 2])
        %4: f32[1] = reduce(%0, kind=sum, dims=[1, 2])
        %5: f32[1, 40] = broadcast_in_dim(%4, shape=[1, 40], dims=[0])
        %6: f32[1, 40] = sub(%3, %5)""",
        sizes=(("b", (0, 1, 50, 400)),),
    ),
    Example(
        "sums_of_one_mask_for_all_rows",
        "(%x: f32[b, c, d], %m: f32[b]) -> (%7)",
        """%0: f32[b, c, d] = broadcast_in_dim(%m, shape=[b, c, d], dims=[0])
        %1: f32[b, c, d] = mul(%x, %0)
        %2: f32[c, d] = reduce(%1, kind=sum, dims=[0])
        %3: f32[] = reduce(%m, kind=sum, dims=[0])
        %4: f32[] = constant(value=0.5)
        %5: f32[] = max(%3, %4)
        %6: f32[c, d] = broadcast_in_dim(%5, shape=[c, d], dims=[])
        %7: f32[c, d] = div(%2, %6)""",
    ),
    # -- scans ----------------------------------------------------------------------------
    Example(
        "scans",
        "(%x: f32[a, b, c], %n: i32[a, b]) -> (%1, %2, %3, %4, %6, %7)",
        """%0: f32[a, b, c] = sin(%x)
        %1: f32[a, b, c] = scan(%0, kind=sum, dim=1, exclusive=false, reverse=true)
        %2: f32[a, b, c] = scan(%0, kind=sum, dim=2, exclusive=true, reverse=false)
        %3: f32[a, b, c] = scan(%0, kind=prod, dim=0, exclusive=true, reverse=true)
        %4: f32[a, b, c] = scan(%0, kind=logsumexp, dim=2, exclusive=false, reverse=false)
        %5: f32[c, b, a] = transpose(%x, perm=[2, 1, 0])
        %6: f32[c, b, a] = scan(%5, kind=logsumexp, dim=0, exclusive=false, reverse=true)
        %7: i32[a, b] = scan(%n, kind=sum, dim=0, exclusive=false, reverse=false)""",
        sizes=(("a", (0, 1, 2, 5, 300)), ("b", (0, 1, 3, 8)), ("c", (0, 1, 4, 9))),
    ),
    Example(
        "ranks",
        "(%x: f32[a, b, 9], %n: i32[c, 5]) -> (%1, %3, %4)",
        """%0: f32[a, b, 9] = sin(%x)
        %1: i32[a, b, 3] = top_k(%0, k=3)
        %2: f32[9, b, a] = transpose(%x, perm=[2, 1, 0])
        %t: f32[b, a, 9] = transpose(%2, perm=[1, 2, 0])
        %3: i32[b, a, 9] = top_k(%t, k=9)
        %4: i32[c, 1] = top_k(%n, k=1)""",
    ),
    # -- sizes that depend on data --------------------------------------------------------
    Example(
        "filter",
        "(%x: f32[a, b], %y: f32[a]) -> (%6, %8, %9)",
        """symbol n = size(%3, a)
        %0: f32[a] = exp(%y)
        %1: bool[a] = compare(%y, %0, direction=LT)
        %2: i64[a] = convert(%1, dtype=i64)
        %3: i64[] = reduce(%2, kind=sum, dims=[0])
        %4: i64[n] = positions(%1, shape=[n])
        %5: f32[n, b] = gather(%x, %4, axis=0, batch_dims=0)
        %6: f32[n, b] = exp(%5)
        %7: f32[n] = reduce(%6, kind=sum, dims=[1])
        %8: f32[] = reduce(%7, kind=max, dims=[0])
        %9: i64[2] = shape_value(dtype=i64, shape=[2], elements=[n, 2*n])""",
    ),
    Example(
        "unique",
        "(%x: i32[a], %w: f32[a]) -> (%5, %8)",
        """symbol n = size(%3, a)
        require n <= 4 "few different numbers"
        %0: i32[a] = first_equal(%x)
        %1: i32[a] = iota(dtype=i32, shape=[a], dim=0)
        %2: bool[a] = compare(%0, %1, direction=EQ)
        %c: i64[a] = convert(%2, dtype=i64)
        %3: i64[] = reduce(%c, kind=sum, dims=[0])
        %4: i64[n] = positions(%2, shape=[n])
        %5: i32[n] = gather(%x, %4, axis=0, batch_dims=0)
        %6: i64[a] = scan(%c, kind=sum, dim=0, exclusive=true, reverse=false)
        %7: i64[a] = gather(%6, %0, axis=0, batch_dims=0)
        %z: f32[] = constant(value=0.0)
        %zs: f32[n] = broadcast_in_dim(%z, shape=[n], dims=[])
        %8: f32[n] = scatter(%zs, %7, %w, kind=sum)""",
    ),
    Example(
        "halved_until_small",
        "(%x: f32[a], %m: bool[a], %k: i32[]) -> (%5)",
        """symbol n = size(%1, a)
        %0: i64[a] = convert(%m, dtype=i64)
        %1: i64[] = reduce(%0, kind=sum, dims=[0])
        %2: i64[n] = positions(%m, shape=[n])
        %3: f32[n] = gather(%x, %2, axis=0, batch_dims=0)
        %4: i64[] = while(%k, %3, min_trips=0)
        program condition(%p0: i32[], %p1: f32[n]) -> (%1) {
          %0: i32[] = constant(value=0)
          %1: bool[] = compare(%p0, %0, direction=GT)
        }
        program body(%p0: i32[], %p1: f32[n]) -> (%1, %6) {
          %0: i32[] = constant(value=-1)
          %1: i32[] = add(%p0, %0)
          %2: f32[] = reduce(%p1, kind=max, dims=[0])
          %3: f32[n] = broadcast_in_dim(%2, shape=[n], dims=[])
          %4: f32[n] = sub(%p1, %3)
          %5: f32[n] = reverse(%4, dims=[0])
          %6: f32[n] = exp(%5)
        }
        %5: f32[n] = carried(%4, index=1)""",
    ),
    # -- scatters -------------------------------------------------------------------------
    Example(
        "scatters",
        "(%t: f32[a, b], %i: i32[c], %u: f32[c, b], %v: f32[c, 2, 1, d]) -> (%1, %3, %5, %7, %8)",
        """%0: f32[a, b] = exp(%t)
        %1: f32[a, b] = scatter(%0, %i, %u, kind=sum)
        %2: f32[c, b] = neg(%u)
        %3: f32[a, b] = scatter(%t, %i, %2, kind=max)
        %z: f32[] = constant(value=1.5)
        %4: f32[3, 2, 1, d] = broadcast_in_dim(%z, shape=[3, 2, 1, d], dims=[])
        %5: f32[3, 2, 1, d] = scatter(%4, %i, %v, kind=set)
        %6: i32[5] = constant(value=[5, 4, 3, 2, 1])
        %7: i32[5] = scatter(%6, %i, %i, kind=min)
        %8: i32[5] = scatter(%6, %i, %i, kind=prod)""",
    ),
    # -- matrix products ------------------------------------------------------------------
    Example(
        "matrix_products",
        "(%x: f32[a, b], %w: f32[b, 5] constant, %v: f32[5]) -> (%0, %1, %3)",
        """%0: f32[a, 5] = dot_general(%x, %w, %v, relu)
        %1: f32[b, b] = dot_general(%x, %x, plain_a)
        %2: f32[5, b] = transpose(%w, perm=[1, 0])
        %3: f32[a, 5] = dot_general(%x, %2, plain_b)""",
    ),
    Example(
        "batches_of_matrix_products",
        "(%x: f32[a, b, 4], %y: f32[a, 4, c], %w: f32[4, 3]) -> (%0, %1, %2)",
        """%0: f32[a, b, c] = dot_general(%x, %y, plain)
        %1: f32[a, b, 3] = dot_general(%x, %w, plain)
        %2: f32[a, c, 3] = dot_general(%y, %w, plain_a)""",
    ),
    Example(
        "products_that_end_in_a_scale_or_a_residual",
        "(%x: f32[a, b, 4], %w: f32[4, 6] constant, %v: f32[6], %r: f32[a, b, 6])"
        " -> (%2, %5, %7, %10)",
        """%0: f32[a, b, 6] = dot_general(%x, %w, %v, relu)
        %2: f32[a, b, 6] = add(%r, %0)
        %3: f32[a, b, b] = dot_general(%x, %x, plain_b)
        %c: f32[] = constant(value=0.25)
        %4: f32[a, b, b] = broadcast_in_dim(%c, shape=[a, b, b], dims=[])
        %5: f32[a, b, b] = mul(%3, %4)
        %6: f32[a, b, 4] = dot_general(%5, %x, plain)
        %7: f32[a, b, 4] = add(%6, %x)
        %8: f32[a*b, 4] = reshape(%x, shape=[a*b, 4])
        %9: f32[a*b, 6] = dot_general(%8, %w, plain)
        %11: f32[a, b, 6] = reshape(%9, shape=[a, b, 6])
        %10: f32[a, b, 6] = add(%11, %2)""",
        sizes=(("b", (0, 1, 2, 5, 9)),),
    ),
    Example(
        "a_residual_of_products_over_nothing",
        "(%x: f32[a, b], %y: f32[b, 3], %r: f32[a, 3]) -> (%1)",
        """%0: f32[a, 3] = dot_general(%x, %y, plain)
        %1: f32[a, 3] = add(%0, %r)""",
        sizes=(("b", (0, 1, 4)),),
    ),
    Example(
        "attention_without_copies",
        "(%x: f32[a, b, 24]) -> (%12)",
        """%q: f32[a, b, 8] = slice(%x, start=[0, 0, 0], limit=[a, b, 8], stride=[1, 1, 1])
        %k: f32[a, b, 8] = slice(%x, start=[0, 0, 8], limit=[a, b, 16], stride=[1, 1, 1])
        %v: f32[a, b, 8] = slice(%x, start=[0, 0, 16], limit=[a, b, 24], stride=[1, 1, 1])
        %0: f32[a, b, 2, 4] = reshape(%q, shape=[a, b, 2, 4])
        %1: f32[a, b, 2, 4] = reshape(%k, shape=[a, b, 2, 4])
        %2: f32[a, b, 2, 4] = reshape(%v, shape=[a, b, 2, 4])
        %3: f32[a, 2, b, 4] = transpose(%0, perm=[0, 2, 1, 3])
        %4: f32[a, 2, 4, b] = transpose(%1, perm=[0, 2, 3, 1])
        %5: f32[a, 2, b, 4] = transpose(%2, perm=[0, 2, 1, 3])
        %6: f32[a, 2, b, b] = dot_general(%3, %4, plain)
        %7: f32[a, 2, b, b] = tanh(%6)
        %8: f32[a, 2, b, 4] = dot_general(%7, %5, plain)
        %9: f32[a, b, 2, 4] = transpose(%8, perm=[0, 2, 1, 3])
        %10: f32[a, b, 8] = reshape(%9, shape=[a, b, 8])
        %12: f32[a, b, 8] = neg(%10)""",
        sizes=(("b", (0, 1, 2, 5, 9)),),
    ),
    Example(
        "matrix_product_of_constants",
        "(%x: f32[a, 2]) -> (%0, %2, %4)",
        """%w: f32[2, 2] = constant(value=[[1.0, 2.0], [3.0, 4.0]])
        %0: f32[a, 2] = dot_general(%x, %w, plain)
        %one: f32[] = constant(value=1.0)
        %1: f32[2, 3] = broadcast_in_dim(%one, shape=[2, 3], dims=[])
        %2: f32[a, 3] = dot_general(%x, %1, plain)
        %ones: f32[3, 2] = constant(value=[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
        %3: f32[2, 3] = transpose(%ones, perm=[1, 0])
        %4: f32[a, 3] = dot_general(%x, %3, plain)""",
    ),
    Example(
        "fourier_transforms_of_what_is_computed",
        "(%x: f32[a, b, 12], %y: f32[b, 4], %z: f32[b, 4]) -> (%4, %7)",
        """%0: f32[a, b, 12] = tanh(%x)
        %1: f32[2, a, b, 7] = rfft(%0)
        %2: f32[2, a, b, 7] = mul(%1, %1)
        %3: f32[a, b, 7] = reduce(%2, kind=sum, dims=[0])
        %4: f32[a, b, 7] = sqrt(%3)
        %5: f32[b, 7] = irfft(%y, %z, length=7)
        %6: f32[b, 7] = mul(%5, %5)
        %7: f32[b, 7] = sub(%5, %6)""",
    ),
    *(Example(*loop) for loop in LOOPS),
]
