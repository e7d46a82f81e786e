"""Names of nodes that a MetaGraph mentions outside its graph; those nodes must not vanish."""

from __future__ import annotations

from collections.abc import Container, Iterator

from google.protobuf.message import DecodeError, Message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.framework import ops

# Importing them registers the protos of the collections that describe v1 loops and variables.
from tensorflow.python.ops import control_flow_ops, variables  # noqa: F401


def mentioned_nodes(proto: meta_graph_pb2.MetaGraphDef, nodes: Container[str]) -> set[str]:
    """Those of `nodes` that signatures, collections, the saver or assets refer to by name."""
    texts: set[str] = set()
    for signature in proto.signature_def.values():
        texts.update(_strings(signature))
    texts.update(_strings(proto.saver_def))
    for asset in proto.asset_file_def:
        texts.update(_strings(asset))
    for key, collection in proto.collection_def.items():
        kind = collection.WhichOneof("kind")
        if kind == "node_list":
            texts.update(collection.node_list.value)
        elif kind == "bytes_list":
            texts.update(_bytes_collection(key, collection))
        elif kind == "any_list":
            for item in collection.any_list.value:
                texts.update(_any(item))
    names = {text.lstrip("^").partition(":")[0] for text in texts}
    return {name for name in names if name in nodes}


def _bytes_collection(key: str, collection: meta_graph_pb2.CollectionDef) -> Iterator[str]:
    proto_type = ops.get_collection_proto_type(key)
    if proto_type is None:
        return
    for data in collection.bytes_list.value:
        try:
            yield from _strings(proto_type.FromString(data))
        except DecodeError:  # a collection of another kind under a known key
            continue


def _any(item) -> Iterator[str]:  # type: ignore[no-untyped-def]
    asset = meta_graph_pb2.AssetFileDef()
    if item.Unpack(asset):
        yield from _strings(asset)


def _strings(message: Message) -> Iterator[str]:
    """Every string anywhere in a proto."""
    for descriptor, value in message.ListFields():
        is_map = (
            descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry
        )
        items = list(value.values()) if is_map else value if _repeated(value) else [value]
        if is_map:
            yield from (key for key in value if isinstance(key, str))
        for item in items:
            if isinstance(item, Message):
                yield from _strings(item)
            elif isinstance(item, str):
                yield item


def _repeated(value: object) -> bool:
    return not isinstance(value, str | bytes | Message) and hasattr(value, "__len__")
