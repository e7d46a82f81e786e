"""Cases of recurrent layers' steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, between, finite

SIZE, INPUTS = 5, 3
CLOSE: dict[str, Any] = {"relative": 1e-5, "absolute": 1e-5, "sizes": (0, 1, 2, 7)}


def cases() -> Iterator[Case]:
    x, state = Arg("f32", ("n", INPUTS), finite), Arg("f32", ("n", SIZE), between(-4, 4))
    bias = Arg("f32", (4 * SIZE,), finite)
    weights = Arg("f32", (INPUTS + SIZE, 4 * SIZE), between(-1, 1))
    diagonal = Arg("f32", (SIZE,), finite)
    for name, peephole, clip in (
        ("plain", False, 0.0),
        ("peephole", True, 0.0),
        ("clipped", False, 1.5),
        ("both", True, 3.0),
    ):
        yield Case(
            f"LSTMBlockCell.{name}",
            raw("LSTMBlockCell", forget_bias=0.5, cell_clip=clip, use_peephole=peephole),
            (x, state, state, weights, diagonal, diagonal, diagonal, bias),
            **CLOSE,
        )
    gru = (
        x,
        state,
        Arg("f32", (INPUTS + SIZE, 2 * SIZE), between(-1, 1)),
        Arg("f32", (INPUTS + SIZE, SIZE), between(-1, 1)),
        Arg("f32", (2 * SIZE,), finite),
        Arg("f32", (SIZE,), finite),
    )
    yield Case("GRUBlockCell", raw("GRUBlockCell"), gru, **CLOSE)
    fed = Arg("f32", ("n", "k"), finite)
    yield Case(
        "GRUBlockCell.fed_width", raw("GRUBlockCell"), (fed, *gru[1:]), **{**CLOSE, "sizes": (3, 4)}
    )
