"""Small SavedModels of columns, and what recognition makes of them, for the tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_blade import passes, saved_model
from tf_blade.feature_column import raising
from tf_blade.feature_column.build import Found
from tf_blade.feature_column.recognise import found_in
from tf_blade.feature_column.reference import Refused, evaluate
from tf_blade.feature_column.vocabularies import Vocabularies
from tf_blade.graph.graph import Graph, Node, TensorRef
from tf_blade.graph.types import ARG
from tf_blade.report import ColumnReport

v1 = tf.compat.v1
fc = tf.feature_column
Feeds = Mapping[str, Any]


def v1_model(path: str, features: Mapping[str, Any], build: Callable[[dict], Any]) -> None:
    """Writes a TF1 graph; features are name: (dtype, shape or "sparse")."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        inputs: dict[str, Any] = {}
        for name, (dtype, shape) in features.items():
            if shape == "sparse":
                inputs[name] = v1.sparse_placeholder(dtype, [None, None], name)
            else:
                inputs[name] = v1.placeholder(dtype, shape, name)
        outputs = build(inputs)
        if not isinstance(outputs, dict):
            outputs = {"y": outputs}
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        rng = np.random.default_rng(3)
        for variable in v1.global_variables():  # a linear model's weights start as zeros
            variable.load(rng.normal(size=variable.shape).astype(np.float32), session)
        v1.saved_model.simple_save(
            session,
            path,
            inputs,
            outputs,
            legacy_init_op=v1.tables_initializer(),
        )


def input_layer(path: str, features: Mapping[str, Any], columns: Callable[[], list]) -> None:
    """Writes a model whose answer is what tf.feature_column makes of its inputs."""
    v1_model(path, features, lambda f: v1.feature_column.input_layer(f, columns()))


def function_model(path: str, function: Callable, *signature: Any, **objects: Any) -> None:
    """Writes a TF2 model of one traced function; objects are what it uses."""
    module = tf.Module()
    for name, value in objects.items():
        setattr(module, name, value)
    module.f = tf.function(function, input_signature=signature)
    tf.saved_model.save(module, path, signatures=module.f.get_concrete_function())


@dataclass
class Case:
    """A SavedModel after the passes that come before raising."""

    path: str
    bundle: saved_model.Bundle
    region: saved_model.Region
    graph: Graph
    context: passes.PassContext
    found: list[Found]
    excluded: dict[str, str]
    vocabulary_of: Callable

    @classmethod
    def load(cls, path: str, freeze: bool = True, **keywords: Any) -> Case:
        bundle = saved_model.read(path)
        region = bundle.regions(["serving_default"])[0]
        budget = passes.FreezeBudget() if freeze else passes.FreezeBudget(per_variable=0)
        context = passes.PassContext(region.variables, region.arg_shapes, budget)
        graph = passes.run(region.graph, context)
        vocabularies = Vocabularies(bundle.meta_graphs[0], path).of_region(region, graph)
        if not keywords.get("vocabularies", True):
            vocabularies = lambda _: None  # noqa: E731
        excluded = raising.excluded_nodes(graph, context)
        types = context.types(graph)
        graph, values = raising.prepare(graph, types, context, vocabularies, excluded)
        found = found_in(values).lookups
        return cls(path, bundle, region, graph, context, found, excluded, vocabularies)

    def ask(self, feeds: Feeds) -> dict[str, np.ndarray]:
        """TensorFlow's answers by output name."""
        return ask(self.path, feeds)

    def check(self, feeds: Feeds, rtol: float = 1e-5) -> int:
        """Compares the model's answers with those made of the reference's lookups.

        Returns: how many lookups the reference refused, to which the original answers.
        """
        arrays, refused = self._run(feeds)
        expected = self.ask(feeds)
        for name, value in arrays.items():
            matches = [e for e in expected.values() if e.shape == value.shape]
            assert any(
                np.allclose(e, value, rtol=rtol, atol=1e-6, equal_nan=True) for e in matches
            ), f"{name}: {value} is none of {expected}"
        return refused

    def _run(self, feeds: Feeds) -> tuple[dict[str, np.ndarray], int]:
        graph_def = self.graph.to_graph_def()
        graph_def.library.function.extend(self.graph.library.values())
        for node in graph_def.node:
            if node.op == ARG:
                dtype = node.attr["T"].type
                node.op = "Placeholder"
                node.attr.clear()
                node.attr["dtype"].type = dtype
        graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
        refused = 0
        imported = tf.Graph()
        with imported.as_default():
            tf.graph_util.import_graph_def(graph_def, name="")
        session = v1.Session(graph=imported)
        fed = dict(_feed_tensors(self, feeds))
        replaced: dict[str, np.ndarray] = {}
        for found in self.found:
            wanted = [ref for ref in found.inputs if not self._variable(ref)]
            values = dict(zip(wanted, session.run([str(r) for r in wanted], fed), strict=True))
            inputs = [
                values[ref] if ref in values else self._variable(ref).value()
                for ref in found.inputs
            ]
            try:
                results = evaluate(found.lookup, inputs)
            except Refused:
                refused += 1
                continue
            replaced.update({str(r): v for r, v in zip(found.outputs, results, strict=True)})
        outputs = [str(ref) for _, ref in self.graph.outputs]
        run = session.run(outputs, {**fed, **replaced})
        return dict(zip(outputs, run, strict=True)), refused

    def _variable(self, ref: TensorRef) -> Any:
        variable = self.context.variables.get(ref.node)
        return variable if variable is not None and variable.handle else None

    def raised(self, path: str, **keywords: Any) -> tuple[str, list[ColumnReport], Graph]:
        """Writes the raised model."""
        types = self.context.types(self.graph)
        graph, columns = raising.raise_lookups(
            self.graph, types, self.context, self.vocabulary_of, **keywords
        )
        self.region.replace(graph)
        self.bundle.write(path)
        return path, columns, graph


