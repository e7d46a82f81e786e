"""A directed acyclic graph whose nodes can be merged as long as no cycle comes about.

The topological order is kept while nodes are merged (Pearce and Kelly's idea: only the region
between the two nodes changes) in a linked list with integer labels, so that "is x before y" is
one comparison. Merging a and b, a before b, is safe if no path leads from a to b through a third
node. Two searches, forward from a and backward from b, both confined to the labels between
the two, advance in turns; the first that ends without meeting the other end proves the merge
safe and has found exactly the nodes that must change place. So a merge costs about
twice the smaller of the two searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

_GAP = 1 << 40


class MergeableDag:
    """Nodes are ints 0..n-1; a merged pair lives on under one of its two ids.

    Attributes:
      out, into: successors and predecessors of every node that is still alive.
    """

    def __init__(self, size: int, edges: Iterable[tuple[int, int]]) -> None:
        """Raises ValueError if the edges already make a cycle. Self-edges are ignored."""
        self.out: list[set[int]] = [set() for _ in range(size)]
        self.into: list[set[int]] = [set() for _ in range(size)]
        for a, b in edges:
            if a != b:
                self.out[a].add(b)
                self.into[b].add(a)
        order = self._topological_order()
        # A doubly linked list with two sentinels: size (front) and size + 1 (back).
        self._front, self._back = size, size + 1
        self._next = [0] * (size + 2)
        self._previous = [0] * (size + 2)
        self._label = [0] * (size + 2)
        chain = [self._front, *order, self._back]
        for a, b in pairwise(chain):
            self._next[a], self._previous[b] = b, a
        self._relabel()

    def label(self, node: int) -> int:
        """Position in the topological order: grows along every edge; changes as nodes merge."""
        return self._label[node]

    def order(self) -> list[int]:
        """The nodes still alive, in topological order."""
        found, node = [], self._next[self._front]
        while node != self._back:
            found.append(node)
            node = self._next[node]
        return found

    def merge(self, a: int, b: int) -> tuple[int, list[int]]:
        """Merges two nodes unless that makes a cycle.

        Returns: (the id of the merged node, []), or (-1, path) with the nodes strictly between the
        two on a path that forbids it; nothing has changed then.
        """
        if self._label[a] > self._label[b]:
            a, b = b, a
        forward, backward = _Search(self.out, a, b), _Search(self.into, b, a)
        low, high = self._label[a], self._label[b]
        while True:
            state = forward.step(self._label, low, high)
            if state:
                break
            state = backward.step(self._label, low, high)
            if state:
                forward, backward = backward, forward
                break
        if state == _MET:
            path = forward.path()
            return -1, path if forward.start == a else path[::-1]
        moved = sorted(forward.seen, key=self._label.__getitem__)
        for node in moved:
            self._unlink(node)
        if forward.start == a:
            # All that a leads to before b goes right behind b, where the merged node stands.
            self._insert_after(b, moved)
            place, gone = b, a
        else:
            self._insert_after(self._previous[a], moved)
            place, gone = a, b
        self._unlink(gone)
        return self._join(place, gone), []

    # -- the order ------------------------------------------------------------------------

    def _unlink(self, node: int) -> None:
        before, after = self._previous[node], self._next[node]
        self._next[before], self._previous[after] = after, before

    def _insert_after(self, place: int, nodes: Sequence[int]) -> None:
        after = self._next[place]
        chain = [place, *nodes, after]
        for a, b in pairwise(chain):
            self._next[a], self._previous[b] = b, a
        step = (self._label[after] - self._label[place]) // (len(nodes) + 1)
        if step == 0:
            self._relabel()
            return
        for i, node in enumerate(nodes, 1):
            self._label[node] = self._label[place] + i * step

    def _relabel(self) -> None:
        node, label = self._front, 0
        while True:
            self._label[node] = label
            if node == self._back:
                return
            node, label = self._next[node], label + _GAP

    def _join(self, place: int, gone: int) -> int:
        """Moves the edges of the node of lower degree to the other, which takes `place`."""
        keep, drop = place, gone
        if len(self.out[keep]) + len(self.into[keep]) < len(self.out[drop]) + len(self.into[drop]):
            keep, drop = drop, keep
            before, after = self._previous[place], self._next[place]
            self._next[before] = self._previous[after] = keep
            self._previous[keep], self._next[keep] = before, after
            self._label[keep] = self._label[place]
        for node in self.out[drop]:
            self.into[node].discard(drop)
            if node != keep:
                self.into[node].add(keep)
                self.out[keep].add(node)
        for node in self.into[drop]:
            self.out[node].discard(drop)
            if node != keep:
                self.out[node].add(keep)
                self.into[keep].add(node)
        self.out[drop], self.into[drop] = set(), set()
        return keep

    def _topological_order(self) -> list[int]:
        order: list[int] = []
        state = bytearray(len(self.out))  # 0 new, 1 open, 2 done
        for root in range(len(self.out)):
            if state[root]:
                continue
            state[root] = 1
            stack: list[tuple[int, Iterator[int]]] = [(root, iter(sorted(self.into[root])))]
            while stack:
                node, rest = stack[-1]
                for source in rest:
                    if state[source] == 1:
                        raise ValueError(f"the graph has a cycle through {source}")
                    if state[source] == 0:
                        state[source] = 1
                        stack.append((source, iter(sorted(self.into[source]))))
                        break
                else:
                    state[node] = 2
                    order.append(node)
                    stack.pop()
        return order


_RUNNING, _EXHAUSTED, _MET = 0, 1, 2


class _Search:
    """Depth-first search from `start` along `edges`, one edge a step, for a path to `goal`.

    A direct edge start-goal doesn't count. `seen` holds the nodes reached.
    """

    def __init__(self, edges: list[set[int]], start: int, goal: int) -> None:
        self.start, self.goal = start, goal
        self.seen: set[int] = set()
        self._edges = edges
        self._stack: list[tuple[int, Iterator[int]]] = [(start, iter(edges[start]))]

    def step(self, label: list[int], low: int, high: int) -> int:
        """Looks at one edge; nodes outside the labels (low, high) are not entered."""
        if not self._stack:
            return _EXHAUSTED
        node, rest = self._stack[-1]
        for target in rest:
            if target == self.goal:
                if node != self.start:
                    return _MET
            elif low < label[target] < high and target not in self.seen:
                self.seen.add(target)
                self._stack.append((target, iter(self._edges[target])))
            return _RUNNING
        self._stack.pop()
        return _RUNNING if self._stack else _EXHAUSTED

    def path(self) -> list[int]:
        """The nodes strictly between start and goal, once step() said they are connected."""
        return [node for node, _ in self._stack[1:]]
