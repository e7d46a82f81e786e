"""Programs with reductions: of rows, of columns, of short runs, and what is fused with them."""

from __future__ import annotations

from tests.compiler.emit.example import Example

ROWS = [
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
]
