"""Shapes of arguments that stand for more than the one trace they came with.

tf.function traces anew for each shape. Code for any shape serves all of these traces, so sizes are
taken for unknown: the first one of each argument at once, others when a second trace differs in
them. Inner sizes are mostly a model's own, and loops over known sizes are faster.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping

from tf_blade.graph.graph import Graph
from tf_blade.graph.types import Shape

_MAX_KNOWN = 1024  # functions


class SeenShapes:
    """What the shapes of a function's arguments have in common, over its traces."""

    def __init__(self) -> None:
        self._known: OrderedDict[object, dict[str, Shape]] = OrderedDict()

    def common(self, name: str, graph: Graph, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
        """The shapes to compile for.

        Args:
          name: the function's.
          graph: its graph. A function of the same name and ops counts as another trace of it.
          shapes: of its arguments, in this trace.
        """
        ranks = [(arg, None if s is None else len(s)) for arg, s in sorted(shapes.items())]
        key = (name, frozenset(Counter(node.op for node in graph).items()), tuple(ranks))
        before = self._known.pop(key, None)
        common = {
            arg: _join(shape if before is None else before[arg], shape)
            for arg, shape in shapes.items()
        }
        self._known[key] = common
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return {arg: _with_ones(common[arg], shape) for arg, shape in shapes.items()}


def _join(before: Shape, now: Shape) -> Shape:
    if before is None or now is None:
        return None
    return tuple(
        None if i == 0 or old != new else new
        for i, (old, new) in enumerate(zip(before, now, strict=True))
    )


def _with_ones(common: Shape, now: Shape) -> Shape:
    """A size of 1 broadcasts, and what is unknown is taken not to: it stays as it is."""
    if common is None or now is None:
        return None
    return tuple(1 if new == 1 else old for old, new in zip(common, now, strict=True))
