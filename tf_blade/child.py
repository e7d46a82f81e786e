"""Calling functions in a process of their own, which they may take down with them."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import ParamSpec, TypeVar

_SECONDS = 600.0  # that a call may take
_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class Crashed(Exception):
    """The process died, or had to be ended. The text goes on from its subject: "crashed with
    SIGSEGV".

    Attributes:
      signal: what it died of; None if it exited or took too long.
    """

    def __init__(self, text: str, signal: signal.Signals | None = None) -> None:
        super().__init__(text)
        self.signal = signal


class Child:
    """A process for calls, one after the other. It starts with the first call, and afresh with the
    first one after it died; what it has imported and loaded is there for later calls.

    Args:
      seconds: a call that takes longer has crashed.
    """

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def call(self, function: Callable[_P, _Result], *args: _P.args, **kwargs: _P.kwargs) -> _Result:
        """What the function gives. It and its arguments are pickled.

        Raises: Crashed; what the function raises, a RuntimeError for what can't be pickled.
        """
        if self._connection is None:
            self._start()
        assert self._connection is not None
        try:
            self._connection.send((function, args, kwargs))
            if not self._connection.poll(self._seconds):
                self._end()
                raise Crashed(f"did not end within {self._seconds:g} s")
            result, error = self._connection.recv()
        except (EOFError, OSError):
            raise self._crash() from None
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def close(self) -> None:
        """Ends the process; a later call starts another."""
        self._end()

    def _end(self) -> None:
        if self._connection is not None and self._process is not None:
            self._connection.close()
            self._process.kill()
            self._process.wait()
        self._connection = self._process = None

    def _start(self) -> None:
        ours, theirs = Pipe()
        package = str(Path(__file__).resolve().parents[1])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tf_blade.child", str(theirs.fileno())],
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(paths)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._connection = ours

    def _crash(self) -> Crashed:
        assert self._process is not None
        code = self._process.wait()
        self._end()
        if code < 0:
            died_of = signal.Signals(-code)
            return Crashed(f"crashed with {died_of.name}", died_of)
        return Crashed(f"exited with status {code}")


def _serve(connection: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # crashes are expected
    while True:
        try:
            function, args, kwargs = connection.recv()
        except EOFError:  # nobody asks any more
            return
        except Exception as error:  # a module that can't be imported
            connection.send((None, RuntimeError(str(error))))
            continue
        try:
            connection.send((function(*args, **kwargs), None))
        except Exception as error:
            connection.send((None, _picklable(error)))


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
