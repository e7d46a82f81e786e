from __future__ import annotations

from tests.compiler.rewrite.programs import check, declines
from tf_blade.compiler.rewrite.convolutions import rules

IMAGES = """
    %x: f32[s0, s1, 6, 3]
    %f: f32[3, 2, 3, 4]
"""
SEQUENCES = """
    %x: f32[s0, s1, 3]
    %f: f32[1, 3, 3, 4]
"""


def conv(
    shape: str, x: str, low: str, sizes: str, strides: str = "1, 1", rates: str = "1, 1"
) -> str:
    """Of %f, without the name of its result."""
    attrs = f"strides=[{strides}], dilations=[{rates}], low=[{low}], sizes=[{sizes}], groups=1"
    return f"f32[{shape}] = conv({x}, %f, {attrs}, activation=none)"


# -- a border ---------------------------------------------------------------------------------


def padded(value: float, channels: int = 0) -> str:
    last = 3 + channels
    return f"""
    %z: f32[] = constant(value={value})
    %p: f32[s0, s1 + 2, 6, {last}] = pad(%x, %z, low=[0, 2, 0, 0], high=[0, 0, 0, {channels}])
    %0: {conv("s0, s1, 5, 4", "%p", "1, 0", "s1, 5")}
    """


def test_a_border_of_zeros_is_the_convolution_s():
    expected = f"{IMAGES} %0: {conv('s0, s1, 5, 4', '%x', '3, 0', 's1, 5')}"
    check(rules, IMAGES + padded(0.0), expected)


def test_another_border_stays():
    declines(rules, IMAGES + padded(1.0), "not of zeros")
    wider = (IMAGES + padded(0.0, 1)).replace("[3, 2, 3,", "[3, 2, 4,")
    declines(rules, wider, "around the batch or the channels")


def padded_sequence(length: str, lifted: str) -> str:
    return f"""{SEQUENCES}
        %z: f32[] = constant(value=0.0)
        %p: f32[s0, s1 + 2, 3] = pad(%x, %z, low=[0, 2, 0], high=[0, 0, 0])
        %1: f32[{lifted}] = reshape(%p, shape=[{lifted}])
        %0: {conv(f"s0, {length}, 4", "%1", "0, 0", length)}
    """


def test_the_border_of_a_sequence_is_the_convolution_s():
    expected = f"""{SEQUENCES}
        %1: f32[s0, 1, s1, 3] = reshape(%x, shape=[s0, 1, s1, 3])
        %0: {conv("s0, 1, s1, 4", "%1", "0, 2", "1, s1")}
    """
    check(rules, padded_sequence("1, s1", "s0, 1, s1 + 2, 3"), expected)


def test_the_border_stays_before_a_reshape_that_moves_it():
    before = padded_sequence("1, s0", "s1 + 2, 1, s0, 3")
    before = before.replace("[s0, 1, s0, 4]", "[s1 + 2, 1, s0, 4]")
    declines(rules, before, "more than add dims of size 1")


# -- blocks in the batch ----------------------------------------------------------------------

BLOCKS = """
    %x: f32[s0, 12, 9, 3]
    %f: f32[3, 2, 3, 4]
"""


def in_blocks(strides: str = "1, 1", back: str = "2, 3") -> str:
    """A convolution over 2 x 3 images, which hold every second row and every third column."""
    rows, columns = back.split(", ")
    return f"""{BLOCKS}
        %0: f32[s0, 6, 2, 3, 3, 3] = reshape(%x, shape=[s0, 6, 2, 3, 3, 3])
        %1: f32[2, 3, s0, 6, 3, 3] = transpose(%0, perm=[2, 4, 0, 1, 3, 5])
        %2: f32[6*s0, 6, 3, 3] = reshape(%1, shape=[6*s0, 6, 3, 3])
        %3: {conv("6*s0, 6, 1, 4", "%2", "1, 0", "6, 1", strides, "1, 2")}
        %4: f32[{back}, s0, 6, 1, 4] = reshape(%3, shape=[{back}, s0, 6, 1, 4])
        %5: f32[s0, 6, {rows}, 1, {columns}, 4] = transpose(%4, perm=[2, 3, 0, 4, 1, 5])
    """


def test_a_convolution_over_blocks_in_the_batch_is_a_dilated_one():
    expected = f"""{BLOCKS}
        %0: {conv("s0, 12, 3, 4", "%x", "2, 0", "12, 3", rates="2, 6")}
        %1: f32[s0, 6, 2, 1, 3, 4] = reshape(%0, shape=[s0, 6, 2, 1, 3, 4])
    """
    check(rules, in_blocks(), expected)


