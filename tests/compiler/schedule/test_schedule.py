"""Loops and buffers."""

from __future__ import annotations

from itertools import pairwise

from tests.compiler.emit.example import Example
from tests.compiler.emit.programs import EXAMPLES
from tf_blade.compiler.fuse import plan
from tf_blade.compiler.ir.dims import to_text
from tf_blade.compiler.schedule import Schedule, schedule
from tf_blade.compiler.schedule.kernel import Kernel


def scheduled(signature: str, body: str) -> Schedule:
    return schedule(plan(Example("test", signature, body).program()))


def loops(kernel: object) -> str:
    assert isinstance(kernel, Kernel)
    rows = [to_text(v.extent) for v in kernel.rows]
    inner = [[to_text(v.extent) for v in p.loops] for p in kernel.passes]
    return f"{rows} {inner}".replace("'", "")


def test_dims_that_all_accesses_walk_through_in_step_are_one_loop():
    result = scheduled("(%x: f32[a, b, 4]) -> (%0)", "%0: f32[a, b, 4] = exp(%x)")
    (kernel,) = result.steps
    assert isinstance(kernel, Kernel) and kernel.flat
    assert loops(kernel) == "[] [[4*a*b]]"


def test_a_broadcast_keeps_its_dims_apart():
    result = scheduled(
        "(%x: f32[a, b, 4, 5], %y: f32[4, 5]) -> (%1)",
        """%0: f32[a, b, 4, 5] = broadcast_in_dim(%y, shape=[a, b, 4, 5], dims=[2, 3])
        %1: f32[a, b, 4, 5] = add(%x, %0)""",
    )
    assert loops(result.steps[0]) == "[a*b] [[20]]"


def test_a_transpose_of_outer_dims_keeps_the_inner_ones_together():
    result = scheduled(
        "(%x: f32[a, b, 4, 5]) -> (%0)",
        "%0: f32[b, a, 4, 5] = transpose(%x, perm=[1, 0, 2, 3])",
    )
    assert loops(result.steps[0]) == "[b, a] [[20]]"


def test_a_transpose_of_the_last_dim_runs_in_tiles():
    result = scheduled("(%x: f32[a, b]) -> (%0)", "%0: f32[b, a] = transpose(%x, perm=[1, 0])")
    kernel = result.steps[0]
    assert loops(kernel) == "[floor_div(b + 255, 256), floor_div(a + 255, 256)] [[b, a]]"
    assert isinstance(kernel, Kernel) and len(kernel.blocks) == 2
    assert [str(s.value) for s in kernel.transposed] == ["%x"]


def test_a_transpose_of_gathered_rows_needs_no_tiles():
    """Rows may lie anywhere, so a tile has no corner."""
    result = scheduled(
        "(%x: f32[a, b], %i: i32[c]) -> (%1)",
        """%0: f32[c, b] = gather(%x, %i, axis=0, batch_dims=0)
        %1: f32[b, c] = transpose(%0, perm=[1, 0])""",
    )
    kernel = result.steps[0]
    assert isinstance(kernel, Kernel) and not kernel.transposed


def test_a_row_reduction_merges_rows_and_columns_on_their_own():
    result = scheduled(
        "(%x: f32[a, b, 4, 5]) -> (%0)", "%0: f32[a, b] = reduce(%x, kind=sum, dims=[2, 3])"
    )
    assert loops(result.steps[0]) == "[a*b] [[20]]"


def test_a_value_kept_for_a_later_pass_is_scratch():
    program = next(e for e in EXAMPLES if e.name == "softmax").program()
    result = schedule(plan(program))
    (kernel,) = result.steps
    assert isinstance(kernel, Kernel)
    assert [str(v) for v in kernel.scratch] == ["%4"]
    assert len(kernel.passes) == 3
    assert not result.memory.slots


def test_a_library_call_says_how_the_product_ends():
    flags = "transpose_a=false, transpose_b=false"
    result = scheduled(
        "(%x: f32[a, 3], %w: f32[3, 4], %v: f32[4], %r: f32[a, 4]) -> (%1, %4)",
        f"""%0: f32[a, 4] = dot_general(%x, %w, %v, {flags}, activation=relu)
        %1: f32[a, 4] = add(%0, %r)
        %2: f32[a, 4] = dot_general(%x, %w, {flags}, activation=none)
        %c: f32[] = constant(value=8.0)
        %3: f32[a, 4] = broadcast_in_dim(%c, shape=[a, 4], dims=[])
        %4: f32[a, 4] = div(%2, %3)""",
    )
    ends = [line.partition(" with ")[2] for line in str(result).splitlines() if " call " in line]
    assert ends == ["bias %v, relu, residual %r", "scale 0.125"]


def chain(length: int, shapes: tuple[str, ...]) -> Schedule:
    """Matrix products one after another, each reading the last."""
    lines = []
    for i in range(length):
        x = f"%{i - 1}" if i else "%x"
        n, m = shapes[i % len(shapes)], shapes[(i + 1) % len(shapes)]
        attrs = "transpose_a=false, transpose_b=false, activation=none"
        lines.append(f"%w{i}: f32[{n}, {m}] = iota(dtype=f32, shape=[{n}, {m}], dim=0)")
        lines.append(f"%{i}: f32[a, {m}] = dot_general({x}, %w{i}, {attrs})")
    return scheduled(f"(%x: f32[a, {shapes[0]}]) -> (%{length - 1})", "\n".join(lines))


def test_temporaries_of_a_chain_take_turns():
    memory = chain(8, ("8",)).memory
    # One for a product's input, one for its result, one for its weights.
    assert len(memory.slots) == 3


def test_a_slot_is_as_large_as_the_largest_of_its_values():
    memory = chain(6, ("4", "16")).memory
    sizes = [{to_text(n) for n in slot.sizes} for slot in memory.slots]
    assert {"16*a", "64*a"} <= set().union(*sizes)
    assert sum(len(slot.values) for slot in memory.slots) == 11


def test_values_alive_at_once_never_share_memory():
    for example in EXAMPLES:
        program = example.program()
        kernels = plan(program)
        memory = schedule(kernels).memory
        made = {r: i for i, g in enumerate(kernels.groups) for r in g.roots}
        last = {v: i for i, g in enumerate(kernels.groups) for v in kernels.reads(g)}
        for slot in memory.slots:
            values = [v for v in slot.values if v in made]
            for first, second in pairwise(values):
                assert last[first] < made[second], f"{first} and {second} of {example.name}"


def test_results_are_written_in_place():
    result = scheduled(
        "(%x: f32[a, b]) -> (%1, %2)",
        """%0: f32[a, b] = exp(%x)
        %1: f32[a*b] = reshape(%0, shape=[a*b])
        %2: f32[b] = reduce(%0, kind=sum, dims=[0])""",
    )
    assert {str(v): n for v, n in result.memory.outputs.items()} == {"%0": 0, "%2": 1}
    assert not result.memory.slots


def test_each_tile_of_columns_sums_up_the_weights_of_its_row():
    program = next(e for e in EXAMPLES if e.name == "masked_mean_of_one_long_row").program()
    lines = str(schedule(plan(program))).splitlines()
    last = max(i for i, line in enumerate(lines) if "tiles of" in line)
    assert [line.strip() for line in lines[last:-1]] == [
        "column_reduce_0: rows (one), tiles of i0 < 40",
        "for j1 < 8*b:",
        "%4 sum= convert(%m[j1])",
        "for chunk < floor_div(8*b + 408, 409), i0 < 40:",
        "%3 sum= %3_parts[40*chunk + i0]",
        "%6[i0] = sub(%3, %4)",
    ]
