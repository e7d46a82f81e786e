"""The functions of a TF2 SavedModel's object graph, and what a user can do with them."""

from __future__ import annotations

from dataclasses import dataclass

from tensorflow.core.protobuf import saved_object_graph_pb2, struct_pb2


@dataclass(frozen=True)
class ObjectFunction:
    """A concrete function that hangs on an object.

    Attributes:
      name: of the concrete function in the library.
      path: attribute names from the root, e.g. "signatures/serving_default".
      bookkeeping: Keras keeps it for its own loader; users don't call it to serve.
      training: traced with training=True.
    """

    name: str
    path: str
    bookkeeping: bool
    training: bool

    @property
    def serves(self) -> bool:
        """Whether a user can call it to get answers from the model."""
        return not (self.bookkeeping or self.training)

    @property
    def on_root(self) -> bool:
        """Whether it is called as `loaded.f(…)` or `loaded.signatures[…](…)`."""
        parts = self.path.split("/")
        return len(parts) == 1 or (len(parts) == 2 and parts[0] == "signatures")


def object_functions(
    graph: saved_object_graph_pb2.SavedObjectGraph,
) -> list[ObjectFunction]:
    """Every concrete function an object has as an attribute, in breadth-first order."""
    found: list[ObjectFunction] = []
    paths = {0: ""}
    todo = [0]
    for node_id in todo:
        for child in graph.nodes[node_id].children:
            path = f"{paths[node_id]}/{child.local_name}".lstrip("/")
            node = graph.nodes[child.node_id]
            kind = node.WhichOneof("kind")
            if kind == "function":
                bookkeeping = _is_bookkeeping(path)
                for name in node.function.concrete_functions:
                    training = _is_training(node.function, graph.concrete_functions[name])
                    found.append(ObjectFunction(name, path, bookkeeping, training))
            elif kind == "bare_concrete_function":
                name = node.bare_concrete_function.concrete_function_name
                found.append(ObjectFunction(name, path, _is_bookkeeping(path), False))
            elif child.node_id not in paths:
                paths[child.node_id] = path
                todo.append(child.node_id)
    return found


def _is_bookkeeping(path: str) -> bool:
    parts = path.split("/")
    name = parts[-1]
    return (
        "keras_api" in parts
        or name.startswith("call_and_return")
        # Methods of a lookup table or asset: TensorFlow calls them itself.
        or name in ("_create_resource", "_initialize", "_destroy_resource")
    )


def _is_training(
    function: saved_object_graph_pb2.SavedFunction,
    concrete: saved_object_graph_pb2.SavedConcreteFunction,
) -> bool:
    """Whether the concrete function was traced for the literal argument training=True."""
    args, kwargs = _arguments(concrete.canonicalized_input_signature)
    if kwargs is not None and "training" in kwargs.fields:
        return kwargs.fields["training"].bool_value
    spec = function.function_spec.fullargspec.named_tuple_value.values
    names = next(
        ([v.string_value for v in p.value.list_value.values] for p in spec if p.key == "args"), []
    )
    if names and function.function_spec.is_method:
        names = names[1:]
    if "training" not in names or args is None:
        return False
    index = names.index("training")
    return index < len(args.values) and args.values[index].bool_value


def _arguments(
    signature: struct_pb2.StructuredValue,
) -> tuple[struct_pb2.TupleValue | None, struct_pb2.DictValue | None]:
    if signature.WhichOneof("kind") != "tuple_value" or len(signature.tuple_value.values) != 2:
        return None, None
    args, kwargs = signature.tuple_value.values
    return args.tuple_value, kwargs.dict_value
