"""Which ops end up in which kernel."""

from __future__ import annotations

import re

from tests.compiler.emit.example import Example
from tf_blade.compiler.fuse import plan


def kernels(signature: str, body: str) -> str:
    """One line a kernel: its name, loops and results."""
    program = Example("test", signature, body).program()
    lines = [line for line in str(plan(program)).splitlines() if re.match(r"  \w", line)]
    return "\n".join(line.strip().removesuffix(" {") for line in lines)


def expect(signature: str, body: str, expected: str) -> None:
    wanted = "\n".join(line.strip() for line in expected.strip().splitlines())
    assert kernels(signature, body) == wanted


def test_elementwise_chains_are_one_kernel():
    expect(
        "(%x: f32[a, b], %y: f32[b]) -> (%3)",
        """%0: f32[a, b] = exp(%x)
        %1: f32[a, b] = broadcast_in_dim(%y, shape=[a, b], dims=[1])
        %2: f32[a, b] = add(%0, %1)
        %3: f32[a, b] = tanh(%2)""",
        "loop_0 [a, b] -> %3",
    )


def test_the_text_lists_the_ops_of_each_kernel():
    program = Example(
        "text",
        "(%x: f32[a]) -> (%1)",
        """%0: f32[a] = exp(%x)
        %1: f32[a] = neg(%0)""",
    ).program()
    assert str(plan(program)) == (
        "plan text {\n"
        "  loop_0 [a] -> %1 {\n"
        "    %0: f32[a] = exp(%x)\n"
        "    %1: f32[a] = neg(%0)\n"
        "  }\n"
        "}"
    )


def test_outputs_over_the_same_space_share_a_kernel():
    expect(
        "(%x: f32[a, b]) -> (%1, %2)",
        """%0: f32[a, b] = exp(%x)
        %1: f32[a, b] = neg(%0)
        %2: f32[a, b] = abs(%0)""",
        "loop_0 [a, b] -> %1, %2",
    )


def test_a_cheap_producer_is_computed_by_each_of_its_readers():
    expect(
        "(%x: f32[a, b]) -> (%1, %2)",
        """%0: f32[a, b] = neg(%x)
        %1: f32[b, a] = transpose(%0, perm=[1, 0])
        %2: f32[b] = reduce(%0, kind=sum, dims=[0])""",
        """loop_0 [b, a] -> %1
        column_reduce_0 rows [b] columns [a] -> %2""",
    )


def test_a_dear_producer_of_two_kernels_is_stored():
    expect(
        "(%x: f32[a, b]) -> (%1, %2)",
        """%0: f32[a, b] = tanh(%x)
        %1: f32[b, a] = transpose(%0, perm=[1, 0])
        %2: f32[b] = reduce(%0, kind=sum, dims=[0])""",
        """loop_0 [a, b] -> %0
        loop_1 [b, a] -> %1
        column_reduce_0 rows [b] columns [a] -> %2""",
    )


def test_a_dear_producer_read_at_two_places_of_one_kernel_is_stored():
    expect(
        "(%x: f32[9]) -> (%3)",
        """%0: f32[9] = exp(%x)
        %1: f32[8] = slice(%0, start=[1], limit=[9], stride=[1])
        %2: f32[8] = slice(%0, start=[0], limit=[8], stride=[1])
        %3: f32[8] = sub(%1, %2)""",
        """loop_0 [9] -> %0
        loop_1 [8] -> %3""",
    )


def test_a_dear_vector_that_every_row_needs_is_stored():
    expect(
        "(%x: f32[a, b], %y: f32[b]) -> (%2)",
        """%0: f32[b] = exp(%y)
        %1: f32[a, b] = broadcast_in_dim(%0, shape=[a, b], dims=[1])
        %2: f32[a, b] = mul(%x, %1)""",
        """loop_0 [b] -> %0
        loop_1 [a, b] -> %2""",
    )


def test_a_dear_number_for_each_row_moves_out_of_the_inner_loop_instead():
    expect(
        "(%x: f32[a, b], %y: f32[a]) -> (%2)",
        """%0: f32[a] = exp(%y)
        %1: f32[a, b] = broadcast_in_dim(%0, shape=[a, b], dims=[0])
        %2: f32[a, b] = mul(%x, %1)""",
        "loop_0 [a, b] -> %2",
    )


