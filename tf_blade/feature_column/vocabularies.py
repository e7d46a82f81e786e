"""What is in a model's lookup tables, as far as it is known before serving.

A table counts as known if it is an immutable HashTable of strings or i64 to i64, one op fills it,
and that op takes constants or a text file among the model's assets. Every find of such a table is
the same in every process that loads the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from tf_blade.feature_column.spec import Vocabulary
from tf_blade.graph.constants import const_value
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.types import ARG
from tf_blade.saved_model.bindings import Bindings, Source, main_source, resource_origin
from tf_blade.saved_model.writes import resource_name

if TYPE_CHECKING:
    from tf_blade.saved_model.bundle import MetaGraph
    from tf_blade.saved_model.regions import Region

# Keys become hash tables in executables, several times as large and once for each CPU target, and
# those are in saved_model.pb. 4 MB of keys, about 300,000, are 14 MB there for each target.
MAX_KEY_BYTES = 4 << 20
MAX_MODEL_BYTES = 16 << 20

_TABLES = ("HashTableV2", "HashTable")
_IMPORTS = ("LookupTableImportV2", "LookupTableImport", "InitializeTableV2", "InitializeTable")
_FILES = ("InitializeTableFromTextFileV2", "InitializeTableFromTextFile")


class Vocabularies:
    """Contents of the lookup tables of one MetaGraph."""

    def __init__(self, meta: MetaGraph, export_dir: str) -> None:
        """Args:
        meta: the MetaGraph.
        export_dir: the SavedModel's folder, for its assets.
        """
        self._meta = meta
        self._assets = os.path.join(export_dir, "assets")
        self._main = meta.main
        self._bindings = Bindings(dict(meta.library), self._main, meta.object_graph)
        self._known: dict[Source, Vocabulary | None] = {}
        self._left = MAX_MODEL_BYTES
        self._fills: dict[str, list[Node]] = {}  # of the main graph's tables, by resource name
        for node in self._main:
            if node.op in _IMPORTS + _FILES:
                table = self._main.nodes[resource_origin(self._main, node.inputs[0]).node]
                if table.op in _TABLES:
                    self._fills.setdefault(resource_name(table), []).append(node)

    def of_region(self, region: Region, graph: Graph) -> Callable[[TensorRef], Vocabulary | None]:
        """A function that gives the contents of the table behind a resource tensor.

        Args:
          region: where the tensor is.
          graph: the region's graph, perhaps after passes.
        """
        bound = self._bindings.of(region.function) if region.function else {}

        def vocabulary_of(ref: TensorRef) -> Vocabulary | None:
            node = graph.nodes[resource_origin(graph, ref).node]
            if node.op == ARG:
                source = bound.get(node.name)
            elif node.op in _TABLES:
                source = Source("node", resource_name(node))
            else:
                source = None
            return None if source is None else self._of_source(source)

        return vocabulary_of

    def _of_source(self, source: Source) -> Vocabulary | None:
        if source not in self._known:
            if source.kind == "object":
                found = self._of_object(int(source.name))
            else:
                node = self._main.nodes.get(source.name)
                name = resource_name(node) if node is not None else source.name
                found = self._of_name(name)
            size = 0 if found is None else _key_bytes(found.keys)
            self._known[source] = found if size <= self._left else None
            self._left -= size if size <= self._left else 0
        return self._known[source]

    # -- TF1: ops of the main graph ---------------------------------------------------------

    def _of_name(self, name: str) -> Vocabulary | None:
        """Contents of the main graph's table of that resource name."""
        found = self._fills.get(name, [])
        # Columns that share a vocabulary fill one table several times, with the same.
        filled = [self._filled(n, lambda ref: main_source(self._main, ref)) for n in found]
        return filled[0] if filled and all(item == filled[0] for item in filled) else None

    # -- TF2: objects -----------------------------------------------------------------------

    def _of_object(self, node_id: int) -> Vocabulary | None:
        graph = self._meta.object_graph
        assert graph is not None
        methods = {c.local_name: c.node_id for c in graph.nodes[node_id].children}
        create = self._body(methods.get("_create_resource"))
        fill = self._body(methods.get("_initialize"))
        if create is None or fill is None or not any(n.op in _TABLES for n in create):
            return None
        bound = self._bindings.of(fill.name)

        def source_of(ref: TensorRef) -> object:
            return bound.get(resource_origin(fill, ref).node)

        found = [n for n in fill if n.op in _IMPORTS + _FILES]
        if len(found) != 1 or source_of(found[0].inputs[0]) != Source("object", str(node_id)):
            return None
        return self._filled(found[0], source_of, fill)

    def _body(self, node_id: int | None) -> Graph | None:
        """The body of the only concrete function of an object-graph node."""
        graph = self._meta.object_graph
        if node_id is None or graph is None:
            return None
        names = graph.nodes[node_id].function.concrete_functions
        if len(names) != 1 or names[0] not in self._meta.library:
            return None
        return Graph.from_function_def(self._meta.library[names[0]], self._meta.library)

    # -- what fills them --------------------------------------------------------------------

    def _filled(
        self,
        node: Node,
        source_of: Callable[[TensorRef], object],
        body: Graph | None = None,
    ) -> Vocabulary | None:
        graph = body or self._main
        if node.op in _FILES:
            path = self._asset(source_of(node.inputs[1]))
            return None if path is None else _from_file(node, path)
        arrays = []
        for ref in node.inputs[1:]:
            array = _computed(graph, resource_origin(graph, ref))
            arrays.append(self._constant(source_of(ref)) if array is None else array)
        if len(arrays) != 2 or arrays[0] is None or arrays[1] is None:
            return None
        return _vocabulary(arrays[0], arrays[1])

    def _constant(self, source: object) -> np.ndarray | None:
        name = self._constant_name(source)
        return const_value(self._main.nodes[name]) if name in self._main.nodes else None

    def _constant_name(self, source: object) -> str:
        if not isinstance(source, Source):
            return ""
        if source.kind == "node":
            return source.name
        graph = self._meta.object_graph
        assert graph is not None
        node = graph.nodes[int(source.name)]
        return node.constant.operation if node.WhichOneof("kind") == "constant" else ""

    def _asset(self, source: object) -> str | None:
        """Path of the asset file that a tensor names."""
        if not isinstance(source, Source):
            return None
        files = {
            item.tensor_info.name.partition(":")[0]: item.filename for item in self._asset_files()
        }
        if source.kind == "node":
            name = files.get(source.name)
        else:
            graph = self._meta.object_graph
            assert graph is not None
            node = graph.nodes[int(source.name)]
            if node.WhichOneof("kind") != "asset":
                return None
            name = self._meta.proto.asset_file_def[node.asset.asset_file_def_index].filename
            name = os.path.basename(name)
        path = None if name is None else os.path.join(self._assets, name)
        return path if path is not None and os.path.isfile(path) else None

    def _asset_files(self) -> list[meta_graph_pb2.AssetFileDef]:
        found = list(self._meta.proto.asset_file_def)
        collection = self._meta.proto.collection_def.get("saved_model_assets")
        for item in collection.any_list.value if collection is not None else ():
            asset = meta_graph_pb2.AssetFileDef()
            if item.Unpack(asset):
                found.append(asset)
        return found