def run_fallback(call: raising.LookupCall) -> Node:
    """A node that runs the fallback, for tests of the graph alone."""
    attr = attr_value_pb2.AttrValue
    attrs = {
        "f": attr(func=attr_value_pb2.NameAttrList(name=call.fallback)),
        "Tin": attr(list=attr.ListValue(type=call.input_dtypes)),
        "Tout": attr(list=attr.ListValue(type=call.output_dtypes)),
        **{key: attr(s=b"") for key in ("config", "config_proto", "executor_type")},
    }
    return Node(call.name, "PartitionedCall", list(call.inputs), [], attrs)


def _feed_tensors(case: Case, feeds: Feeds) -> Sequence[tuple[str, Any]]:
    """Feeds by tensor name of the region's graph."""
    signature = case.bundle.meta_graphs[0].signatures["serving_default"]
    found: list[tuple[str, Any]] = []
    for name, value in feeds.items():
        info = signature.inputs[name]
        parts = [value.indices, value.values, value.dense_shape] if _is_sparse(value) else [value]
        if case.region.function:
            names = [name]
            if _is_sparse(value):
                names = [name, f"{name}_1", f"{name}_2"]
        else:
            order = list(info.tensors)
            if len(order) == 3:  # values, indices, shape in the signature's proto
                order = [_named(order, "indices"), _named(order, "values"), _named(order, "shape")]
            names = [text.partition(":")[0] for text in order]
        for part_name, part in zip(names, parts, strict=True):
            node = part_name if part_name in case.graph.nodes else f"{part_name}/fed"
            if node in case.graph.nodes:
                found.append((f"{node}:0", np.asarray(part)))
    return found


def _named(names: Sequence[str], word: str) -> str:
    return next(name for name in names if word in name)


def _is_sparse(value: Any) -> bool:
    return isinstance(value, tf.SparseTensor | tf.compat.v1.SparseTensorValue)


def ask(path: str, feeds: Feeds) -> dict[str, np.ndarray]:
    """Answers of a SavedModel's signature."""
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        meta = v1.saved_model.load(session, ["serve"], path)
        signature = meta.signature_def["serving_default"]
        fed: dict[str, Any] = {}
        for name, value in feeds.items():
            info = signature.inputs[name]
            if _is_sparse(value):
                coo = info.coo_sparse
                names = [coo.indices_tensor_name, coo.values_tensor_name]
                names.append(coo.dense_shape_tensor_name)
                if not coo.values_tensor_name:  # a function's: three plain inputs
                    names = [signature.inputs[n].name for n in (name, f"{name}_1", f"{name}_2")]
                parts = (value.indices, value.values, value.dense_shape)
                fed.update({n: np.asarray(p) for n, p in zip(names, parts, strict=True)})
            else:
                fed[info.name] = value
        outputs = {key: info.name for key, info in signature.outputs.items()}
        return session.run(outputs, fed)


def strings(values: Any) -> np.ndarray:
    return np.array(values, object)


def sparse(rows: Sequence[Sequence[Any]], dtype: Any = np.int64) -> tf.compat.v1.SparseTensorValue:
    """A SparseTensor of ragged rows."""
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    width = max([*map(len, rows), 1])
    return tf.compat.v1.SparseTensorValue(
        np.array(indices, np.int64).reshape(-1, 2),
        np.array([v for row in rows for v in row], dtype),
        np.array([len(rows), width], np.int64),
    )


def vocabulary_file(folder: Any, words: Sequence[str]) -> str:
    path = os.path.join(str(folder), "words.txt")
    with open(path, "w") as file:
        file.write("\n".join(words) + "\n")
    return path
