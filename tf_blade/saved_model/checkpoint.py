"""Reads variables' values from a SavedModel's checkpoint, one at a time and only when asked."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_object_graph_pb2, trackable_object_graph_pb2

from tf_blade.errors import SavedModelError
from tf_blade.saved_model import tensor_bundle

_OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Checkpoint:
    """The checkpoint under `variables/`. Keys are the names tensors were saved under."""

    def __init__(self, prefix: str) -> None:
        """Opens the checkpoint and checks that no file of it is missing or truncated.

        Raises SavedModelError.
        """
        try:
            tensor_bundle.check(prefix)
            self._reader = tf.train.load_checkpoint(prefix)
        except (tensor_bundle.BundleError, OSError, tf.errors.OpError, ValueError) as error:
            raise SavedModelError(
                f"the variables of the SavedModel can't be read: {error}. "
                "Copy or export the model again."
            ) from error
        self._shapes = self._reader.get_variable_to_shape_map()
        self._dtypes = self._reader.get_variable_to_dtype_map()

    def __contains__(self, key: str) -> bool:
        return key in self._shapes

    def shape(self, key: str) -> tuple[int, ...]:
        return tuple(self._shapes[key])

    def dtype(self, key: str) -> tf.DType:
        return self._dtypes[key]

    def read(self, key: str) -> np.ndarray:
        """The whole tensor; reads the file on every call."""
        return np.asarray(self._reader.get_tensor(key))

    def object_keys(self, saved: saved_object_graph_pb2.SavedObjectGraph) -> dict[int, str]:
        """Checkpoint keys of a TF2 model's variables, by their node id in the SavedObjectGraph.

        The checkpoint's own object graph numbers its nodes differently: both are walked from the
        root along equal child names, as TensorFlow does when it restores.
        """
        if _OBJECT_GRAPH_KEY not in self:
            return {}
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        graph.ParseFromString(self._reader.get_tensor(_OBJECT_GRAPH_KEY))
        keys: dict[int, str] = {}
        seen = {0}
        todo = [(0, 0)]
        while todo:
            saved_id, checkpoint_id = todo.pop()
            node = graph.nodes[checkpoint_id]
            for attribute in node.attributes:
                if attribute.name == "VARIABLE_VALUE" and attribute.checkpoint_key in self:
                    keys[saved_id] = attribute.checkpoint_key
            children = {child.local_name: child.node_id for child in node.children}
            for child in saved.nodes[saved_id].children:
                if child.local_name in children and child.node_id not in seen:
                    seen.add(child.node_id)
                    todo.append((child.node_id, children[child.local_name]))
        return keys


def open_checkpoint(export_dir: str) -> Checkpoint | None:
    """The model's checkpoint, or None for a model without variables. Raises SavedModelError."""
    folder = os.path.join(export_dir, "variables")
    prefix = os.path.join(folder, "variables")
    if os.path.isfile(f"{prefix}.index"):
        return Checkpoint(prefix)
    if os.path.isdir(folder) and any(n.startswith("variables.data") for n in os.listdir(folder)):
        raise SavedModelError(
            f"'{prefix}.index' is missing, though the data file beside it is there. "
            "Copy or export the model again."
        )
    return None
