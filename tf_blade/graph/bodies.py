"""Function bodies of a library as Graphs, parsed once each. For reading only."""

from __future__ import annotations

from tf_blade.graph.graph import Graph, Library


class Bodies:
    """`bodies[name]`: the Graph of a library function, parsed when first asked for.

    Don't edit the graphs; copy them. A changed library needs a new Bodies.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self._graphs: dict[str, Graph] = {}

    def __getitem__(self, name: str) -> Graph:
        if name not in self._graphs:
            self._graphs[name] = Graph.from_function_def(self.library[name], self.library)
        return self._graphs[name]