SOFTMAX = """%0: f32[a, b] = reduce(%x, kind=max, dims=[2])
    %1: f32[a, b, c] = broadcast_in_dim(%0, shape=[a, b, c], dims=[0, 1])
    %2: f32[a, b, c] = sub(%x, %1)
    %3: f32[a, b, c] = exp(%2)
    %4: f32[a, b] = reduce(%3, kind=sum, dims=[2])
    %5: f32[a, b, c] = broadcast_in_dim(%4, shape=[a, b, c], dims=[0, 1])
    %6: f32[a, b, c] = div(%3, %5)"""


def test_softmax_is_one_kernel():
    expect(
        "(%x: f32[a, b, c]) -> (%6)",
        SOFTMAX,
        "row_reduce_0 rows [a, b] columns [c] -> %6",
    )


def test_layer_norm_of_a_residual_is_one_kernel():
    expect(
        "(%x: f32[a, 24], %y: f32[a, 24], %g: f32[24]) -> (%12)",
        """%0: f32[a, 24] = add(%x, %y)
        %1: f32[a] = reduce(%0, kind=sum, dims=[1])
        %2: f32[a, 24] = broadcast_in_dim(%1, shape=[a, 24], dims=[0])
        %3: f32[a, 24] = sub(%0, %2)
        %4: f32[a, 24] = mul(%3, %3)
        %5: f32[a] = reduce(%4, kind=sum, dims=[1])
        %6: f32[a] = rsqrt(%5)
        %7: f32[a, 24] = broadcast_in_dim(%6, shape=[a, 24], dims=[0])
        %8: f32[a, 24] = mul(%3, %7)
        %9: f32[a, 24] = broadcast_in_dim(%g, shape=[a, 24], dims=[1])
        %12: f32[a, 24] = mul(%8, %9)""",
        "row_reduce_0 rows [a] columns [24] -> %12",
    )


def test_means_are_computed_where_the_sum_is():
    for dims, kind in (("[1]", "row_reduce"), ("[0]", "column_reduce")):
        kept = "a" if dims == "[1]" else "b"
        columns = "b" if kept == "a" else "a"
        expect(
            "(%x: f32[a, b]) -> (%3)",
            f"""%0: f32[{kept}] = reduce(%x, kind=sum, dims={dims})
            %1: f32[] = constant(value=0.125)
            %2: f32[{kept}] = broadcast_in_dim(%1, shape=[{kept}], dims=[])
            %3: f32[{kept}] = mul(%0, %2)""",
            f"{kind}_0 rows [{kept}] columns [{columns}] -> %3",
        )


def test_reductions_of_the_same_values_share_a_pass():
    expect(
        "(%x: f32[a, b]) -> (%0, %2)",
        """%0: f32[b] = reduce(%x, kind=sum, dims=[0])
        %1: f32[b] = reduce(%x, kind=max, dims=[0])
        %2: f32[b] = exp(%1)""",
        "column_reduce_0 rows [b] columns [a] -> %0, %2",
    )


def test_a_reduction_of_everything_does_not_wait_in_line_with_its_reader():
    # One row: both passes are shared among threads only as kernels of their own.
    expect(
        "(%x: f32[a]) -> (%4)",
        """%0: f32[] = reduce(%x, kind=sum, dims=[0])
        %1: f32[a] = broadcast_in_dim(%0, shape=[a], dims=[])
        %2: f32[a] = sub(%x, %1)
        %3: f32[a] = mul(%2, %2)
        %4: f32[] = reduce(%3, kind=sum, dims=[0])""",
        """row_reduce_0 rows [] columns [a] -> %0
        row_reduce_1 rows [] columns [a] -> %4""",
    )


def test_a_reader_of_another_row_is_not_merged():
    # %3 reads the sums of all rows.
    expect(
        "(%x: f32[a, a]) -> (%3)",
        """%0: f32[a] = reduce(%x, kind=sum, dims=[1])
        %1: f32[a] = tanh(%0)
        %2: f32[a, a] = broadcast_in_dim(%1, shape=[a, a], dims=[1])
        %3: f32[a, a] = add(%x, %2)""",
        """row_reduce_0 rows [a] columns [a] -> %1
        loop_0 [a, a] -> %3""",
    )


