"""The part of a TF1 main graph that answers are computed in, taken out for editing and put back.

The cone is everything the signatures' outputs depend on. Only the cone is edited. Whatever else the
graph holds (saving, restoring, initialisers, summaries, training) stays as it is; if it uses nodes
of the cone that an edit removed, the original nodes are kept for it beside the new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorflow.core.framework import attr_value_pb2

from tf_blade.graph.colocation import drop_dangling_colocations
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.names import parse_tensor_name, rename, restore_output_names
from tf_blade.saved_model.signatures import Signature


class Cone:
    """Attributes:
    graph: the cone as a Graph; its outputs are the signatures' outputs. A fed tensor is the output
      of a Placeholder, whatever it is in the main graph.
    """

    def __init__(self, main: Graph, signatures: Mapping[str, Signature]) -> None:
        self._main = main
        fed = {
            ref: tensor
            for signature in signatures.values()
            for tensor in signature.inputs.values()
            for ref in map(parse_tensor_name, tensor.tensors)
        }
        self._names = set().union(*(_ancestors(main, s) for s in signatures.values()))
        self.graph = Graph("", main.library)
        for node in main:
            if node.name in self._names:
                self.graph.nodes[node.name] = node.copy()
        # Fed tensors that a Placeholder of the cone stands for.
        self._stand_ins: dict[str, TensorRef] = {}
        outputs = _output_refs(signatures.values())
        self.graph.outputs = [(str(ref), ref) for ref in outputs if ref not in fed]
        for ref, tensor in fed.items():
            self._stand_in(ref, tensor.shape if tensor.is_dense else None)

    def _stand_in(self, ref: TensorRef, shape: tuple[int | None, ...] | None) -> None:
        main_node = self._main.nodes[ref.node]
        if main_node.op == "Placeholder":
            self.graph.nodes.setdefault(ref.node, main_node.copy())
            self._names.add(ref.node)
            return
        node = Node(self.graph.unique_name(f"{ref.node}/fed"), "Placeholder")
        dtype = self._main.output_dtypes(main_node)[ref.index]
        node.attrs["dtype"] = attr_value_pb2.AttrValue(type=dtype)
        node.attrs["shape"] = attr_value_pb2.AttrValue()
        if shape is None:
            node.attrs["shape"].shape.unknown_rank = True
        else:
            for dim in shape:
                node.attrs["shape"].shape.dim.add(size=-1 if dim is None else dim)
        self.graph.redirect({ref: TensorRef(node.name)})
        self.graph.add(node)
        self._stand_ins[node.name] = ref
        if ref.node in self.graph.nodes:  # another signature computes what this one is fed
            self.graph.outputs.append((str(ref), ref))

    def put_back(self, edited: Graph, keep: Iterable[str]) -> Graph:
        """The main graph with the edited cone in it.

        Args:
          edited: made from a copy of `graph`. A node that has the name of one of the cone's nodes
            must compute the same.
          keep: names of nodes that must exist afterwards.
        """
        main, edited = self._main, edited.copy()
        restore_output_names(edited)
        outside = main.nodes.keys() - self._names
        clashes = [n for n in edited.nodes if n in outside and n not in self._stand_ins]
        taken = set(main.nodes) | set(edited.nodes)
        rename(edited, {name: _free_name(name, taken) for name in clashes})
        for name, ref in self._stand_ins.items():
            edited.redirect({TensorRef(name): ref})
            edited.nodes.pop(name, None)

        result = main.copy()
        result.nodes = {}
        for name, node in main.nodes.items():
            if name in edited.nodes:
                result.nodes[name] = edited.nodes[name]
            elif name in outside:
                result.nodes[name] = node
        for name, node in edited.nodes.items():
            result.nodes.setdefault(name, node)

        todo = [name for name in keep if name in main.nodes]
        for node in list(result):
            todo += _sources(node)
        while todo:
            name = todo.pop()
            if name not in result.nodes:
                result.nodes[name] = main.nodes[name]
                todo += _sources(main.nodes[name])
        drop_dangling_colocations(result)
        return result


def _ancestors(main: Graph, signature: Signature) -> set[str]:
    """Nodes a signature's outputs depend on, not looking behind what the signature is fed."""
    fed = {parse_tensor_name(t) for tensor in signature.inputs.values() for t in tensor.tensors}
    todo = [ref.node for ref in _output_refs([signature]) if ref not in fed]
    seen = set(todo)
    while todo:
        node = main.nodes[todo.pop()]
        needed = [ref.node for ref in node.inputs if ref not in fed] + node.controls
        for name in needed:
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


def _output_refs(signatures: Iterable[Signature]) -> list[TensorRef]:
    return list(
        dict.fromkeys(
            parse_tensor_name(name)
            for signature in signatures
            for tensor in signature.outputs.values()
            for name in tensor.tensors
        )
    )


def _sources(node: Node) -> list[str]:
    return [ref.node for ref in node.inputs] + node.controls


def _free_name(name: str, taken: set[str]) -> str:
    i = 1
    while f"{name}_{i}" in taken:
        i += 1
    taken.add(f"{name}_{i}")
    return f"{name}_{i}"
