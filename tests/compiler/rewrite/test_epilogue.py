from __future__ import annotations

from tests.compiler.rewrite.programs import check, declines
from tf_blade.compiler.rewrite.epilogue import rules

HEAD = """
    %x: f32[s0, 8]
    %w: f32[8, 4]
    %b: f32[4]
"""
FLAGS = "transpose_a=false, transpose_b=false, activation=none"
PRODUCT = f"%0: f32[s0, 4] = dot_general(%x, %w, {FLAGS})"

BIAS = """
    %1: f32[s0, 4] = broadcast_in_dim(%b, shape=[s0, 4], dims=[1])
    %2: f32[s0, 4] = add(%0, %1)
"""
RELU = """
    %c: f32[] = constant(value=0.0)
    %3: f32[s0, 4] = broadcast_in_dim(%c, shape=[s0, 4], dims=[])
    %4: f32[s0, 4] = max({}, %3)
"""


def product(operands: str, activation: str, source: str = "") -> str:
    flags = f"transpose_a=false, transpose_b=false, activation={activation}"
    return f"%0: f32[s0, 4] = dot_general({operands}, {flags}){source}"


def test_bias_and_relu_are_folded_in():
    before = HEAD + PRODUCT + BIAS + RELU.format("%2")
    check(rules, before, HEAD + product("%x, %w, %b", "relu"))


def test_either_order_of_operands():
    before = (HEAD + PRODUCT + BIAS + RELU.format("%2")).replace("add(%0, %1)", "add(%1, %0)")
    before = before.replace("max(%2, %3)", "max(%3, %2)")
    check(rules, before, HEAD + product("%x, %w, %b", "relu"))


def test_a_relu_without_bias():
    check(rules, HEAD + PRODUCT + RELU.format("%0"), HEAD + product("%x, %w", "relu"))


def test_the_folded_product_names_all_its_nodes():
    before = HEAD + PRODUCT + "  // d/MatMul" + BIAS.rstrip() + "  // d/BiasAdd\n"
    check(rules, before, HEAD + product("%x, %w, %b", "none", "  // d/BiasAdd, d/MatMul"))


def test_a_product_that_is_read_elsewhere_keeps_bias_and_relu_outside():
    """It would be computed twice."""
    both = "%9: f32[s0, 4] = mul(%0, {})"
    declines(rules, HEAD + PRODUCT + BIAS + both.format("%2"), "without bias is used elsewhere")
    declines(rules, HEAD + PRODUCT + RELU.format("%0") + both.format("%4"), "used elsewhere")


def test_a_vector_along_the_rows_is_no_bias():
    before = f"""
        %x: f32[4, 8]
        %w: f32[8, 4]
        %b: f32[4]
        {PRODUCT.replace("s0", "4")}
        %1: f32[4, 4] = broadcast_in_dim(%b, shape=[4, 4], dims=[0])
        %2: f32[4, 4] = add(%0, %1)
    """
    declines(rules, before, "does not run along the last dim")


def test_a_bias_after_the_relu_stays():
    """relu(x) + b is not relu(x + b)."""
    declines(rules, HEAD + product("%x, %w", "relu") + BIAS, "after the activation")


def test_a_second_bias_and_a_second_relu_stay():
    declines(rules, HEAD + product("%x, %w, %b", "none") + BIAS, "the product has a bias")
    before = HEAD + product("%x, %w, %b", "relu") + RELU.format("%0")
    declines(rules, before, "has an activation")


def test_a_maximum_with_another_number_is_no_relu():
    before = HEAD + PRODUCT + RELU.format("%0").replace("value=0.0", "value=0.5")
    assert not check(rules, before).declined


def test_transposed_operands_become_flags():
    head = "%x: f32[s0, s1, 8]\n%y: f32[4, 8]\n"
    before = (
        head
        + """
        %0: f32[s0, 8, s1] = transpose(%x, perm=[0, 2, 1])
        %1: f32[8, 4] = transpose(%y, perm=[1, 0])
    """
    )
    product = (
        "%2: f32[s0, s1, 4] = dot_general({}, transpose_a={}, transpose_b={}, activation=none)"
    )
    check(
        rules,
        before + product.format("%0, %1", "true", "false"),
        head + product.format("%x, %y", "false", "true"),
    )


