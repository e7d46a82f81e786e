"""A SavedModel in memory: its protos, open for editing, and the way back to disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from functools import cached_property

from tensorflow.core.framework import function_pb2, graph_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2, saved_object_graph_pb2

from tf_blade.errors import SavedModelError, SignatureError
from tf_blade.graph.graph import Graph, GraphError
from tf_blade.saved_model.checkpoint import Checkpoint
from tf_blade.saved_model.gradients import drop_broken_gradients
from tf_blade.saved_model.reachable import reachable_functions
from tf_blade.saved_model.regions import Region, find_regions
from tf_blade.saved_model.signatures import Signature, read_signatures

# protobuf cannot serialise more.
_MAX_PROTO_BYTES = 2**31 - 1
_PROTO_FILES = ("saved_model.pb", "saved_model.pbtxt")


class MetaGraph:
    """One MetaGraph of a SavedModel.

    Attributes:
      proto: the whole MetaGraphDef. Its function library is replaced by `library` on writing.
      tags: e.g. ("serve",).
      signatures: by name, without TensorFlow's init and train ops.
      library: functions by name; edit this.
      checkpoint: of the SavedModel, shared by its MetaGraphs; None without variables.
    """

    def __init__(self, proto: meta_graph_pb2.MetaGraphDef, checkpoint: Checkpoint | None) -> None:
        self.proto = proto
        self.tags = tuple(proto.meta_info_def.tags)
        self.checkpoint = checkpoint
        self.library: dict[str, function_pb2.FunctionDef] = {
            f.signature.name: f for f in proto.graph_def.library.function
        }
        # Nothing refers to them, yet they came with the model: they stay, with what they call.
        self._unused = set(self.library) - reachable_functions(proto, self.library)

    @cached_property
    def signatures(self) -> dict[str, Signature]:
        return read_signatures(self.proto)

    @cached_property
    def main(self) -> Graph:
        """The main graph as it was read; look at it, edit regions."""
        graph = Graph.from_graph_def(self.proto.graph_def)
        graph.library = self.library
        return graph

    @property
    def graph_def(self) -> graph_pb2.GraphDef:
        return self.proto.graph_def

    @property
    def object_graph(self) -> saved_object_graph_pb2.SavedObjectGraph | None:
        """The object graph of a TF2 model, None for the TF1 format."""
        return self.proto.object_graph_def if len(self.proto.object_graph_def.nodes) else None

    def store_library(self) -> None:
        """Puts `library` into the proto, without functions that the edits left unreachable."""
        if not self.library:
            return  # not even an empty library is added
        drop_broken_gradients(self.proto, self.library)
        used = reachable_functions(self.proto, self.library, self._unused)
        kept = [fdef for name, fdef in self.library.items() if name in used]
        library = self.proto.graph_def.library
        del library.function[:]
        library.function.extend(kept)
        self.library.clear()
        self.library.update({f.signature.name: f for f in library.function})


class Bundle:
    """A SavedModel read by `saved_model.read`."""

    def __init__(
        self,
        export_dir: str,
        proto: saved_model_pb2.SavedModel,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.export_dir = export_dir
        self.proto = proto
        self.checkpoint = checkpoint
        self.meta_graphs = [MetaGraph(meta, checkpoint) for meta in proto.meta_graphs]

    def regions(
        self, signatures: Iterable[str] | None = None, tags: Iterable[str] | None = None
    ) -> list[Region]:
        """What can be optimised: function bodies and main graphs that answers are computed in.

        Args:
          signatures: only what these signatures run; default: everything a user can call.
          tags: only the MetaGraph with these tags; default: all.

        Raises SignatureError if no MetaGraph has one of the signatures, SavedModelError if a graph
        names nodes that don't exist.
        """
        wanted = None if signatures is None else set(signatures)
        if wanted is not None:
            known = {name for meta in self.meta_graphs for name in meta.signatures}
            for name in sorted(wanted - known):
                raise SignatureError(
                    f"the model has no signature '{name}' (has: {', '.join(sorted(known))})."
                )
        chosen = [m for m in self.meta_graphs if tags is None or set(m.tags) == set(tags)]
        try:
            return [region for meta in chosen for region in find_regions(meta, wanted)]
        except GraphError as error:
            raise SavedModelError(
                f"the graph of '{self.export_dir}' doesn't hold together: {error}. "
                "TensorFlow can't load it either; export the model again."
            ) from error

    def proto_bytes(self) -> int:
        """Size of saved_model.pb as it would be written now."""
        self._store()
        return self.proto.ByteSize()

    def write(self, export_dir: str) -> None:
        """Writes the SavedModel with its edits; everything but saved_model.pb is carried.

        Other files are hard links where the file system allows it, copies otherwise; links are
        followed, so the result doesn't need the original. The folder must be absent or empty.

        Raises SavedModelError if the proto would pass protobuf's 2 GB.
        """
        self._store()
        size = self.proto.ByteSize()
        if size > _MAX_PROTO_BYTES:
            raise SavedModelError(
                f"saved_model.pb would have {size} bytes; protobuf allows {_MAX_PROTO_BYTES}. "
                "Freeze fewer or smaller variables."
            )
        os.makedirs(export_dir, exist_ok=True)
        if os.listdir(export_dir):
            raise SavedModelError(f"'{export_dir}' is not empty")
        _carry_files(self.export_dir, export_dir)
        with open(os.path.join(export_dir, "saved_model.pb"), "wb") as file:
            file.write(self.proto.SerializeToString(deterministic=True))

    def _store(self) -> None:
        for meta in self.meta_graphs:
            meta.store_library()


def _carry_files(source_dir: str, target_dir: str) -> None:
    seen = {os.path.realpath(target_dir)}  # which may lie within the source
    for folder, folders, files in os.walk(source_dir, followlinks=True):
        inner = {name: os.path.realpath(os.path.join(folder, name)) for name in folders}
        folders[:] = [name for name in folders if inner[name] not in seen]
        seen.update(inner.values())
        relative = os.path.relpath(folder, source_dir)
        target = os.path.normpath(os.path.join(target_dir, relative))
        os.makedirs(target, exist_ok=True)
        for name in files:
            if relative == "." and name in _PROTO_FILES:
                continue
            source = os.path.realpath(os.path.join(folder, name))
            try:
                os.link(source, os.path.join(target, name))
            except OSError:  # another file system, or one without hard links
                shutil.copyfile(source, os.path.join(target, name))