def _computed(graph: Graph, ref: TensorRef) -> np.ndarray | None:
    """The value of a Const, or of what vocabulary lists make of Consts: Cast(Range(Const …))."""
    node = graph.nodes[ref.node]
    if node.op not in ("Cast", "Range"):
        return const_value(node)
    inputs = [_computed(graph, item) for item in node.inputs]
    if any(item is None for item in inputs):
        return None
    if node.op == "Range":
        return np.arange(*(item.item() for item in inputs if item is not None))
    assert inputs[0] is not None
    return inputs[0].astype(tf.as_dtype(node.attrs["DstT"].type).as_numpy_dtype)


def _from_file(node: Node, path: str) -> Vocabulary | None:
    """Contents of a text file, as TensorFlow reads it."""
    if os.path.getsize(path) > MAX_KEY_BYTES:
        return None
    attrs = node.attrs
    size = attrs["vocab_size"].i
    initialiser = tf.lookup.TextFileInitializer(
        path,
        tf.string,
        attrs["key_index"].i,
        tf.int64,
        attrs["value_index"].i,
        vocab_size=size if size > 0 else None,
        delimiter=attrs["delimiter"].s.decode(),
        value_index_offset=attrs["offset"].i if "offset" in attrs else 0,
    )
    try:
        with tf.init_scope(), tf.device("CPU"):
            keys, values = tf.lookup.StaticHashTable(initialiser, -1).export()
    except tf.errors.OpError:
        return None  # so is loading the model
    order = np.argsort(values.numpy())
    return _vocabulary(keys.numpy()[order], values.numpy()[order])


def _vocabulary(keys: np.ndarray, values: np.ndarray) -> Vocabulary | None:
    if keys.ndim != 1 or keys.shape != values.shape or values.dtype != np.int64:
        return None
    if keys.dtype not in (np.dtype(object), np.dtype(np.int64)):
        return None
    listed = keys.tolist()
    if _key_bytes(listed) > MAX_KEY_BYTES or len(set(listed)) != len(listed):
        return None
    in_order = np.array_equal(values, np.arange(len(listed)))
    return Vocabulary(tuple(listed), () if in_order else tuple(values.tolist()))


def _key_bytes(keys: Sequence[bytes] | Sequence[int]) -> int:
    return sum(len(key) if isinstance(key, bytes) else 8 for key in keys)
