"""With a made-up clock, so that the results don't depend on the machine."""

import random

import pytest

from tf_blade.report import LatencyReport, Verdict
from tf_blade.timing import compare_latency, measure, median_interval, verdict, worth_keeping


class Machine:
    """A clock that moves only when a call runs, by its length and some noise."""

    def __init__(self, noise: float, seed: int = 0) -> None:
        self.now, self.noise, self.random = 0.0, noise, random.Random(seed)

    def clock(self) -> float:
        return self.now

    def call(self, seconds: float):
        def run() -> None:
            self.now += seconds * (1 + self.noise * self.random.random())

        return run


def compared(original: float, optimized: float, noise: float, budget: float = 2.0) -> LatencyReport:
    machine = Machine(noise)
    return compare_latency(
        "batch 1", machine.call(original), machine.call(optimized), budget, machine.clock
    )


def test_a_clear_difference_is_found_either_way():
    assert compared(0.004, 0.002, 0.3).verdict == "faster"
    assert compared(0.002, 0.004, 0.3).verdict == "slower"
    assert compared(0.004, 0.002, 0.3).speedup == pytest.approx(2.0, rel=0.1)


def test_equal_models_are_the_same_or_unclear_but_never_faster():
    assert compared(0.002, 0.002, 0.001).verdict == "same"
    wide = compared(0.1, 0.1, 5.0, budget=1.5)
    assert wide.verdict == "unclear"


def test_very_slow_calls_end_with_few_pairs_and_no_verdict():
    found = compared(30.0, 10.0, 0.0, budget=1.0)
    assert found.pairs == 2
    assert found.verdict == "unclear"
    assert found.speedup == pytest.approx(3.0)


def test_a_settled_comparison_stops_before_its_budget():
    machine = Machine(0.001)
    compare_latency("b", machine.call(0.002), machine.call(0.002), 100.0, machine.clock)
    assert machine.now < 50


def test_calls_shorter_than_the_clock_are_repeated():
    found = compared(2e-5, 1e-5, 0.0)
    assert found.original_ms == pytest.approx(0.02)
    assert found.speedup == pytest.approx(2.0)


def test_measure_gives_the_median_and_no_spread_without_noise():
    machine = Machine(0.0)
    median, spread = measure(machine.call(0.005), 0.5, machine.clock)
    assert median == pytest.approx(5.0)
    assert spread == pytest.approx(0.0, abs=1e-9)


def test_the_interval_of_a_median_holds_it_as_often_as_promised():
    draw = random.Random(7)
    held = 0
    for _ in range(400):
        _, low, high = median_interval([draw.expovariate(1.0) for _ in range(40)])
        held += low <= 0.6931 <= high
    assert held >= 0.93 * 400


def latency(speedup: float, word: Verdict) -> LatencyReport:
    return LatencyReport("f", 1.0, 1 / speedup, 0, 0, speedup, speedup, speedup, 20, word)


def test_a_model_is_kept_on_evidence_of_gain_and_dropped_on_evidence_of_loss():
    assert worth_keeping([latency(2.0, "faster"), latency(1.0, "same")])[0]
    assert not worth_keeping([latency(2.0, "faster"), latency(0.8, "slower")])[0]
    assert not worth_keeping([latency(1.0, "same")])[0]
    assert worth_keeping([latency(1.3, "unclear")])[0]
    assert not worth_keeping([latency(0.7, "unclear")])[0]


def test_a_verdict_needs_six_pairs():
    assert verdict(1.5, 1.6, 5) == "unclear"
    assert verdict(1.5, 1.6, 6) == "faster"
