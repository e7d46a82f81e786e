"""SavedModels of many cases: a signature for each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.feature_column.conformance.case import Case, ColumnCase, Features


def save_graph(cases: Iterable[tuple[str, ColumnCase]], directory: Path) -> None:
    """A TF1 graph. Each case comes with its layer, "input_layer" or "linear_model"."""
    v1 = tf.compat.v1
    layers = {
        "input_layer": v1.feature_column.input_layer,
        "linear_model": v1.feature_column.linear_model,
    }
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(3)
        signatures = {}
        info = v1.saved_model.build_tensor_info
        for layer, case in cases:
            prefix = f"{case.name}_"
            inputs, features = _placeholders(prefix, case.features)
            with v1.variable_scope(case.name, use_resource=True, **case.scope):
                output = layers[layer](features, case.columns(prefix))
            signatures[case.name] = v1.saved_model.build_signature_def(
                {name: info(tensor) for name, tensor in inputs.items()},
                {"output": info(output)},
                "tensorflow/serving/predict",
            )
        session.run(v1.global_variables_initializer())
        _spread_zeros(session)
        builder = v1.saved_model.Builder(str(directory))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            signatures,
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
        builder.save()


def _placeholders(prefix: str, features: Features) -> tuple[dict[str, Any], dict[str, Any]]:
    """Input name -> placeholder, and the name that columns use -> feature."""
    v1 = tf.compat.v1
    inputs, joined = {}, {}
    for name, feature in features.items():
        tensors = {
            key: v1.placeholder(spec.dtype, spec.shape, prefix + key)
            for key, spec in feature.specs(name).items()
        }
        inputs.update(tensors)
        joined[prefix + name] = feature.join(name, tensors)
    return inputs, joined


def _spread_zeros(session: Any) -> None:
    """Weights that start at zero (those of linear models) get values that tell them apart."""
    v1 = tf.compat.v1
    for variable in v1.global_variables():
        if "linear_model" in variable.name:
            v1.assign(variable, tf.random.normal(variable.shape, seed=5)).eval(session=session)


def save_functions(cases: Iterable[Case], directory: Path) -> None:
    """Functions, as TF2 writes them."""
    module = tf.Module()
    module.owned = []
    signatures = {}
    for case in cases:
        compute, owned = case.make()
        module.owned += owned
        signatures[case.name] = _signature(case, compute)
    tf.saved_model.save(module, str(directory), signatures=signatures)


def _signature(case: Case, compute: Any) -> Any:
    specs: dict[str, tf.TensorSpec] = {}
    for name, feature in case.features.items():
        specs |= feature.specs(name)

    def run(**tensors: Any) -> dict[str, Any]:
        joined = {name: value.join(name, tensors) for name, value in case.features.items()}
        found = compute(joined)
        return found if isinstance(found, dict) else {"output": found}

    return tf.function(run).get_concrete_function(**specs)
