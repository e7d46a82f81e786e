"""Programs for each kind of kernel, with the sizes that they are run at."""

from __future__ import annotations

from tests.compiler.emit.example import Example
from tests.compiler.emit.loop_programs import LOOPS
from tests.compiler.emit.op_programs import OPS
from tests.compiler.emit.row_programs import ROWS

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
    *ROWS,
    *OPS,
    *(Example(*loop) for loop in LOOPS),
]
