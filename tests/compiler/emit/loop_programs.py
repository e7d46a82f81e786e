"""Programs with loops. Integers of inputs are drawn from 0 to 3: so many iterations."""

from __future__ import annotations

_COUNTED = """program condition({params}) -> (%0) {{
        %0: bool[] = compare(%p0, %{limit}, direction=LT)
        }}"""


def _counted(params: str, limit: str) -> str:
    return _COUNTED.format(params=params, limit=limit)


# name, signature, body, sizes
LOOPS: tuple[tuple[str, str, str, tuple[tuple[str, tuple[int, ...]], ...]], ...] = (
    (
        "loop_of_a_product",
        "(%n: i32[], %x: f32[a, 8], %w: f32[8, 8] constant) -> (%3, %2)",
        """%0: i32[] = constant(value=0)
        %1: i64[] = while(%0, %x, %n, %w, min_trips=0)
        """
        + _counted("%p0: i32[], %p1: f32[a, 8], %p2: i32[], %p3: f32[8, 8]", "p2")
        + """
        program body(%p0: i32[], %p1: f32[a, 8], %p2: i32[], %p3: f32[8, 8]) -> (%1, %4) {
        %0: i32[] = constant(value=1)
        %1: i32[] = add(%p0, %0)
        %2: f32[a, 8] = dot_general(%p1, %p3, plain)
        %3: f32[a, 8] = tanh(%2)
        %4: f32[a, 8] = add(%3, %p1)
        }
        %2: i32[] = carried(%1, index=0)
        %3: f32[a, 8] = carried(%1, index=1)""",
        (),
    ),
    (
        "rows_read_and_written",
        "(%n: i32[], %x: f32[t, a, 3], %h: f32[a, 3]) -> (%5, %4)",
        """%0: i32[] = constant(value=0)
        %z: f32[] = constant(value=0.0)
        %1: f32[t, a, 3] = broadcast_in_dim(%z, shape=[t, a, 3], dims=[])
        %2: i64[] = while(%0, %h, %1, %n, %x, min_trips=0)
        """
        + _counted(
            "%p0: i32[], %p1: f32[a, 3], %p2: f32[t, a, 3], %p3: i32[], %p4: f32[t, a, 3]", "p3"
        )
        + """
        program body(%p0: i32[], %p1: f32[a, 3], %p2: f32[t, a, 3], %p3: i32[],
         %p4: f32[t, a, 3]) -> (%1, %3, %4) {
        %0: i32[] = constant(value=1)
        %1: i32[] = add(%p0, %0)
        %2: f32[a, 3] = gather(%p4, %p0, axis=0, batch_dims=0)
        %3: f32[a, 3] = sub(%2, %p1)
        %4: f32[t, a, 3] = dynamic_update(%p2, %p0, %3)
        }
        %4: f32[a, 3] = carried(%2, index=1)
        %5: f32[t, a, 3] = carried(%2, index=2)""".replace(",\n         ", ", "),
        (("t", (3, 4, 9)),),
    ),
    (
        "what_is_carried_moves_and_repeats",
        "(%n: i32[], %x: f32[a, b], %y: f32[a, b]) -> (%2, %3, %4, %5, %6, %7)",
        """%0: i32[] = constant(value=0)
        %1: i64[] = while(%n, %x, %y, %x, %y, %0, %x, %0, min_trips=0)
        program condition(%p0: i32[], %p1: f32[a, b], %p2: f32[a, b], %p3: f32[a, b],
         %p4: f32[a, b], %p5: i32[], %p6: f32[a, b], %p7: i32[]) -> (%0) {
        %0: bool[] = compare(%p0, %p7, direction=GT)
        }
        program body(%p0: i32[], %p1: f32[a, b], %p2: f32[a, b], %p3: f32[a, b],
         %p4: f32[a, b], %p5: i32[], %p6: f32[a, b], %p7: i32[]) ->
         (%1, %p2, %p1, %2, %2, %0, %p6) {
        %0: i32[] = constant(value=1)
        %1: i32[] = sub(%p0, %0)
        %2: f32[a, b] = sub(%p3, %p1)
        }
        %2: f32[a, b] = carried(%1, index=1)
        %3: f32[a, b] = carried(%1, index=2)
        %4: f32[a, b] = carried(%1, index=3)
        %5: f32[a, b] = carried(%1, index=4)
        %6: i32[] = carried(%1, index=5)
        %7: f32[a, b] = carried(%1, index=6)""".replace("\n         %p", " %p").replace(
            "\n         (", " ("
        ),
        (),
    ),
    (
        "an_array_that_is_also_kept_and_one_updated_twice",
        "(%n: i32[], %x: f32[t, b], %y: f32[b]) -> (%2, %3, %4)",
        """%0: i32[] = constant(value=0)
        %1: i64[] = while(%0, %x, %x, %x, %n, %y, min_trips=0)
        """
        + _counted(
            "%p0: i32[], %p1: f32[t, b], %p2: f32[t, b], %p3: f32[t, b], %p4: i32[], %p5: f32[b]",
            "p4",
        )
        + """
        program body(%p0: i32[], %p1: f32[t, b], %p2: f32[t, b], %p3: f32[t, b], %p4: i32[],
         %p5: f32[b]) -> (%1, %2, %p1, %4) {
        %0: i32[] = constant(value=1)
        %1: i32[] = add(%p0, %0)
        %2: f32[t, b] = dynamic_update(%p1, %p0, %p5)
        %c: i32[] = constant(value=0)
        %r: f32[b] = reduce(%p3, kind=sum, dims=[0])
        %3: f32[t, b] = dynamic_update(%p3, %p0, %r)
        %4: f32[t, b] = dynamic_update(%3, %c, %p5)
        }
        %2: f32[t, b] = carried(%1, index=1)
        %3: f32[t, b] = carried(%1, index=2)
        %4: f32[t, b] = carried(%1, index=3)""".replace(",\n         ", ", "),
        (("t", (3, 5)),),
    ),
    (
        "an_array_that_is_reduced_before_its_update",
        "(%n: i32[], %x: f32[t, b]) -> (%2)",
        """%0: i32[] = constant(value=0)
        %1: i64[] = while(%0, %x, %n, min_trips=0)
        """
        + _counted("%p0: i32[], %p1: f32[t, b], %p2: i32[]", "p2")
        + """
        program body(%p0: i32[], %p1: f32[t, b], %p2: i32[]) -> (%1, %3) {
        %0: i32[] = constant(value=1)
        %1: i32[] = add(%p0, %0)
        %r: f32[b] = reduce(%p1, kind=sum, dims=[0])
        %2: f32[b] = tanh(%r)
        %3: f32[t, b] = dynamic_update(%p1, %p0, %2)
        }
        %2: f32[t, b] = carried(%1, index=1)""",
        (("t", (3, 6)),),
    ),
    (
        "a_flag_and_softmax",
        "(%go: bool[], %x: f32[a, b]) -> (%2, %3)",
        """%1: i64[] = while(%go, %x, min_trips=0)
        program condition(%p0: bool[], %p1: f32[a, b]) -> (%p0) {
        }
        program body(%p0: bool[], %p1: f32[a, b]) -> (%0, %6) {
        %0: bool[] = constant(value=false)
        %1: f32[a] = reduce(%p1, kind=max, dims=[1])
        %2: f32[a, b] = broadcast_in_dim(%1, shape=[a, b], dims=[0])
        %3: f32[a, b] = sub(%p1, %2)
        %4: f32[a, b] = exp(%3)
        %5: f32[a] = reduce(%4, kind=sum, dims=[1])
        %7: f32[a, b] = broadcast_in_dim(%5, shape=[a, b], dims=[0])
        %6: f32[a, b] = div(%4, %7)
        }
        %2: bool[] = carried(%1, index=0)
        %3: f32[a, b] = carried(%1, index=1)""",
        (("b", (1, 5, 3000)),),
    ),
    (
        "loops_in_loops",
        "(%n: i32[], %m: i32[], %x: f32[a, b]) -> (%3)",
        """%0: i32[] = constant(value=0)
        %1: i64[] = while(%0, %x, %n, %m, min_trips=0)
        """
        + _counted("%p0: i32[], %p1: f32[a, b], %p2: i32[], %p3: i32[]", "p2")
        + """
        program body(%p0: i32[], %p1: f32[a, b], %p2: i32[], %p3: i32[]) -> (%1, %4) {
        %0: i32[] = constant(value=1)
        %1: i32[] = add(%p0, %0)
        %2: i64[] = while(%p0, %p1, %p3, min_trips=0)
        """
        + _counted("%p0: i32[], %p1: f32[a, b], %p2: i32[]", "p2")
        + """
        program body(%p0: i32[], %p1: f32[a, b], %p2: i32[]) -> (%1, %3) {
        %0: i32[] = constant(value=1)
        %1: i32[] = add(%p0, %0)
        %2: f32[a, b] = tanh(%p1)
        %3: f32[a, b] = add(%2, %p1)
        }
        %4: f32[a, b] = carried(%2, index=1)
        }
        %3: f32[a, b] = carried(%1, index=1)""",
        (),
    ),
    (
        "shapes_as_operands",
        "(%x: f32[a, b]) -> (%3, %4)",
        """%0: i32[] = constant(value=0)
        %1: i32[] = shape_value(dtype=i32, shape=[], elements=[b])
        %2: i64[] = while(%0, %x, %1, min_trips=0)
        """
        + _counted("%p0: i32[], %p1: f32[a, b], %p2: i32[]", "p2")
        + """
        program body(%p0: i32[], %p1: f32[a, b], %p2: i32[]) -> (%1, %5) {
        %0: i32[] = constant(value=1)
        %1: i32[] = add(%p0, %0)
        %2: i32[] = shape_value(dtype=i32, shape=[], elements=[a])
        %3: f32[] = convert(%2, dtype=f32)
        %4: f32[a, b] = broadcast_in_dim(%3, shape=[a, b], dims=[])
        %5: f32[a, b] = sub(%4, %p1)
        }
        %3: f32[a, b] = carried(%2, index=1)
        %4: i32[] = carried(%2, index=0)""",
        (),
    ),
)
