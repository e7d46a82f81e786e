"""Compares two sets of answers of a model; deliberately independent of the product's own check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

RTOL = 1e-4
ATOL = 1e-6


@dataclass(frozen=True)
class Difference:
    """The worst difference over all outputs.

    Attributes:
      ok: every output is within tolerance (floats) or equal (all else).
      max_abs_error: largest absolute difference of float elements.
      max_error: largest difference in units of max(|expected|, rms of the output).
      message: what is wrong, naming the output; "" if nothing is.
    """

    ok: bool
    max_abs_error: float
    max_error: float
    message: str


def compare(expected: Mapping[str, np.ndarray], actual: Mapping[str, np.ndarray]) -> Difference:
    """Whether `actual` has every output of `expected` with the same values.

    Floats may differ by ATOL + RTOL * max(|expected|, rms of the output): an element that is near
    zero because large terms cancelled has the rounding errors of those terms.
    """
    messages: list[str] = []
    worst_abs = worst = 0.0
    for name, want in expected.items():
        if name not in actual:
            messages.append(f"output '{name}' is missing")
            continue
        got = actual[name]
        if want.shape != got.shape or want.dtype != got.dtype:
            messages.append(
                f"output '{name}' is {got.dtype}{list(got.shape)}, "
                f"not {want.dtype}{list(want.shape)}"
            )
        elif not np.issubdtype(want.dtype, np.inexact):
            count = int(np.sum(want != got))
            if count:
                messages.append(f"output '{name}': {count} of {want.size} elements differ")
        elif want.size:
            error, scale, bad = _float_errors(want, got)
            worst_abs = max(worst_abs, float(error.max()))
            worst = max(worst, float((error / scale).max()))
            if bad.any():
                messages.append(
                    f"output '{name}': {int(bad.sum())} of {want.size} elements differ, "
                    f"by {error.max():.3g} at most"
                )
    return Difference(not messages, worst_abs, worst, "; ".join(messages))


def _float_errors(want: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Absolute errors (equal infinities and NaNs count as 0), scales, and which are too large."""
    wide = np.complex128 if np.iscomplexobj(want) else np.float64
    want, got = want.astype(wide), got.astype(wide)
    same = (want == got) | (np.isnan(want) & np.isnan(got))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(want - got))
    error = np.where(np.isnan(error), np.inf, error)
    finite = np.where(np.isfinite(want), np.abs(want), 0.0)
    rms = float(np.sqrt(np.mean(finite**2)))
    scale = np.maximum(np.maximum(finite, rms), np.finfo(np.float32).tiny)
    return error, scale, error > ATOL + RTOL * scale
