"""The C functions of ops/jit/exports.cc."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from tf_blade import library
from tf_blade.errors import RuntimeLibraryError


@dataclass(frozen=True)
class Message:
    """A graph that TensorFlow waits for.

    Attributes:
      ticket: to answer with.
      graph: a serialized GraphDef.
      facts: names by the word before them: "id", "fetch", "feed" and "keep".
    """

    ticket: int
    graph: bytes
    facts: dict[str, list[str]]


class Bridge:
    """What Python and the graph optimizer say to each other. Thread-safe.

    Raises: RuntimeLibraryError if the op library can't be loaded, or another plug-in has the
      place of the graph optimizer.
    """

    def __init__(self) -> None:
        library.load_ops()
        self._functions = functions = ctypes.CDLL(str(library.library_path()))
        size = ctypes.c_size_t
        functions.tf_blade_jit_register.argtypes = [ctypes.c_void_p]
        functions.tf_blade_jit_accept.argtypes = [ctypes.c_int]
        functions.tf_blade_jit_take_time.argtypes = [ctypes.c_uint64]
        functions.tf_blade_jit_answer.argtypes = [ctypes.c_uint64, ctypes.c_char_p, size]
        functions.tf_blade_jit_finish.argtypes = [ctypes.c_char_p, ctypes.c_char_p, size]
        functions.tf_blade_jit_finish.restype = ctypes.c_char_p
        functions.tf_blade_jit_fail.argtypes = [ctypes.c_char_p] * 2
        holds_lock = ctypes.cast(ctypes.pythonapi.PyGILState_Check, ctypes.c_void_p)
        if not functions.tf_blade_jit_register(holds_lock):
            raise RuntimeLibraryError(
                "another TensorFlow plug-in optimises the graphs of the CPU, and there can be only "
                "one. Start Python without it, or use tf_blade.optimize"
            )

    def accept(self, accepting: bool) -> None:
        """Whether TensorFlow is to hand graphs over. Takes no lock."""
        self._functions.tf_blade_jit_accept(int(accepting))

    def close(self) -> None:
        """For good: threads that wait for an answer or for a graph go on."""
        self._functions.tf_blade_jit_close()

    def next(self) -> Message | None:
        """Waits for a graph; None once the bridge is closed."""
        ticket, graph = ctypes.c_uint64(), ctypes.c_void_p()
        size, facts = ctypes.c_size_t(), ctypes.c_char_p()
        pointers = [ctypes.byref(place) for place in (ticket, graph, size, facts)]
        if not self._functions.tf_blade_jit_next(*pointers):
            return None
        named: dict[str, list[str]] = {"id": [], "fetch": [], "feed": [], "keep": []}
        for line in (facts.value or b"").decode(errors="replace").split("\n"):
            word, _, name = line.partition("\t")
            if word in named:  # what isn't one is the rest of a function's name with a line's end
                named[word].append(name)
        return Message(ticket.value, ctypes.string_at(graph, size.value), named)

    def take_time(self, message: Message) -> None:
        """Says that the answer may take long."""
        self._functions.tf_blade_jit_take_time(message.ticket)

    def answer(self, message: Message, graph: bytes = b"") -> None:
        """The edited graph; without one, the graph stays as it is."""
        self._functions.tf_blade_jit_answer(message.ticket, graph, len(graph))

    def finish(self, key: str, executable: bytes) -> str:
        """Gives an executable to the ops that wait for it; returns why it can't be used, or ""."""
        error = self._functions.tf_blade_jit_finish(key.encode(), executable, len(executable))
        return (error or b"").decode(errors="replace")

    def fail(self, key: str, reason: str) -> None:
        """Says that there won't be an executable."""
        self._functions.tf_blade_jit_fail(key.encode(), reason.encode())
