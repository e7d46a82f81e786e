"""A stream of requests of ever new shapes to a BERT encoder: we compile once, XLA every time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cases, harness
from benchmarks.compare import compare

Shape = tuple[int, int]
_LONGEST = 128
_LARGEST_BATCH = 8


def shapes(count: int) -> list[Shape]:
    """Different (batch, length), always the same ones; most requests are small."""
    random = np.random.default_rng(0)
    found: dict[Shape, None] = {}
    while len(found) < count:
        batch = int(_LARGEST_BATCH ** random.random() + 0.5)
        length = int(4 * (_LONGEST / 4) ** random.random())
        found[batch, length] = None
    return list(found)


def feeds_of(case: cases.ModelCase, shape: Shape) -> dict[str, np.ndarray]:
    """The model's feeds, repeated and cut to a shape."""
    feeds = case.feeds(case.sizes[-1])
    found: dict[str, np.ndarray] = {}
    for name, value in feeds.items():
        times = [-(-want // have) for want, have in zip(shape, value.shape, strict=True)]
        found[name] = np.tile(value, times)[: shape[0], : shape[1]]
    return found


def run(
    directory: Path, folder: Path, *, count: int, xla_count: int, fixed_count: int, seconds: float
) -> list[dict[str, Any]]:
    """One row about the stream, and one for each shape compared with code for it alone.

    Args:
      directory: the model, as in `cases.py`; its inputs are all [batch, length].
      folder: for what is written on the way.
      count: how many shapes. xla_count: how many of them, evenly spread, XLA runs; what it would
        take for all is scaled up from these. fixed_count: how many are compiled as constants.
      seconds: to time each of these.
    """
    case = cases.read_case(directory)
    stream = shapes(count)
    cache = folder / "cache"
    start = time.perf_counter()
    report = _optimize(case.saved_model, folder / "ours", cache, case.signature)
    row: dict[str, Any] = {
        "stream": case.name,
        "shapes": count,
        "optimize_seconds": time.perf_counter() - start,
        "cxx_seconds": report.compile_seconds,
    }
    _save_wrapped(case, folder / "xla", jit=True)
    row |= _run_stream(case, folder, cache, stream, _spread(stream, xla_count))
    return [row, *(_against_fixed(case, folder, s, seconds) for s in _spread(stream, fixed_count))]


def _spread(stream: Sequence[Shape], count: int) -> list[Shape]:
    return [stream[i * len(stream) // count] for i in range(count)]


def _optimize(source: Path, target: Path, cache: Path, signature: str) -> Any:
    import tf_blade

    # The stream's answers are compared here; XLA doesn't compare any while it compiles, either.
    config = tf_blade.Config(
        cache_dir=str(cache), keep_slower=True, timing_seconds=0.0, check=False
    )
    signatures = [signature]
    model = tf_blade.optimize(str(source), str(target), config=config, signatures=signatures)
    return model.report


def _save_wrapped(
    case: cases.ModelCase, target: Path, *, jit: bool | None = None, shape: Shape | None = None
) -> None:
    """The model's signature inside another function, under XLA or with a fixed shape."""
    import tensorflow as tf

    module = tf.Module()
    module.loaded = tf.saved_model.load(str(case.saved_model))
    signature = module.loaded.signatures[case.signature]
    specs = {
        name: tf.TensorSpec(shape or spec.shape, spec.dtype, name)
        for name, spec in signature.structured_input_signature[1].items()
    }
    inner = tf.function(lambda **inputs: signature(**inputs), jit_compile=jit)
    outer = tf.function(lambda **inputs: inner(**inputs))
    signatures = {case.signature: outer.get_concrete_function(**specs)}
    tf.saved_model.save(module, str(target), signatures=signatures)


def _run_stream(
    case: cases.ModelCase,
    folder: Path,
    cache: Path,
    stream: Sequence[Shape],
    for_xla: Sequence[Shape],
) -> dict[str, Any]:
    from benchmarks.session import Session
    from tf_blade import library

    library.load_ops()
    library.reset_counters()
    executables = _executables(cache)
    messages: list[str] = []
    ours = xla = 0.0
    with (
        Session(case.saved_model) as original,
        Session(folder / "ours") as optimized,
        Session(folder / "xla") as rival,
    ):
        for shape in stream:
            feeds = feeds_of(case, shape)
            call = optimized.bind(case.signature, feeds)
            start = time.perf_counter()
            answer = call.outputs()
            ours += time.perf_counter() - start
            if shape not in for_xla:
                continue
            difference = compare(original.bind(case.signature, feeds).outputs(), answer)
            messages += [difference.message] if not difference.ok else []
            call = rival.bind(case.signature, feeds)
            start = time.perf_counter()
            call.outputs()
            xla += time.perf_counter() - start
    counters = library.counters()
    return {
        "stream_seconds": ours,
        "xla_shapes": len(for_xla),
        "xla_seconds_a_shape": xla / len(for_xla),
        "compiles_after_first": _executables(cache) - executables,
        "wrong": bool(messages),
        "message": "; ".join(messages),
        "launches": counters.launches,
        "fallbacks": counters.fallbacks,
    }


def _executables(cache: Path) -> int:
    """How many executables the compiler has made into the cache, which began empty."""
    return sum(1 for _ in cache.rglob("*.blade"))


def _against_fixed(
    case: cases.ModelCase, folder: Path, shape: Shape, seconds: float
) -> dict[str, Any]:
    from benchmarks.session import Session

    name = f"{shape[0]}x{shape[1]}"
    _save_wrapped(case, folder / f"fixed_{name}", shape=shape)
    fixed = folder / f"fixed_{name}_ours"
    _optimize(folder / f"fixed_{name}", fixed, folder / "cache", case.signature)
    feeds = feeds_of(case, shape)
    with Session(folder / "ours") as ours, Session(fixed) as alone:
        calls = {
            "ours": ours.bind(case.signature, feeds),
            "specialised": alone.bind(case.signature, feeds),
        }
        difference = compare(calls["specialised"].outputs(), calls["ours"].outputs())
        rivals = {name: call.run for name, call in calls.items()}
        samples = harness.interleave(rivals, seconds=seconds)
    ratio = samples.ratio("ours", "specialised")
    return {
        "specialised": name,
        "wrong": not difference.ok,
        "message": difference.message,
        "ours_ms": samples.timing("ours").median_ms,
        "specialised_ms": samples.timing("specialised").median_ms,
        "times_specialised": ratio.value,
    }


def summarize(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of this part."""
    (row,) = [row for row in rows if "stream" in row]
    ours = row["optimize_seconds"] + row["stream_seconds"]
    fixed = [r["times_specialised"] for r in rows if "specialised" in r]
    return {
        "shapes_total_vs_xla": row["xla_seconds_a_shape"] * row["shapes"] / ours,
        "worst_shape_vs_specialised": max(fixed, default=float("nan")),
        "compiles_after_first": row["compiles_after_first"],
        "minilm_compile_seconds": row["optimize_seconds"],
        "stream_wrong": sum(bool(r["wrong"]) for r in rows),
        "stream_falling_back": float(bool(row["fallbacks"])),
    }