def test_a_sequence_in_blocks_too():
    before = f"""{SEQUENCES}
        %0: f32[s0, floor_div(s1, 4), 4, 3] = reshape(%x, shape=[s0, floor_div(s1, 4), 4, 3])
        %1: f32[4, s0, floor_div(s1, 4), 3] = transpose(%0, perm=[2, 0, 1, 3])
        %2: f32[4*s0, 1, floor_div(s1, 4), 3] = reshape(%1, shape=[4*s0, 1, floor_div(s1, 4), 3])
        %3: {conv("4*s0, 1, 5, 4", "%2", "0, 2", "1, 5")}
        %4: f32[4, s0, 5, 4] = reshape(%3, shape=[4, s0, 5, 4])
        %5: f32[s0, 5, 4, 4] = transpose(%4, perm=[1, 2, 0, 3])
    """
    expected = f"""{SEQUENCES}
        %0: f32[s0, 1, s1, 3] = reshape(%x, shape=[s0, 1, s1, 3])
        %1: {conv("s0, 1, 20, 4", "%0", "0, 8", "1, 20", rates="1, 4")}
        %2: f32[s0, 5, 4, 4] = reshape(%1, shape=[s0, 5, 4, 4])
    """
    check(rules, before, expected)


def test_blocks_that_windows_skip_pixels_of_stay_blocks():
    declines(rules, in_blocks(strides="2, 1"), "skip pixels of a block")


def test_blocks_that_come_back_in_another_form_stay_blocks():
    declines(rules, in_blocks(back="3, 2"), "come back in another form")


def test_blocks_that_are_read_elsewhere_stay_blocks():
    before = f"""{in_blocks()}
        %6: f32[s0, 6, 2, 1, 3, 4] = reshape(%3, shape=[s0, 6, 2, 1, 3, 4])
        %7: f32[s0, 6, 2, 1, 3, 4] = add(%5, %6)
    """
    declines(rules, before, "the blocks are read elsewhere")


# -- a part of the result ---------------------------------------------------------------------


def part(start: str, limit: str, stride: str, shape: str) -> str:
    """Of a convolution over images that begin 5 rows and 1 column inside the border."""
    return f"""{IMAGES}
        %0: {conv("s0, s1, 5, 4", "%x", "5, 1", "s1, 5")}
        %1: f32[{shape}] = slice(%0, start=[{start}], limit=[{limit}], stride=[{stride}])
    """


def test_only_what_is_read_of_a_convolution_is_computed():
    expected = f"{IMAGES} %0: {conv('s0, 5, 2, 4', '%x', '1, 0', '5, 2', strides='1, 2')}"
    check(rules, part("0, 4, 1, 0", "s0, 9, 5, 4", "1, 1, 2, 1", "s0, 5, 2, 4"), expected)


def test_only_what_is_read_of_a_sequence_is_computed():
    top = SEQUENCES.replace("s0, s1, 3", "s0, s1, 5, 3")
    before = f"""{top}
        %0: {conv("s0, 1, s1, 4", "%x", "0, 0", "1, s1")}
        %1: f32[s0, s1, 4] = reshape(%0, shape=[s0, s1, 4])
        %2: f32[s0, s1 - 2, 4] = slice(%1, start=[0, 0, 0], limit=[s0, s1 - 2, 4], stride=[1, 1, 1])
    """
    expected = f"""{top}
        %0: {conv("s0, 1, s1 - 2, 4", "%x", "0, 0", "1, s1 - 2")}
        %1: f32[s0, s1 - 2, 4] = reshape(%0, shape=[s0, s1 - 2, 4])
    """
    check(rules, before, expected)


def test_parts_that_windows_can_t_begin_at_are_cut_out():
    inside = part("0, 6, 0, 0", "s0, s1, 5, 4", "1, 1, 1, 1", "s0, s1 - 6, 5, 4")
    declines(rules, inside, "begin inside of x")
    channels = part("0, 0, 0, 0", "s0, s1, 5, 2", "1, 1, 1, 1", "s0, s1, 5, 2")
    declines(rules, channels, "a part of the batch or of the channels")
    twice = part("0, 0, 0, 0", "s0, s1, 4, 4", "1, 1, 1, 1", "s0, s1, 4, 4")
    declines(
        rules,
        twice + "%2: f32[s0, s1, 9, 4] = concatenate(%0, %1, dim=2)",
        "the whole is read elsewhere",
    )
