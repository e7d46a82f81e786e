"""Which MetaGraph and signatures of a SavedModel are meant, and what they run."""

from __future__ import annotations

import difflib
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry

from tf_blade import library, saved_model
from tf_blade.errors import ConfigError, SignatureError
from tf_blade.graph.types import TensorInfo
from tf_blade.saved_model import MetaGraph, Signature, SignatureTensor

DEFAULT_SIGNATURE = "serving_default"


def read_meta_graph(
    directory: str | os.PathLike[str], tags: Sequence[str] | None = None
) -> MetaGraph:
    """The MetaGraph of a SavedModel folder that has these tags (None: the only one, or "serve").

    Raises:
      SavedModelError: no such folder, no SavedModel in it, files that can't be read, unknown ops.
      RuntimeLibraryError: the model holds our op and its library can't be loaded.
      ConfigError: no MetaGraph with these tags, or several to choose from.
    """
    load_ops_for(directory)
    metas = {tuple(sorted(meta.tags)): meta for meta in saved_model.read(directory).meta_graphs}
    wanted = tuple(sorted(tags)) if tags else ("serve",)
    if tags is None and len(metas) == 1:
        (wanted,) = metas
    if wanted not in metas:
        listed = ", ".join(str(list(found)) for found in metas)
        raise ConfigError(
            f"'{directory}' has no MetaGraph with the tags {list(wanted)} (has: {listed}). "
            "Choose one of them with the config key 'tags'."
        )
    return metas[wanted]


def load_ops_for(directory: str | os.PathLike[str]) -> None:
    """Loads our op library if the SavedModel in the folder needs it.

    Raises RuntimeLibraryError if it is needed and can't be loaded.
    """
    if was_optimized(directory):
        library.load_ops()


def was_optimized(directory: str | os.PathLike[str]) -> bool:
    """Whether the SavedModel in the folder has our ops. False if there is none."""
    try:
        with (
            open(os.path.join(directory, "saved_model.pb"), "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return any(data.find(op) >= 0 for op in (b"BladeCluster", b"BladeLookup"))
    except (OSError, ValueError):
        return False  # missing or empty: the reader says so


def computation(signature: Signature) -> tuple[str, ...]:
    """Inputs, outputs and the main graph's tensors behind them: equal for signatures that are one
    and the same computation under two names."""
    inputs = [f"{key} <- {info.tensors}" for key, info in signature.inputs.items()]
    return (*inputs, *(f"{key} -> {info.tensors}" for key, info in signature.outputs.items()))


def describe(tensor: SignatureTensor) -> str:
    """Dtype and shape, as in "float32[?,3]"."""
    return str(TensorInfo(tensor.dtype, tensor.shape))


def choose_signatures(meta_graph: MetaGraph, wanted: Iterable[str] | None) -> dict[str, Signature]:
    """The signatures named, or all of them. Raises SignatureError on an unknown name."""
    found = {name: meta_graph.signatures[name] for name in sorted(meta_graph.signatures)}
    if not found:
        raise SignatureError(
            "the SavedModel has no signature to call. Save it again with signatures=…, as in "
            "tf.saved_model.save(module, path, signatures={'serving_default': module.function})."
        )
    if wanted is None:
        return found
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    if not names:
        raise SignatureError(f"signatures=[] leaves nothing to do (has: {', '.join(found)}).")
    for name in names:
        if name not in found:
            close = difflib.get_close_matches(name, found, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise SignatureError(
                f"the SavedModel has no signature '{name}' (has: {', '.join(found)}).{hint}"
            )
    return {name: found[name] for name in names}


def default_signature(found: Iterable[str]) -> str:
    """The signature that a plain call means: serving_default, else the first."""
    names = list(found)
    return DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in names else names[0]


# Stateful to TensorFlow, but a call leaves no trace that a later call could see.
_TRACELESS = frozenset(
    {
        "Assert",
        "AnonymousHashTable",
        "BladeCluster",
        "BladeLookup",
        "Case",
        "HashTable",
        "HashTableV2",
        "If",
        "LookupTableFindV2",
        "LookupTableSizeV2",
        "Placeholder",
        "PrintV2",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "StatefulPartitionedCall",
        "VarHandleOp",
        "VarIsInitializedOp",
        "Variable",
        "VariableV2",
        "While",
    }
)


def keeps_state(meta_graph: MetaGraph, signatures: Iterable[str]) -> bool:
    """Whether calls of these signatures may change the answers of later calls (writes, random ops).

    Errs on the side of True.
    """
    for name in signatures:
        for node in reachable_nodes(meta_graph, name):
            op = op_def_registry.get(node.op)
            # An unknown name is a function called like an op: its body is looked at, too.
            if op is not None and op.is_stateful and node.op not in _TRACELESS:
                return True
            if node.op in ("Assign", "AssignAdd", "AssignSub") or node.op.startswith("Scatter"):
                return True  # on reference variables TensorFlow does not call them stateful
    return False


def reachable_nodes(meta_graph: MetaGraph, signature: str) -> Iterator[node_def_pb2.NodeDef]:
    """Every node that a call of the signature may run, function bodies included, each once."""
    nodes = {node.name: node for node in meta_graph.graph_def.node}
    functions_by_name = meta_graph.library
    outputs = meta_graph.signatures[signature].outputs.values()
    seen: set[str] = set()
    stack = [_node_name(text) for info in outputs for text in info.tensors]
    functions: list[str] = []
    while stack:
        name = stack.pop()
        if name in seen or name not in nodes:
            continue
        seen.add(name)
        yield nodes[name]
        stack.extend(_node_name(text) for text in nodes[name].input)
        functions.extend(_called(nodes[name], functions_by_name))
    entered: set[str] = set()
    while functions:
        name = functions.pop()
        if name in entered:
            continue
        entered.add(name)
        for node in functions_by_name[name].node_def:
            yield node
            functions.extend(_called(node, functions_by_name))


def _called(
    node: node_def_pb2.NodeDef, library: Mapping[str, function_pb2.FunctionDef]
) -> Iterator[str]:
    if not library:
        return
    if node.op in library:
        yield node.op
    for attr in node.attr.values():
        for func in (attr.func, *attr.list.func):
            if func.name in library:
                yield func.name


def _node_name(text: str) -> str:
    return text.lstrip("^").partition(":")[0]
