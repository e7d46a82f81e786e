"""The thread that answers TensorFlow, switching it on and off, and the end of the process."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tf_blade import machine
from tf_blade.compiler.build import Compiler, find_compiler
from tf_blade.config import Config
from tf_blade.errors import RuntimeLibraryError
from tf_blade.just_in_time import partial_runs
from tf_blade.just_in_time.bridge import Bridge, Message
from tf_blade.just_in_time.compile_graph import CompiledGraph, compile_graph
from tf_blade.just_in_time.executables import MAX_EXECUTABLES, Executables, TooMany, key_of
from tf_blade.just_in_time.graphs import LeftAlone, receive
from tf_blade.just_in_time.shapes import SeenShapes
from tf_blade.just_in_time.stats import Book, JitStats
from tf_blade.just_in_time.switch import SWITCH

_log = logging.getLogger("tf_blade")

# At the end of the process; what is still at work then is left behind.
_SECONDS_TO_END = 2.0


def enable(wait: bool = False, *, config: Config | None = None) -> None:
    """Compiles the graphs that TensorFlow makes in this process from now on, in all threads.

    That is: tf.functions when a trace of them runs for the first time, and each new set of feeds
    and fetches of a tf.compat.v1.Session. A trace that has run before stays as it is; a new one of
    the same function is compiled. Call it again to change the options.

    Args:
      wait: have the first call wait until its code is there. By default it runs the original
        meanwhile, and so do later calls until then.
      config: `compiler`, `jobs`, `cache_dir`, `lookups` and `repeated_rows` count here; code is
        generated for this machine's CPU only.

    Raises: CompilerNotFoundError if there is no C++ compiler; RuntimeLibraryError if the op library
      can't be used, another plug-in is in the way, or no code is generated for this CPU.
    """
    _service().enable(wait, config or Config())


def disable() -> None:
    """Leaves graphs that TensorFlow makes from now on alone. Compiled ones go on as they are."""
    if _running is not None:
        _running.disable()


@contextlib.contextmanager
def jit(wait: bool = False, *, config: Config | None = None) -> Iterator[None]:
    """`enable` for the time of a `with` block; then as it was before. It counts for all threads.

    Raises: as `enable`.
    """
    service = _service()
    block = service.begin(wait, config or Config())
    try:
        yield
    finally:
        service.end(block)


def jit_stats() -> JitStats:
    """What has become of the graphs of this process so far."""
    return JitStats() if _running is None else _running.stats()


@dataclass(frozen=True)
class _Options:
    wait: bool
    config: Config
    compiler: Compiler


@dataclass(eq=False)
class _Block:
    """A `with` block that has begun, and the options to go back to when it ends."""

    before: _Options | None


class _Service:
    """There is one in a process, from the first `enable` on."""

    def __init__(self) -> None:
        self._bridge = Bridge()
        self._stop = threading.Event()
        self._executables = Executables(self._bridge, self._stop)
        self._book = Book()
        self._shapes = SeenShapes()
        self._options: _Options | None = None  # None: off
        self._turning = threading.Lock()
        self._blocks: list[_Block] = []  # in the order in which they began, in all threads
        SWITCH.connect(self._bridge.accept)
        partial_runs.leave_alone(SWITCH)
        self._thread = threading.Thread(target=self._work, name="tf-blade-jit", daemon=True)
        self._thread.start()
        atexit.register(self._end)
        self._process = os.getpid()
        os.register_at_fork(after_in_child=SWITCH.end_in_fork)

    def enable(self, wait: bool, config: Config) -> None:
        options = self._make_options(wait, config)
        with self._turning:
            self._turn(options)

    def disable(self) -> None:
        with self._turning:
            self._turn(None)

    def begin(self, wait: bool, config: Config) -> _Block:
        options = self._make_options(wait, config)
        with self._turning:
            block = _Block(self._options)
            self._blocks.append(block)
            self._turn(options)
        return block

    def end(self, block: _Block) -> None:
        with self._turning:
            after = self._blocks.index(block) + 1
            if after < len(self._blocks):  # another thread's, which goes on
                self._blocks[after].before = block.before
            else:
                self._turn(block.before)
            self._blocks.remove(block)

    def _turn(self, options: _Options | None) -> None:
        self._options = options
        SWITCH.turn(options is not None)

    def _make_options(self, wait: bool, config: Config) -> _Options:
        if os.getpid() != self._process:
            raise RuntimeLibraryError(
                "this process was forked from one that compiles its graphs, and has none of its "
                "threads. Start it by 'spawn', as TensorFlow itself needs it"
            )
        target = machine.cpu_target()
        if not target:
            raise RuntimeLibraryError(
                f"no code can be generated for this CPU ({machine.cpu_model()}): it needs AVX2, or "
                "to be an AArch64 processor"
            )
        return _Options(
            wait,
            dataclasses.replace(config, cpu_targets=(target,)),
            find_compiler(config.compiler),
        )

    def stats(self) -> JitStats:
        return self._book.stats(self._executables.counts())

    def _work(self) -> None:
        try:
            while (message := self._bridge.next()) is not None:
                self._answer_somehow(message)
        finally:
            self._bridge.close()  # whatever ended this thread: nobody is to wait for it

    def _answer_somehow(self, message: Message) -> None:
        try:
            self._answer(message)
        except Exception as error:  # never in the user's call
            self._leave_alone(message, f"{type(error).__name__} inside tf-blade: {error}", error)

    def _answer(self, message: Message) -> None:
        """Answers, or sees to it that the last compiler does that it waits for."""
        options = self._options
        if options is None:  # switched off since it was sent
            return self._bridge.answer(message)
        try:
            found = self._compile(message, options)
            self._executables.want(found.sources, options.compiler, options.config)
        except LeftAlone as reason:
            return self._leave_alone(message, str(reason))
        except TooMany:
            return self._leave_alone(message, f"the process holds {MAX_EXECUTABLES} executables")
        self._book.add_compiled(found.clusters, found.lookups, found.labels)
        answer = partial(self._bridge.answer, message, found.edited)
        if not options.wait:
            return answer()
        self._bridge.take_time(message)
        self._executables.when_done(found.sources, answer)

    def _leave_alone(self, message: Message, reason: str, error: Exception | None = None) -> None:
        """Answers that the graph stays as it is. An error is said in the log, once."""
        if self._book.add_left_alone(reason) and error is not None:
            _log.warning(
                "tf-blade leaves graph '%s' to TensorFlow: %s. Said once; tf_blade.jit_stats() has "
                "the numbers.",
                message.facts["id"][0],
                reason,
                exc_info=error if _log.isEnabledFor(logging.DEBUG) else None,
            )
        self._bridge.answer(message)

    def _compile(self, message: Message, options: _Options) -> CompiledGraph:
        received = receive(message)
        shapes = self._shapes.common(received.name, received.graph, received.arg_shapes)
        key = partial(key_of, compiler=options.compiler, config=options.config)
        return compile_graph(received, shapes, options.config, key)

    def _end(self) -> None:
        """Nobody waits for Python any more, and no compiler is left running."""
        if os.getpid() != self._process:
            return
        self._stop.set()
        self._bridge.close()
        self._executables.end(_SECONDS_TO_END)
        self._thread.join(_SECONDS_TO_END)


_running: _Service | None = None
_starting = threading.Lock()


def _service() -> _Service:
    global _running
    with _starting:
        if _running is None:
            _running = _Service()
        return _running
