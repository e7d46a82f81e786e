"""What passes know beyond the graph, and what they report."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import tensorflow as tf

from tf_blade.graph.graph import Graph, TensorRef
from tf_blade.graph.shapes import Types, infer_types
from tf_blade.graph.types import Shape, TensorInfo
from tf_blade.steps import Steps

MIB = 1 << 20


class Variable(Protocol):
    """A variable with a known value (`tf_blade.saved_model.Variable`)."""

    name: str
    dtype: tf.DType
    shape: tuple[int, ...]
    handle: bool  # False: the node in the graph is the value itself, not a resource
    written_by: str  # "" if nothing writes it while the model serves

    @property
    def nbytes(self) -> int: ...

    def value(self) -> np.ndarray: ...


@dataclass
class FreezeBudget:
    """How many bytes of variables may still become constants; shared by a model's regions.

    saved_model.pb must stay far below the 2 GB of a proto, and below what servers accept.
    """

    per_variable: int = 32 * MIB
    left: int = 256 * MIB

    def take(self, nbytes: int) -> bool:
        """Whether a variable of that size may be frozen; if so, it is counted."""
        if nbytes > self.per_variable or nbytes > self.left:
            return False
        self.left -= nbytes
        return True


@dataclass
class PassContext:
    """Facts about one graph that passes use.

    Attributes:
      variables: by the name of the node that stands for the variable (argument, VarHandleOp, …).
      arg_shapes: shapes of function arguments by name, where more is known than the graph says.
      budget: for freezing.
      hold_tables: variables from this size on that are only gathered from stay variables: a lookup
        reads them where they are. None: they are frozen like others.
      held: names of the nodes that stand for such variables; filled by freezing.
      set_free: functions that conditionals whose predicate is known may have been the only ones to
        call, directly or not; filled by inlining.
      counts: what the passes did, e.g. {"inline_calls": 3}; filled by them.
      steps: watches and limits which passes run. None: all do.
    """

    variables: Mapping[str, Variable] = field(default_factory=dict)
    arg_shapes: Mapping[str, Shape] = field(default_factory=dict)
    budget: FreezeBudget = field(default_factory=FreezeBudget)
    hold_tables: int | None = None
    held: set[str] = field(default_factory=set)
    set_free: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    steps: Steps | None = None
    _types: Types | None = field(default=None, init=False, repr=False)
    _own: Graph | None = field(default=None, init=False, repr=False)

    def editable(self, graph: Graph) -> Graph:
        """A graph for a pass to change: a copy, or within a pipeline the one that it made before.

        So a pass leaves the graph that it is given as it is, and a pipeline copies its graph once.
        """
        return graph if graph is self._own else graph.copy()

    @contextlib.contextmanager
    def pipeline(self, graph: Graph) -> Iterator[Graph]:
        """A copy of the graph that, within this, `editable` hands out as it is."""
        self._own = graph.copy()
        self._types = None
        try:
            yield self._own
        finally:
            self._own = None

    def types(self, graph: Graph) -> Types:
        """dtypes and shapes of the graph's tensors. Takes a while: see `same_types`."""
        known = {
            name: TensorInfo(v.dtype, v.shape) for name, v in self.variables.items() if v.handle
        }
        self._types = infer_types(graph, self.arg_shapes, known)
        return self._types

    def add_likely(self, graph: Graph, types: Types, arg_shapes: Mapping[str, Shape]) -> None:
        """Adds to the graph's types the shapes that follow from likely ones of arguments."""
        known = {
            name: TensorInfo(v.dtype, v.shape) for name, v in self.variables.items() if v.handle
        }
        try:
            likely = infer_types(graph, {**self.arg_shapes, **arg_shapes}, known)
        except RuntimeError:
            return  # these arguments are an error, which the check will tell of
        for ref, info in types.items():
            if ref in likely:
                types[ref] = replace(info, likely=likely[ref].shape)

    def same_types(self, graph: Graph) -> Types:
        """What `types` gave last, if nothing has changed types since (`forget_types`).

        There may be more in it: of nodes that are gone.
        """
        return self.types(graph) if self._types is None else self._types

    def forget_types(self) -> None:
        """To be called when a pass has run that may change what is known of types."""
        self._types = None

    def variable(self, graph: Graph, ref: TensorRef) -> Variable | None:
        """The variable behind a resource or reference tensor, looking through Identities."""
        node = graph.nodes[ref.node]
        while node.op in ("Identity", "RefIdentity"):
            ref = node.inputs[0]
            node = graph.nodes[ref.node]
        return self.variables.get(node.name) if ref.index == 0 else None
