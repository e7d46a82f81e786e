"""A cluster as a SavedModel of its own, in TF1 format: it loads without this package.

Arguments that are the same tensor in every call are Const nodes in it, as in the model that the
cluster was cut from, so that TensorFlow can do with them what it did there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from tf_blade.clustering.replace import Call, blade_cluster_node
from tf_blade.dump.layout import SIGNATURE
from tf_blade.graph.calls import called_functions
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import ARG

TAGS = ("serve",)

Constants = Mapping[str, tensor_pb2.TensorProto]  # by the argument's name


def save_nodes(
    folder: Path,
    function: Graph,
    types: Types,
    constants: Constants,
    outputs: Sequence[tuple[str, TensorRef]] | None = None,
) -> None:
    """Writes TensorFlow's own nodes.

    Args:
      folder: of the SavedModel; absent or empty.
      function: the cluster's body.
      types: of its tensors.
      constants: values of the arguments that are constants. The others are the signature's inputs.
      outputs: the signature's outputs; None: the function's.
    """
    graph = _with_arguments(function, types, constants)
    for node in function:
        if node.op != ARG:
            graph.nodes[node.name] = node
    graph_def = graph.to_graph_def()
    for name in called_functions(graph):
        graph_def.library.function.add().CopyFrom(function.library[name])
    chosen = list(function.outputs if outputs is None else outputs)
    _save(folder, graph_def, function, types, constants, chosen)


def save_compiled(
    folder: Path, function: Graph, types: Types, constants: Constants, executable: bytes
) -> None:
    """Writes a BladeCluster node with this executable; its fallback is the function."""
    graph = _with_arguments(function, types, constants)
    arguments = function.args
    results = [types[ref] for _, ref in function.outputs]
    node = blade_cluster_node(
        Call(
            name=graph.unique_name("blade_cluster"),
            cluster="replay",
            fallback=function.name,
            inputs=[TensorRef(arg.name) for arg in arguments],
            controls=[],
            device="",
            input_dtypes=[arg.attrs["T"].type for arg in arguments],
            output_dtypes=[info.dtype.as_datatype_enum for info in results],
            output_shapes=[info.shape for info in results],
            constant_inputs=[i for i, arg in enumerate(arguments) if arg.name in constants],
            executable=executable,
        )
    )
    graph.nodes[node.name] = node
    graph_def = graph.to_graph_def()
    graph_def.library.function.add().CopyFrom(function.to_function_def())
    for name in called_functions(function):
        graph_def.library.function.add().CopyFrom(function.library[name])
    made = [(name, TensorRef(node.name, i)) for i, (name, _) in enumerate(function.outputs)]
    found = dict(types)
    for (_, ref), info in zip(made, results, strict=True):
        found[ref] = info
    _save(folder, graph_def, function, found, constants, made)


def _with_arguments(function: Graph, types: Types, constants: Constants) -> Graph:
    """A main graph with a node for each argument."""
    graph = Graph("", function.library)
    for arg in function.args:
        dtype = attr_value_pb2.AttrValue(type=arg.attrs["T"].type)
        if arg.name in constants:
            value = attr_value_pb2.AttrValue(tensor=constants[arg.name])
            attrs = {"dtype": dtype, "value": value}
            graph.nodes[arg.name] = Node(arg.name, "Const", attrs=attrs)
        else:
            shape = tf.TensorShape(types[TensorRef(arg.name)].shape).as_proto()
            attrs = {"dtype": dtype, "shape": attr_value_pb2.AttrValue(shape=shape)}
            graph.nodes[arg.name] = Node(arg.name, "Placeholder", attrs=attrs)
    return graph


def _save(
    folder: Path,
    graph_def: graph_pb2.GraphDef,
    function: Graph,
    types: Types,
    constants: Constants,
    outputs: Sequence[tuple[str, TensorRef]],
) -> None:
    graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.extend(TAGS)
    meta.meta_info_def.tensorflow_version = tf.__version__
    meta.graph_def.CopyFrom(graph_def)
    signature = meta.signature_def[SIGNATURE]
    signature.method_name = "tensorflow/serving/predict"
    for arg in function.args:
        if arg.name not in constants:
            _describe(signature.inputs[arg.name], TensorRef(arg.name), types)
    for name, ref in outputs:
        _describe(signature.outputs[name], ref, types)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString(deterministic=True))


def _describe(info: meta_graph_pb2.TensorInfo, ref: TensorRef, types: Types) -> None:
    info.name = str(ref)
    info.dtype = types_pb2.DataType.ValueType(types[ref].dtype.as_datatype_enum)
    info.tensor_shape.CopyFrom(tf.TensorShape(types[ref].shape).as_proto())
