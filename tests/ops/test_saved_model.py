"""A SavedModel with the op and its fallback works in a process that knows only the op library."""

from __future__ import annotations

import subprocess
import sys

import tensorflow as tf

from tests.ops.calls import add

SERVE = """
import sys
import numpy as np
import tensorflow as tf
from tf_blade import library

library.load_ops()
model = tf.saved_model.load(sys.argv[1])
serve = model.signatures["serving_default"]
a = np.arange(6, dtype=np.float32).reshape(2, 3)
launched = serve(a=tf.constant(a), b=tf.constant(a))["y"].numpy()
fallen_back = serve(a=tf.constant(a), b=tf.constant(a[0]))["y"].numpy()
assert (launched == a + a).all() and (fallen_back == a + a[0]).all()

# The loader of TensorFlow 1, as servers use it.
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    meta = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[1])
    signature = meta.signature_def["serving_default"]
    y = session.run(
        signature.outputs["y"].name,
        {signature.inputs["a"].name: a, signature.inputs["b"].name: a[0]},
    )
    assert (y == a + a[0]).all()

counters = library.counters().clusters["served"]
assert counters.launches == 1, counters
assert counters.fallbacks == {"Add (head/add): ranks differ": 2}, counters
print("served")
"""


class Served(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32), tf.TensorSpec(None, tf.float32)])
    def serve(self, a, b):
        return {"y": add(a, b, cluster="served")[0]}


def test_it_is_saved_and_served_in_a_fresh_process(tmp_path):
    model = Served()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.serve)
    result = subprocess.run(
        [sys.executable, "-c", SERVE, str(tmp_path / "model")], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.strip().endswith("served")
