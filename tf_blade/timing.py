"""Original against optimised, timed in turn so that noise hits both alike."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

from tf_blade.report import LatencyReport, Verdict

Call = Callable[[], object]

# Speed-ups within this of 1 are no difference that anybody would notice.
NOTICEABLE = 0.02
# The range of six values holds the median with 97 % confidence; fewer allow no verdict.
_MIN_PAIRS, _MAX_PAIRS = 6, 2000
# A sample shorter than this is mostly clock and interpreter noise, so calls are repeated.
_MIN_SAMPLE_SECONDS = 1e-3
_WARM_UP_SHARE = 0.1


def compare_latency(
    feeds: str,
    original: Call,
    optimized: Call,
    budget_seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> LatencyReport:
    """Times both calls in interleaved pairs until the budget is spent or the matter is settled.

    Args:
      feeds: name of the feeds, for the report.
      original, optimized: one call of each model, results included.
      budget_seconds: time to spend; a few pairs are timed even if it is too short.
      clock: seconds, for tests.
    """
    repeats = _warm_up([original, optimized], budget_seconds * _WARM_UP_SHARE, clock)
    before: list[float] = []
    after: list[float] = []
    end = clock() + budget_seconds
    # A very slow model gets fewer pairs than a verdict needs, rather than hours.
    latest = end + 3 * budget_seconds
    while len(before) < _MAX_PAIRS and (
        clock() < end or len(before) < 2 or (len(before) < _MIN_PAIRS and clock() < latest)
    ):
        # Whoever runs second may find warmer caches: they take turns.
        if len(before) % 2:
            after.append(_sample(optimized, repeats, clock))
            before.append(_sample(original, repeats, clock))
        else:
            before.append(_sample(original, repeats, clock))
            after.append(_sample(optimized, repeats, clock))
        if len(before) % 10 == 0 and _settled(before, after):
            break
    ratios = [a / b for a, b in zip(before, after, strict=True)]
    speedup, low, high = median_interval(ratios)
    return LatencyReport(
        feeds=feeds,
        original_ms=statistics.median(before) * 1e3,
        optimized_ms=statistics.median(after) * 1e3,
        original_spread_ms=_spread(before) * 1e3,
        optimized_spread_ms=_spread(after) * 1e3,
        speedup=speedup,
        speedup_low=low,
        speedup_high=high,
        pairs=len(before),
        verdict=verdict(low, high, len(before)),
    )


def measure(
    call: Call, budget_seconds: float, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, float]:
    """Median and interquartile range of one call's latency, in milliseconds."""
    repeats = _warm_up([call], budget_seconds * _WARM_UP_SHARE, clock)
    samples: list[float] = []
    end = clock() + budget_seconds
    while len(samples) < _MAX_PAIRS and (clock() < end or len(samples) < 2):
        samples.append(_sample(call, repeats, clock))
    return statistics.median(samples) * 1e3, _spread(samples) * 1e3


def verdict(low: float, high: float, pairs: int) -> Verdict:
    """What a confidence interval of the speed-up, from so many pairs, allows to say."""
    if pairs < _MIN_PAIRS:
        return "unclear"
    if low >= 1 - NOTICEABLE and high <= 1 + NOTICEABLE:
        return "same"
    if low > 1:
        return "faster"
    if high < 1:
        return "slower"
    return "unclear"


def worth_keeping(reports: Iterable[LatencyReport]) -> tuple[bool, str]:
    """Whether the optimised model should replace the original, and why in one sentence.

    No if any feeds are evidently slower, or if evidently nothing is gained. Where noise hides the
    difference the best estimate, the geometric mean of the medians, decides.
    """
    listed = list(reports)
    slower = [r for r in listed if r.verdict == "slower"]
    if slower:
        worst = min(slower, key=lambda r: r.speedup)
        return False, (
            f"measured slower than the original: {worst.speedup:.2f}x on {worst.feeds} "
            f"(95 % interval {worst.speedup_low:.2f}-{worst.speedup_high:.2f})"
        )
    faster = [r for r in listed if r.verdict == "faster"]
    mean = geometric_mean([r.speedup for r in listed])
    if faster:
        return True, f"{mean:.2f}x faster than the original (geometric mean over the feeds timed)"
    if all(r.verdict == "same" for r in listed):
        return False, f"measured no faster than the original ({mean:.2f}x)"
    return mean > 1, f"the difference is within noise; best estimate {mean:.2f}x"


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(v) for v in values)) if values else 1.0


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Median and its 95 % confidence interval from order statistics: assumes no distribution."""
    ordered = sorted(values)
    n = len(ordered)
    # Ranks from the binomial distribution's normal approximation; few values give the whole range.
    reach = 0.98 * math.sqrt(n)
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach))
    return statistics.median(ordered), ordered[low], ordered[high]


def _settled(before: Sequence[float], after: Sequence[float]) -> bool:
    _, low, high = median_interval([a / b for a, b in zip(before, after, strict=True)])
    return high - low < NOTICEABLE or low > 1 + NOTICEABLE * 5


def _warm_up(calls: Sequence[Call], seconds: float, clock: Callable[[], float]) -> int:
    """Runs every call a few times; returns how often to repeat a call for one sample."""
    fastest = math.inf
    for call in calls:
        end = clock() + seconds / len(calls)
        runs = 0
        while runs < 2 or (clock() < end and runs < 50):
            start = clock()
            call()
            # The first run traces and allocates.
            if runs:
                fastest = min(fastest, clock() - start)
            runs += 1
    return max(1, math.ceil(_MIN_SAMPLE_SECONDS / max(fastest, 1e-6)))


def _sample(call: Call, repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def _spread(values: Sequence[float]) -> float:
    ordered = sorted(values)
    n = len(ordered)
    return ordered[(3 * n) // 4] - ordered[n // 4] if n > 1 else 0.0
