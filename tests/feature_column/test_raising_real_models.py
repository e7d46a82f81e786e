"""Real recommendation models: all columns are fused, answers stay. Needs ../shared/models."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.feature_column.models import v1
from tests.saved_model.test_real_models import MODELS, tensors
from tf_blade import library, passes, saved_model
from tf_blade.feature_column.raising import raise_lookups
from tf_blade.feature_column.vocabularies import Vocabularies

# Name -> (lookups, columns).
EXPECTED = {
    "census_wide_deep_raw": (1, 13),
    "census_wide_deep_example": (1, 13),
    "deepctr_est_wdl": (1, 52),
    "deepctr_keras_din": (2, 6),
    "deepctr_keras_varlen": (2, 14),
    "tfx_taxi_wide_deep_2022": (1, 9),
}
NAMES = [name for name in EXPECTED if (MODELS / name).is_dir()]


@pytest.mark.parametrize("name", NAMES)
def test_every_column_is_fused_and_answers_stay_the_same(tmp_path, name):
    library.load_ops()
    source = str(MODELS / name / "saved_model")
    signature = json.loads((MODELS / name / "model.json").read_text())["signature"]
    bundle = saved_model.read(source)
    columns = []
    lookups = 0
    for region in bundle.regions([signature]):
        context = passes.PassContext(region.variables, region.arg_shapes)
        graph = passes.run(region.graph, context)
        vocabularies = Vocabularies(bundle.meta_graphs[0], source).of_region(region, graph)
        graph, found = raise_lookups(
            graph, context.types(graph), context, vocabularies, first=lookups
        )
        columns += found
        lookups += sum(node.op == "BladeLookup" for node in graph)
        region.replace(graph)
    assert all(column.fused for column in columns)
    assert (lookups, len(columns)) == EXPECTED[name]
    bundle.write(str(tmp_path))
    library.reset_counters()
    feeds = tensors(MODELS / name / "feeds" / "large")
    answers = ask(str(tmp_path), signature, feeds)
    for key, expected in ask(source, signature, feeds).items():
        if expected.dtype.kind == "O":
            np.testing.assert_array_equal(answers[key], expected)
        else:
            # Census logits near 0 are sums of terms (a capital gain) as large as the largest logit.
            largest = max(1.0, float(np.abs(expected).max()))
            np.testing.assert_allclose(answers[key], expected, rtol=1e-4, atol=1e-5 * largest)
    counted = library.counters()
    assert counted.launches == lookups and not counted.fallbacks


def ask(path, signature, feeds):
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        meta = v1.saved_model.load(session, ["serve"], path)
        found = meta.signature_def[signature]
        fed = {found.inputs[k].name: value for k, value in feeds.items() if k in found.inputs}
        return session.run({k: info.name for k, info in found.outputs.items()}, fed)
