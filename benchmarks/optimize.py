"""Benchmark `optimize`: seconds and memory that optimising a large graph takes.

The graph is made of random blocks (dense layers with several activations, layer normalisation,
attention, gates, joins and splits), no two of one shape, up to --nodes nodes. `optimize` runs in
a process of its own, once with nothing compiled before (cold; not even Python's modules, but for
TensorFlow) and once more with the same caches (warm); its check of the answers is part of it, its
timing of both models is not.

`summary`:
  nodes              of the graph
  cold_seconds, warm_seconds
  peak_gb            the cold process's largest resident size; importing TensorFlow is part of it
  import_gb          of a process that only imports TensorFlow and tf_blade
  model_gb           of the SavedModel on disk
  clustered          share of the nodes in clusters
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

_NODES = {False: 5000, True: 300}
_WIDTHS = (32, 48, 64, 96, 128)

# Runs in a fresh process. Arguments: model, output, cache; without any: imports only.
_WORKER = """
import json, resource, sys, time
import tensorflow, tf_blade
found = {}
if len(sys.argv) > 1:
    config = tf_blade.Config(timing_seconds=0.0, keep_slower=True, cache_dir=sys.argv[3])
    start = time.perf_counter()
    model = tf_blade.optimize(sys.argv[1], sys.argv[2], config=config, overwrite=True)
    found = {"seconds": time.perf_counter() - start, "outcome": model.report.outcome,
             "clustered": model.report.clustered_share,
             "check": model.report.signature("serving_default").check.status}
found["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps(found))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, help="of the graph (default: 5000; quick: 300)")


def run(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """A row for the cold and one for the warm run, and the summary."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tf_blade_optimize_") as folder:
        model = Path(folder) / "model"
        nodes = build(model, arguments.nodes or _NODES[arguments.quick])
        size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
        bytecode = Path(folder) / "bytecode"
        imported = _worker(bytecode)["peak_gb"]
        rows = []
        for run_name in ("cold", "warm"):
            arguments_of_worker = (model, Path(folder) / "out", Path(folder) / "cache")
            row = {"run": run_name} | _worker(bytecode, *arguments_of_worker)
            rows.append(row)
            console.print("  ".join(f"{key} {value}" for key, value in row.items()))
    cold, warm = rows
    summary = {
        "nodes": nodes,
        "cold_seconds": cold["seconds"],
        "warm_seconds": warm["seconds"],
        "peak_gb": cold["peak_gb"],
        "import_gb": imported,
        "model_gb": size / 2**30,
        "clustered": cold["clustered"],
        "wrong": sum(row["check"] != "passed" or row["outcome"] != "optimized" for row in rows),
    }
    console.print("  ".join(f"{key} {value:.4g}" for key, value in summary.items()))
    return rows, summary


def _worker(bytecode: Path, *arguments: Path) -> dict[str, Any]:
    """bytecode: where Python keeps compiled modules, whatever the environment says."""
    environment = dict(os.environ, PYTHONPYCACHEPREFIX=str(bytecode))
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _WORKER, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def build(folder: Path, nodes: int) -> int:
    """Writes a SavedModel of about as many nodes, weights among them; returns how many."""
    import tensorflow as tf

    random = np.random.default_rng(5)

    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, "x")])
    def serve(x: Any) -> dict[str, Any]:
        graph = x.graph
        while len(graph.get_operations()) < nodes:
            x = _block(tf, x, random)
        return {"y": tf.reduce_mean(x, 1)}

    concrete = serve.get_concrete_function()
    tf.saved_model.save(tf.Module(), str(folder), signatures=concrete)
    return len(concrete.graph.get_operations())


def _block(tf: Any, x: Any, random: np.random.Generator) -> Any:
    """[n, a] -> [n, b] by one of several things that models do."""
    before, width = x.shape[-1], int(random.choice(_WIDTHS))

    def dense(y: Any, units: int) -> Any:
        weights = random.standard_normal((y.shape[-1], units)) / np.sqrt(y.shape[-1])
        bias = random.standard_normal(units)
        return tf.matmul(y, tf.constant(weights, tf.float32)) + tf.constant(bias, tf.float32)

    kind = random.integers(5)
    if kind == 0:
        activations = (tf.nn.relu, tf.nn.gelu, tf.tanh, tf.nn.elu, tf.nn.softplus, tf.nn.silu)
        return activations[random.integers(len(activations))](dense(x, width))
    if kind == 1:
        centred = x - tf.reduce_mean(x, 1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), 1, keepdims=True)
        scale = tf.constant(random.uniform(0.5, 1.5, before), tf.float32)
        return centred * tf.math.rsqrt(variance + 1e-5) * scale
    if kind == 2:
        heads = 8
        q, k, v = (tf.reshape(dense(x, width), [-1, heads, width // heads]) for _ in range(3))
        scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / np.sqrt(width // heads))
        return tf.reshape(tf.matmul(scores, v), [-1, width])
    if kind == 3:
        return dense(x, width) * tf.sigmoid(dense(x, width))
    left, right = tf.split(x, 2, 1)
    return tf.concat([tf.maximum(left, right), tf.abs(left - right), tf.exp(-tf.square(left))], 1)