def test_kernels_are_not_merged_around_another():
    # %0 and %3 have the same loops, but %3 waits for the matrix product that reads %0.
    expect(
        "(%x: f32[a, a]) -> (%3)",
        """%0: f32[a, a] = exp(%x)
        %1: f32[a, a] = dot_general(%0, %x, transpose_a=false, transpose_b=false, activation=none)
        %2: f32[a, a] = add(%1, %0)
        %3: f32[a, a] = tanh(%2)""",
        """loop_0 [a, a] -> %0
        dot_general_0 -> %1
        loop_1 [a, a] -> %3""",
    )


def test_a_matrix_product_writes_the_transpose_that_alone_reads_it():
    product = "dot_general(%x, %y, transpose_a=false, transpose_b=false, activation=none)"
    expect(
        "(%x: f32[a, b, 4], %y: f32[a, 4, c]) -> (%1)",
        f"""%0: f32[a, b, c] = {product}
        %1: f32[b, a, c] = transpose(%0, perm=[1, 0, 2])""",
        "dot_general_0 -> %1",
    )
    # Columns must stay contiguous.
    expect(
        "(%x: f32[a, b, 4], %y: f32[a, 4, c]) -> (%1)",
        f"""%0: f32[a, b, c] = {product}
        %1: f32[a, c, b] = transpose(%0, perm=[0, 2, 1])""",
        """dot_general_0 -> %0
        loop_0 [a, c, b] -> %1""",
    )
    # Somebody else reads the product.
    expect(
        "(%x: f32[a, b, 4], %y: f32[a, 4, c]) -> (%1, %0)",
        f"""%0: f32[a, b, c] = {product}
        %1: f32[b, a, c] = transpose(%0, perm=[1, 0, 2])""",
        """dot_general_0 -> %0
        loop_0 [b, a, c] -> %1""",
    )


DOT = "dot_general(%x, %w, transpose_a=false, transpose_b=false, activation=none)"


def test_a_matrix_product_writes_the_multiple_that_alone_reads_it():
    scale = """%c: f32[] = constant(value=8.0)
        %1: f32[a, 4] = broadcast_in_dim(%c, shape=[a, 4], dims=[])"""
    for kind in ("mul(%0, %1)", "mul(%1, %0)", "div(%0, %1)"):
        expect(
            "(%x: f32[a, 3], %w: f32[3, 4]) -> (%2)",
            f"""%0: f32[a, 4] = {DOT}
            {scale}
            %2: f32[a, 4] = {kind}""",
            "dot_general_0 -> %2",
        )
    # 8 / x is no multiple, and a bias would be multiplied as well.
    expect(
        "(%x: f32[a, 3], %w: f32[3, 4], %v: f32[4]) -> (%2, %4)",
        f"""%0: f32[a, 4] = {DOT}
        {scale}
        %2: f32[a, 4] = div(%1, %0)
        %3: f32[a, 4] = {DOT.replace("%w", "%w, %v")}
        %4: f32[a, 4] = mul(%3, %1)""",
        """dot_general_0 -> %0
        loop_0 [a, 4] -> %2
        dot_general_1 -> %3
        loop_1 [a, 4] -> %4""",
    )


def test_a_matrix_product_writes_a_sum_that_must_be_in_memory():
    expect(
        "(%x: f32[a, 3], %w: f32[3, 4], %r: f32[a, 2, 2]) -> (%2)",
        f"""%0: f32[a, 4] = {DOT}
        %1: f32[a, 2, 2] = reshape(%0, shape=[a, 2, 2])
        %2: f32[a, 2, 2] = add(%r, %1)""",
        "dot_general_0 -> %2",
    )
    # Two products: one is in memory for the other.
    expect(
        "(%x: f32[a, 3], %w: f32[3, 4]) -> (%2)",
        f"""%0: f32[a, 4] = {DOT}
        %1: f32[a, 4] = {DOT.replace("none", "relu")}
        %2: f32[a, 4] = add(%0, %1)""",
        """dot_general_0 -> %1
        dot_general_1 -> %2""",
    )


def test_a_sum_that_costs_nothing_where_it_is_read_is_no_residual():
    expect(
        "(%x: f32[a, 3], %w: f32[3, 4], %r: f32[a, 4]) -> (%2)",
        f"""%0: f32[a, 4] = {DOT}
        %1: f32[a, 4] = add(%0, %r)
        %2: f32[a] = reduce(%1, kind=sum, dims=[1])""",
        """dot_general_0 -> %0
        row_reduce_0 rows [a] columns [4] -> %2""",
    )


