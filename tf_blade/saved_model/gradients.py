"""Custom gradients whose tensors the edits have removed.

A SavedModel holds the gradient functions of `tf.custom_gradient` (in `tf.nn.silu`, for example),
and its object graph names the tensors of the forward function that they capture. TensorFlow's
loader looks these up, and fails if one is gone. An optimised model is served, not trained, and its
clusters have no gradients: gradient functions that lack a tensor go, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow.core.framework import function_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_object_graph_pb2

# What stands for an object that nothing refers to; objects are numbered, so none can be left out.
_PLACEHOLDER = saved_object_graph_pb2.SavedUserObject(identifier="_generic_user_object")
_PLACEHOLDER.version.producer = _PLACEHOLDER.version.min_consumer = 1


def drop_broken_gradients(
    proto: meta_graph_pb2.MetaGraphDef, library: Mapping[str, function_pb2.FunctionDef]
) -> None:
    """Removes gradient functions that capture tensors which `library`'s functions lack.

    Edits the object graph and the registrations of `proto`, and the nodes of both that name a
    removed gradient; the gradient functions themselves are unreachable then.
    """
    objects = proto.object_graph_def
    lost = {i for i, node in enumerate(objects.nodes) if _is_lost(node, library)}
    if not lost:
        return
    for i in lost:
        objects.nodes[i].user_object.CopyFrom(_PLACEHOLDER)
    broken = {
        name
        for name, function in objects.concrete_functions.items()
        if not lost.isdisjoint(function.bound_inputs)
    }
    for name in broken:
        del objects.concrete_functions[name]
    registered = proto.graph_def.library.registered_gradients
    op_types = {g.registered_op_type.encode() for g in registered if g.gradient_func in broken}
    kept = [gradient for gradient in registered if gradient.gradient_func not in broken]
    del registered[:]
    registered.extend(kept)
    for nodes in (proto.graph_def.node, *(fdef.node_def for fdef in library.values())):
        for node in nodes:
            if "_gradient_op_type" in node.attr and node.attr["_gradient_op_type"].s in op_types:
                del node.attr["_gradient_op_type"]


def _is_lost(
    node: saved_object_graph_pb2.SavedObject, library: Mapping[str, function_pb2.FunctionDef]
) -> bool:
    """Whether it is a tensor of a function that has no such node or argument any more."""
    if node.WhichOneof("kind") != "captured_tensor":
        return False
    function = library.get(node.captured_tensor.concrete_function)
    if function is None:
        return True
    name = node.captured_tensor.name.partition(":")[0]
    arguments = (arg.name for arg in function.signature.input_arg)
    return name not in arguments and all(name != node.name for node in function.node_def)
