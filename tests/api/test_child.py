"""What is called in a child process answers, raises, or dies there."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from tf_blade.child import Child, Crashed


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with contextlib.closing(Child()) as made:
        yield made


def double(x: np.ndarray, times: int = 1) -> np.ndarray:
    return x * 2**times


def pid() -> int:
    return os.getpid()


def write_to_nowhere() -> None:
    ctypes.memset(8, 0, 8)


def kill_itself(number: int) -> None:
    os.kill(os.getpid(), number)


def leave() -> None:
    os._exit(3)


class Odd(Exception):
    """It can be pickled, but not read back."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def raise_odd() -> None:
    raise Odd(1, 2)


def raise_key_error() -> None:
    raise KeyError("no such thing")


def talk() -> str:
    print("something that is no answer", file=sys.stderr)
    os.write(1, b"nor is this")
    return "an answer"


def test_arrays_go_there_and_come_back(child: Child):
    x = np.arange(1_000_000)
    np.testing.assert_array_equal(child.call(double, x, times=2), x * 4)


def test_the_process_stays_for_later_calls_and_is_not_this_one(child: Child):
    first = child.call(pid)
    assert first != os.getpid()
    assert child.call(pid) == first


def test_what_is_printed_is_no_answer(child: Child):
    assert child.call(talk) == "an answer"


def test_errors_are_raised_here(child: Child):
    with pytest.raises(KeyError, match="no such thing"):
        child.call(raise_key_error)
    with pytest.raises(RuntimeError, match="Odd: 1 and 2"):
        child.call(raise_odd)
    before = child.call(pid)
    assert child.call(pid) == before


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGFPE", "SIGABRT", "SIGILL"])
def test_a_crash_is_told_and_the_next_call_has_another_process(child: Child, name: str):
    before = child.call(pid)
    with pytest.raises(Crashed, match=f"^crashed with {name}$") as crash:
        child.call(kill_itself, getattr(signal, name))
    assert crash.value.signal is getattr(signal, name)
    assert child.call(pid) != before


def test_a_wild_store_is_a_crash(child: Child):
    with pytest.raises(Crashed, match="SIGSEGV"):
        child.call(write_to_nowhere)


def test_an_exit_is_one_too(child: Child):
    with pytest.raises(Crashed, match="exited with status 3") as crash:
        child.call(leave)
    assert crash.value.signal is None


def test_a_call_that_takes_too_long_is_ended():
    with (
        contextlib.closing(Child(seconds=0.2)) as child,
        pytest.raises(Crashed, match=r"did not end within 0\.2 s"),
    ):
        child.call(time.sleep, 3600)


def test_a_closed_child_is_gone():
    child = Child()
    number = child.call(pid)
    child.close()
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