def test_what_is_not_in_memory_is_no_residual():
    expect(
        "(%x: f32[a, 3], %w: f32[3, 4], %r: f32[a, 4]) -> (%2)",
        f"""%0: f32[a, 4] = {DOT}
        %1: f32[a, 4] = exp(%r)
        %2: f32[a, 4] = add(%0, %1)""",
        """dot_general_0 -> %0
        loop_0 [a, 4] -> %2""",
    )


def test_producers_are_computed_inside_a_concatenation():
    expect(
        "(%x: f32[a, 3], %y: f32[a, 4]) -> (%2)",
        """%0: f32[a, 3] = exp(%x)
        %1: f32[a, 4] = tanh(%y)
        %2: f32[a, 7] = concatenate(%0, %1, dim=1)""",
        "concatenate_0 -> %2",
    )


def test_a_check_looks_at_elements_that_nobody_reads():
    expect(
        "(%x: f32[8], %ok: bool[8]) -> (%2)",
        """%0: f32[8] = checked(%x, %ok)
        %1: f32[2] = slice(%0, start=[0], limit=[2], stride=[1])
        %2: f32[2] = exp(%1)""",
        """loop_0 [8] -> %0
        loop_1 [2] -> %2""",
    )


def test_dead_ops_make_no_kernel():
    expect(
        "(%x: f32[a]) -> (%1)",
        """%0: f32[] = reduce(%x, kind=sum, dims=[0])
        %1: f32[a] = neg(%x)""",
        "loop_0 [a] -> %1",
    )


def test_a_long_expression_is_cut():
    lines = ["%0: f32[a] = exp(%x)"]
    lines += [f"%{i}: f32[a] = sin(%{i - 1})" for i in range(1, 240)]
    assert kernels("(%x: f32[a]) -> (%239)", "\n".join(lines)).count("loop_0") == 1


# A weighted sum over steps, and the sum of the weights.
WEIGHTED = """%0: f32[a, b, c] = broadcast_in_dim(%w, shape=[a, b, c], dims=[0, 1])
        %1: f32[a, b, c] = mul(%x, %0)
        %2: f32[a, c] = reduce(%1, kind=sum, dims=[1])
        %3: f32[a] = reduce(%w, kind=sum, dims=[1])
        %4: f32[a, c] = broadcast_in_dim(%3, shape=[a, c], dims=[0])
        %5: f32[a, c] = div(%2, %4)"""


def test_what_is_summed_up_for_all_columns_shares_their_kernel():
    expect(
        "(%x: f32[a, b, c], %w: f32[a, b]) -> (%5)",
        WEIGHTED,
        "column_reduce_0 rows [a, c] columns [b] -> %5",
    )


def test_what_is_summed_up_for_all_columns_is_a_kernel_where_it_is_needed_outside():
    expect(
        "(%x: f32[a, b, c], %w: f32[a, b]) -> (%5, %3)",
        WEIGHTED,
        """row_reduce_0 rows [a] columns [b] -> %3
        column_reduce_0 rows [a, c] columns [b] -> %5""",
    )


def test_dear_weights_are_summed_up_once():
    expect(
        "(%x: f32[a, b, c], %w: f32[a, b], %y: f32[a, b]) -> (%5)",
        WEIGHTED.replace("reduce(%w", "reduce(%6").replace(
            "%3: f32[a]", "%6: f32[a, b] = pow(%w, %y)\n%3: f32[a]"
        ),
        """row_reduce_0 rows [a] columns [b] -> %3
        column_reduce_0 rows [a, c] columns [b] -> %5""",
    )


def test_sums_of_weighted_sums_take_a_pass_of_their_own():
    # %3 is needed before %2 can be summed up.
    expect(
        "(%x: f32[a, b, c], %w: f32[a, b]) -> (%2)",
        """%3: f32[a] = reduce(%w, kind=sum, dims=[1])
        %0: f32[a, b, c] = broadcast_in_dim(%3, shape=[a, b, c], dims=[0])
        %1: f32[a, b, c] = mul(%x, %0)
        %2: f32[a, c] = reduce(%1, kind=sum, dims=[1])""",
        """row_reduce_0 rows [a] columns [b] -> %3
        column_reduce_0 rows [a, c] columns [b] -> %2""",
    )
