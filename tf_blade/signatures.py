"""What a SavedModel's signatures promise: names, dtypes and shapes, read without loading it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.framework import op_def_registry

from tf_blade.errors import ConfigError, SavedModelError, SignatureError
from tf_blade.graph.types import Shape, TensorInfo

# TensorFlow's own entry, run once at load; nobody calls it.
_INIT_SIGNATURE = "__saved_model_init_op"
DEFAULT_SIGNATURE = "serving_default"


@dataclass(frozen=True)
class Signature:
    """One signature of a MetaGraph.

    Attributes:
      name: its key.
      inputs, outputs: name -> dtype and partly known shape. Sparse and composite tensors are in
        `composite_inputs` / left out of `outputs` instead.
      tensors: the graph tensors behind inputs and outputs, as text; equal for signatures that are
        one and the same computation of the main graph under two names.
      composite_inputs: inputs that are SparseTensors or other composites.
    """

    name: str
    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]
    tensors: tuple[str, ...]
    composite_inputs: tuple[str, ...] = ()

    @property
    def input_names(self) -> list[str]:
        return [*self.inputs, *self.composite_inputs]


def read_meta_graph(
    directory: str | os.PathLike[str], tags: Sequence[str] | None = None
) -> meta_graph_pb2.MetaGraphDef:
    """The MetaGraph of a SavedModel folder that has these tags (None: the only one, or "serve").

    Raises:
      SavedModelError: no such folder, no SavedModel in it, or a file that can't be parsed.
      ConfigError: no MetaGraph with these tags, or several to choose from.
    """
    found = _parse(Path(directory))
    sets = [tuple(sorted(meta.meta_info_def.tags)) for meta in found.meta_graphs]
    if not sets:
        raise SavedModelError(f"'{directory}' holds no MetaGraph: the file is empty or cut short.")
    wanted = tuple(sorted(tags)) if tags else ("serve",)
    if tags is None and len(sets) == 1:
        wanted = sets[0]
    if wanted not in sets:
        listed = ", ".join(str(list(s)) for s in sets)
        raise ConfigError(
            f"'{directory}' has no MetaGraph with the tags {list(wanted)} (has: {listed}). "
            "Choose one of them with the config key 'tags'."
        )
    return found.meta_graphs[sets.index(wanted)]


def _parse(directory: Path) -> saved_model_pb2.SavedModel:
    if not directory.exists():
        raise SavedModelError(f"'{directory}' does not exist.")
    if not directory.is_dir():
        raise SavedModelError(
            f"'{directory}' is a file. Pass the SavedModel's folder, which holds saved_model.pb."
        )
    model = saved_model_pb2.SavedModel()
    binary, text = directory / "saved_model.pb", directory / "saved_model.pbtxt"
    try:
        if binary.exists():
            model.ParseFromString(binary.read_bytes())
        elif text.exists():
            text_format.Parse(text.read_text(), model)
        else:
            versions = sorted(p.parent for p in directory.glob("*/saved_model.pb"))
            hint = f" Did you mean '{versions[-1]}'?" if versions else ""
            raise SavedModelError(
                f"'{directory}' is not a SavedModel: it has no saved_model.pb.{hint}"
            )
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        broken = binary if binary.exists() else text
        raise SavedModelError(
            f"'{broken}' can't be parsed: it is damaged or cut short ({broken.stat().st_size} "
            "bytes). Export or copy the model again."
        ) from error
    except OSError as error:
        raise SavedModelError(f"can't read '{directory}': {error.strerror}.") from error
    return model


def read_signatures(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, Signature]:
    """All signatures that can be called, by key."""
    found: dict[str, Signature] = {}
    for name, proto in sorted(meta_graph.signature_def.items()):
        if name == _INIT_SIGNATURE or not proto.outputs:
            continue
        plain = {k: v for k, v in proto.inputs.items() if v.WhichOneof("encoding") == "name"}
        inputs = {key: _tensor_info(info) for key, info in sorted(plain.items())}
        outputs = {
            key: _tensor_info(info)
            for key, info in sorted(proto.outputs.items())
            if info.WhichOneof("encoding") == "name"
        }
        tensors = [f"{key} <- {info.name}" for key, info in sorted(plain.items())]
        for key, info in sorted(proto.outputs.items()):
            tensors += [f"{key} -> {text}" for text in _names(info)]
        composite = tuple(sorted(set(proto.inputs) - set(plain)))
        found[name] = Signature(name, inputs, outputs, tuple(tensors), composite)
    return found


def choose_signatures(
    found: Mapping[str, Signature], wanted: Iterable[str] | None
) -> dict[str, Signature]:
    """The signatures named, or all of them. Raises SignatureError on an unknown name."""
    if not found:
        raise SignatureError(
            "the SavedModel has no signature to call. Save it again with signatures=…, as in "
            "tf.saved_model.save(module, path, signatures={'serving_default': module.function})."
        )
    if wanted is None:
        return dict(found)
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


def keeps_state(meta_graph: meta_graph_pb2.MetaGraphDef, signatures: Iterable[str]) -> bool:
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


def reachable_nodes(
    meta_graph: meta_graph_pb2.MetaGraphDef, signature: str
) -> Iterator[node_def_pb2.NodeDef]:
    """Every node that a call of the signature may run, function bodies included, each once."""
    graph = meta_graph.graph_def
    nodes = {node.name: node for node in graph.node}
    library = {f.signature.name: f for f in graph.library.function}
    proto = meta_graph.signature_def[signature]
    seen: set[str] = set()
    stack = [_node_name(text) for info in proto.outputs.values() for text in _names(info)]
    functions: list[str] = []
    while stack:
        name = stack.pop()
        if name in seen or name not in nodes:
            continue
        seen.add(name)
        yield nodes[name]
        stack.extend(_node_name(text) for text in nodes[name].input)
        functions.extend(_called(nodes[name], library))
    entered: set[str] = set()
    while functions:
        name = functions.pop()
        if name in entered:
            continue
        entered.add(name)
        for node in library[name].node_def:
            yield node
            functions.extend(_called(node, library))


def _called(
    node: node_def_pb2.NodeDef, library: Mapping[str, function_pb2.FunctionDef]
) -> Iterator[str]:
    if node.op in library:
        yield node.op
    for attr in node.attr.values():
        for func in (attr.func, *attr.list.func):
            if func.name in library:
                yield func.name


def _names(info: meta_graph_pb2.TensorInfo) -> list[str]:
    kind = info.WhichOneof("encoding")
    if kind == "coo_sparse":
        sparse = info.coo_sparse
        return [
            sparse.values_tensor_name,
            sparse.indices_tensor_name,
            sparse.dense_shape_tensor_name,
        ]
    if kind == "composite_tensor":
        return [name for part in info.composite_tensor.components for name in _names(part)]
    return [info.name]


def _node_name(text: str) -> str:
    return text.lstrip("^").partition(":")[0]


def _tensor_info(info: meta_graph_pb2.TensorInfo) -> TensorInfo:
    shape: Shape = None
    if not info.tensor_shape.unknown_rank:
        shape = tuple(None if d.size < 0 else d.size for d in info.tensor_shape.dim)
    return TensorInfo(tf.dtypes.as_dtype(info.dtype).base_dtype, shape)