def test_a_transpose_of_the_batch_stays():
    before = f"""
        %x: f32[2, 3, 4]
        %y: f32[3, 4, 5]
        %0: f32[3, 2, 4] = transpose(%x, perm=[1, 0, 2])
        %1: f32[3, 2, 5] = dot_general(%0, %y, {FLAGS})
    """
    declines(rules, before, "more than the last two dims")


SEQUENCE = """
    %x: f32[s0, 8]
    %w: f32[8, 6]
    %b: f32[6]
"""
ROWS = "%0: f32[s0, 6] = dot_general({}, transpose_a=false, transpose_b=false, activation={})\n"
LIFTED = """
    %1: f32[s0, 1, 6] = reshape(%0, shape=[s0, 1, 6])
    %2: f32[s0, 1, 6] = broadcast_in_dim(%b, shape=[s0, 1, 6], dims=[2])
    %3: f32[s0, 1, 6] = add(%1, %2)
"""
ZEROS = """
    %c: f32[] = constant(value=0.0)
    %4: f32[s0, 1, 6] = broadcast_in_dim(%c, shape=[s0, 1, 6], dims=[])
    %5: f32[s0, 1, 6] = max(%3, %4)
"""


def test_bias_and_relu_move_through_a_reshape_of_the_rows():
    after = "%1: f32[s0, 1, 6] = reshape(%0, shape=[s0, 1, 6])"
    check(
        rules,
        SEQUENCE + ROWS.format("%x, %w", "none") + LIFTED + ZEROS,
        SEQUENCE + ROWS.format("%x, %w, %b", "relu") + after,
    )


def test_a_bias_behind_a_reshape_of_the_columns_stays():
    before = """
        %x: f32[s0, 8]
        %w: f32[8, 6]
        %b: f32[3]
    """ + ROWS.format("%x, %w", "none")
    before += """
        %1: f32[s0, 2, 3] = reshape(%0, shape=[s0, 2, 3])
        %2: f32[s0, 2, 3] = broadcast_in_dim(%b, shape=[s0, 2, 3], dims=[2])
        %3: f32[s0, 2, 3] = add(%1, %2)
    """
    declines(rules, before, "the reshape changes the last dim")


def test_a_reshaped_product_that_is_read_elsewhere_keeps_its_bias_outside():
    before = SEQUENCE + ROWS.format("%x, %w", "none") + LIFTED
    before += "%9: f32[s0, 1, 6] = mul(%1, %3)"
    declines(rules, before, "without bias is used elsewhere")


IMAGES = """
    %x: f32[s0, s1, 6, 3]
    %f: f32[3, 2, 3, 4]
    %b: f32[4]
"""
SPREAD = """
    %1: f32[s0, s1, 5, 4] = broadcast_in_dim(%b, shape=[s0, s1, 5, 4], dims=[3])
    %2: f32[s0, s1, 5, 4] = add(%0, %1)
    %c: f32[] = constant(value=0.0)
    %3: f32[s0, s1, 5, 4] = broadcast_in_dim(%c, shape=[s0, s1, 5, 4], dims=[])
    %4: f32[s0, s1, 5, 4] = max(%2, %3)
"""


def convolution(operands: str, activation: str = "none") -> str:
    attrs = "strides=[1, 1], dilations=[1, 1], low=[1, 0], sizes=[s1, 5], groups=1"
    return f"%0: f32[s0, s1, 5, 4] = conv({operands}, {attrs}, activation={activation})"


def test_a_convolution_takes_bias_and_relu():
    before = IMAGES + convolution("%x, %f") + SPREAD
    check(rules, before, IMAGES + convolution("%x, %f, %b", activation="relu"))
