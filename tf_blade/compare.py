"""Compares two answers of a model, tensor by tensor."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tf_blade.report import OutputCheck
from tf_blade.runner import Answers

# Rounding a 16-bit result can flip its last bits; the check allows that many units.
_UNITS_OF_LAST_PLACE = 4


def compare_answers(
    feeds: str, original: Answers, optimized: Answers, rtol: float, atol: float
) -> list[OutputCheck]:
    """One check for each output of the original; extra or missing outputs are failures."""
    checks = []
    for name, value in original.items():
        if name in optimized:
            checks.append(compare(name, feeds, value, optimized[name], rtol, atol))
        else:
            checks.append(_failure(name, feeds, value, "the optimised model has no such output"))
    for name in sorted(set(optimized) - set(original)):
        message = "the original model has no such output"
        checks.append(_failure(name, feeds, optimized[name], message))
    return checks


def compare(
    output: str,
    feeds: str,
    original: np.ndarray,
    optimized: np.ndarray,
    rtol: float,
    atol: float,
) -> OutputCheck:
    """Holds one tensor against the original's.

    Floats pass where |optimised - original| <= atol + rtol * scale, scale = max(|original|, root
    mean square of the tensor's finite elements); NaN equals NaN, infinities must agree. Everything
    else must be equal.
    """
    original, optimized = np.asarray(original), np.asarray(optimized)
    if original.dtype != optimized.dtype or original.shape != optimized.shape:
        message = (
            f"the original gives {original.dtype}{list(original.shape)}, "
            f"the optimised model {optimized.dtype}{list(optimized.shape)}"
        )
        return _failure(output, feeds, original, message)
    check = _empty(output, feeds, original)
    if original.size == 0:
        return check
    if not _is_inexact(original.dtype):
        return _compare_exact(check, original, optimized)
    return _compare_inexact(check, original, optimized, rtol, atol)


def _compare_exact(check: OutputCheck, original: np.ndarray, optimized: np.ndarray) -> OutputCheck:
    differs = np.asarray(original != optimized)
    if not differs.any():
        return check
    index = np.unravel_index(int(np.argmax(differs)), original.shape)
    check.ok = False
    check.first_index = [int(i) for i in index]
    if original.dtype.kind in "iu":
        # As Python integers: differences of int64 overflow int64.
        pairs = zip(original[differs].tolist(), optimized[differs].tolist(), strict=True)
        errors = [(abs(a - b), abs(a)) for a, b in pairs]
        check.max_abs_error = float(max(error for error, _ in errors))
        check.max_rel_error = max(error / max(size, 1) for error, size in errors)
    else:
        check.max_abs_error = check.max_rel_error = 1.0
    _name_worst(check, index, original, optimized)
    return check


def _compare_inexact(
    check: OutputCheck, original: np.ndarray, optimized: np.ndarray, rtol: float, atol: float
) -> OutputCheck:
    if original.dtype.itemsize == 2:
        rtol = max(rtol, _UNITS_OF_LAST_PLACE * _epsilon(original.dtype))
    wide = np.complex128 if original.dtype.kind == "c" else np.float64
    a, b = original.astype(wide), optimized.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))  # infinities of one sign are equal
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(same, 0.0, np.where(finite, np.abs(a - b), np.inf))
    size = np.where(np.isfinite(a), np.abs(a), 0.0)
    finite_size = size[np.isfinite(a)]
    peak = float(finite_size.max()) if finite_size.size else 0.0
    # Scaled by the peak so that squares don't overflow.
    rms = peak * float(np.sqrt(np.mean((finite_size / peak) ** 2))) if peak > 0 else 0.0
    scale = np.maximum(size, rms)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(error > 0, error / scale, 0.0)
        beyond = np.where(error > 0, error / (atol + rtol * scale), 0.0)
    check.max_abs_error = float(error.max())
    check.max_rel_error = float(relative.max())
    wrong = error > atol + rtol * scale
    check.ok = not wrong.any()
    if not check.ok:
        check.first_index = [int(i) for i in np.unravel_index(int(np.argmax(wrong)), a.shape)]
    if check.max_abs_error > 0:
        worst = int(np.argmax(beyond))
        _name_worst(check, np.unravel_index(worst, a.shape), original, optimized)
    return check


def _name_worst(
    check: OutputCheck,
    index: tuple[np.intp, ...],
    original: np.ndarray,
    optimized: np.ndarray,
) -> None:
    check.worst_index = [int(i) for i in index]
    check.worst_original, check.worst_optimized = _text(original[index]), _text(optimized[index])


def _text(value: object, limit: int = 80) -> str:
    if isinstance(value, bytes):
        text = repr(value.decode("utf-8", "backslashreplace"))
    elif isinstance(value, np.floating):
        text = f"{float(value):.9g}"
    else:
        text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _is_inexact(dtype: np.dtype) -> bool:
    # bfloat16 is of numpy kind 'V'.
    return dtype.kind in "fc" or (dtype.kind == "V" and tf.as_dtype(dtype).is_floating)


def _empty(output: str, feeds: str, value: np.ndarray) -> OutputCheck:
    name = "string" if value.dtype.kind in "OSU" else str(value.dtype)
    return OutputCheck(output, feeds, name, list(value.shape))


def _failure(output: str, feeds: str, value: np.ndarray, message: str) -> OutputCheck:
    check = _empty(output, feeds, value)
    check.ok, check.message = False, message
    check.max_abs_error = check.max_rel_error = float("nan")
    return check


def _epsilon(dtype: np.dtype) -> float:
    """Distance from 1 to the next larger number of a 16-bit float type."""
    return 2.0**-7 if dtype == tf.bfloat16.as_numpy_dtype else float(np.finfo(dtype).eps)
