"""Cases of pooling, channel normalisation and resizing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.compiler.cases.raw import raw
from tests.compiler.values import Arg, Case, Values, anything, between, finite

BATCHES = (0, 1, 2, 3)
NAN, INF = float("nan"), float("inf")
# Sizes, steps, padding.
WINDOWS: dict[str, tuple[Sequence[int], Sequence[int], str]] = {
    "valid": ((2, 2), (2, 2), "VALID"),
    "same": ((3, 3), (1, 1), "SAME"),
    "fits": ((1, 2), (1, 2), "SAME"),
    "overlap": ((3, 2), (1, 1), "SAME"),
    "gaps": ((1, 2), (3, 4), "VALID"),
    "row": ((1, 5), (1, 2), "VALID"),
}
VOLUMES: dict[str, tuple[Sequence[int], Sequence[int], str]] = {
    "valid": ((2, 2, 2), (1, 2, 2), "VALID"),
    "same": ((1, 3, 3), (1, 1, 1), "SAME"),
    "gaps": ((2, 1, 2), (2, 3, 4), "VALID"),
    "fits": ((1, 1, 2), (1, 1, 2), "SAME"),
}
PADDED = ("same", "overlap")


def cases() -> Iterator[Case]:
    yield from _pools()
    yield from _pools_of_any_size()
    yield from _volumes()
    yield from _whole()
    yield from _channels()
    yield from _contrast()
    yield from _resizes()


def _pools() -> Iterator[Case]:
    special = between(-3, 3, NAN, INF, -INF)
    for name, (sizes, steps, padding) in WINDOWS.items():
        attrs = {"ksize": [1, *sizes, 1], "strides": [1, *steps, 1], "padding": padding}
        forms: list[tuple[str, str, Values]] = [
            ("f32", "finite", finite),
            ("f64", "finite", finite),
        ]
        for dtype, kind, values in forms if name not in PADDED else []:
            image = (Arg(dtype, ("n", 7, 6, 3), values),)
            yield Case(
                f"AvgPool.{name}.{dtype}.{kind}",
                raw("AvgPool", **attrs),
                image,
                relative=1e-5,
                absolute=1e-6,
                sizes=BATCHES,
            )
        forms += [("f32", "special", special), ("i32", "any", anything), ("u8", "any", anything)]
        for dtype, kind, values in forms:
            image = (Arg(dtype, ("n", 7, 6, 3), values),)
            yield Case(
                f"MaxPool.{name}.{dtype}.{kind}", raw("MaxPool", **attrs), image, sizes=BATCHES
            )
        yield Case(
            f"MaxPoolV2.{name}",
            lambda x, attrs=attrs: raw("MaxPoolV2", padding=attrs["padding"])(
                x, attrs["ksize"], attrs["strides"]
            ),
            (Arg("f32", ("n", 7, 6, 3), finite),),
            sizes=BATCHES,
        )
    yield Case(
        "MaxPool.explicit",
        raw(
            "MaxPool",
            ksize=[1, 3, 2, 1],
            strides=[1, 1, 1, 1],
            padding="EXPLICIT",
            explicit_paddings=[0, 0, 2, 1, 1, 0, 0, 0],
        ),
        (Arg("f32", ("n", 5, 4, "c"), finite),),
        sizes=(1, 2, 9),
    )


def _pools_of_any_size() -> Iterator[Case]:
    """Windows side by side, in images whose size isn't known."""
    special = between(-3, 3, NAN, INF, -INF)
    for name, sizes in {"pairs": (2, 2), "threes": (3, 3), "rows": (1, 3)}.items():
        for padding, lengths in (("SAME", (1, 2, 3, 5, 6, 8)), ("VALID", (3, 4, 5, 7))):
            for dtype, values in (("f32", special), ("i32", anything)):
                yield Case(
                    f"MaxPool.any_size.{name}.{padding}.{dtype}",
                    raw("MaxPool", ksize=[1, *sizes, 1], strides=[1, *sizes, 1], padding=padding),
                    (Arg(dtype, ("n", "h", "w", 3), values),),
                    sizes=lengths,
                )
    yield Case(
        "MaxPool3D.any_size",
        raw("MaxPool3D", ksize=[1, 2, 1, 2, 1], strides=[1, 2, 1, 2, 1], padding="SAME"),
        (Arg("f32", ("n", "d", "h", "w", 2), finite),),
        sizes=(1, 2, 3, 5),
    )


def _volumes() -> Iterator[Case]:
    for op in ("AvgPool3D", "MaxPool3D"):
        for name, (sizes, steps, padding) in VOLUMES.items():
            if op == "AvgPool3D" and name in PADDED:
                continue
            attrs = {"ksize": [1, *sizes, 1], "strides": [1, *steps, 1], "padding": padding}
            yield Case(
                f"{op}.{name}",
                raw(op, **attrs),
                (Arg("f32", ("n", 3, 7, 6, 2), finite),),
                relative=1e-5,
                absolute=1e-6,
                sizes=BATCHES,
            )


def _whole() -> Iterator[Case]:
    """The mean of whole images."""
    for op, sizes in {"AvgPool": [7, 6], "AvgPool3D": [3, 4, 5]}.items():
        attrs = {"ksize": [1, *sizes, 1], "strides": [1] * (len(sizes) + 2), "padding": "VALID"}
        yield Case(
            f"{op}.whole",
            raw(op, **attrs),
            (Arg("f32", ("n", *sizes, "c"), finite),),
            relative=1e-5,
            absolute=1e-6,
            sizes=(1, 2, 3, 9),
        )


def _channels() -> Iterator[Case]:
    for beta in (0.5, 1.0, 0.75):
        for radius in (0, 2, 5):
            yield Case(
                f"LRN.{beta}.{radius}",
                raw("LRN", depth_radius=radius, bias=2.0, alpha=0.3, beta=beta),
                (Arg("f32", ("n", 2, "w", "c"), finite),),
                relative=1e-5,
                absolute=1e-6,
                sizes=(1, 2, 3, 7, 16),
            )


def _contrast() -> Iterator[Case]:
    for name, dims in {"batch": ("n", "h", "w", 3), "one": ("h", 4, 2)}.items():
        yield Case(
            f"AdjustContrastv2.{name}",
            raw("AdjustContrastv2"),
            (Arg("f32", dims, finite), Arg("f32", (), finite)),
            relative=1e-5,
            absolute=1e-5,
            sizes=(1, 2, 5, 17),
        )


def _resizes() -> Iterator[Case]:
    modes = {
        "plain": {},
        "corners": {"align_corners": True},
        "centres": {"half_pixel_centers": True},
    }
    sizes = {"up": [13, 9], "down": [2, 3], "same": [5, 6], "one": [1, 1], "twice": [10, 12]}
    for mode, attrs in modes.items():
        for name, size in sizes.items():
            for dtype in ("f32", "u8", "i64") if name == "up" else ("f32",):
                image = (Arg(dtype, ("n", 5, 6, "c"), finite),)
                for op in ("ResizeNearestNeighbor", "ResizeBilinear"):
                    yield Case(
                        f"{op}.{mode}.{name}.{dtype}",
                        lambda x, op=op, attrs=attrs, size=size: raw(op, **attrs)(x, size),
                        image,
                        absolute=0 if op == "ResizeNearestNeighbor" else 1e-5,
                        sizes=(0, 1, 2, 3, 8),
                    )
