"""The compiling half of the benchmark `cuda`: a folder of jobs for a machine with a GPU."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.compiler.graphs import GRAPHS, Graph
from benchmarks.cuda.measure import ABOUT, RUNNER
from benchmarks.job_folder import JobFolder, Tensor
from tf_blade.compiler.build import build, find_compiler
from tf_blade.compiler.build.nvcc import build_image
from tf_blade.compiler.emit.cuda import emit_cuda
from tf_blade.compiler.fuse import plan
from tf_blade.compiler.ir.interpreter import run as interpret
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.lower import lower_graph
from tf_blade.compiler.rewrite import rewrite
from tf_blade.errors import CompileError
from tf_blade.graph.graph import Graph as TensorFlowGraph
from tf_blade.graph.shapes import infer_types

_ROOT = Path(__file__).resolve().parents[2]
_BUILD = _ROOT / "build" / "tools"
# Rows that differ; the others repeat them. A prime, so that they lie at every alignment.
_DIFFERENT_ROWS = 61


def _gelu(x: Any) -> Any:
    import tensorflow as tf

    return tf.nn.gelu(x)


def _chain_of_8(x: Any) -> Any:
    import tensorflow as tf

    a = tf.abs(x * 0.5 + 1.0)
    b = tf.maximum(a - 0.25, x)
    return tf.minimum(tf.square(b), 4.0) * 0.75


def _one(rows: int, width: int) -> dict[str, tuple[int, ...]]:
    return {"x": (rows, width)}


MEASURED = (
    GRAPHS["softmax"],
    GRAPHS["layer_norm"],
    Graph("gelu", _gelu, _one),
    Graph("chain_of_8", _chain_of_8, _one),
)


def prepare(folder: Path, shapes: Sequence[tuple[int, int]], repeats: int, *, quick: bool) -> None:
    """Writes everything that `measure` needs. Raises CompileError if there is no compiler."""
    jobs = JobFolder(folder)
    rows: list[dict[str, Any]] = []
    for graph in MEASURED:
        program = _lowered(graph)
        kernels = plan(program)
        source = emit_cuda(program, kernels)
        image = build_image(source.kernels)
        (executable,) = build(
            [source.host], compiler=find_compiler(), targets=["x86-64-v2"], cache_dir=None
        )
        if isinstance(executable, CompileError):
            raise executable
        for shape in shapes:
            inputs, expected = _tensors(graph, program, shape)
            jobs.add(
                graph.name,
                executable.executable,
                inputs,
                expected,
                image=image,
                repeats=repeats,
            )
            sizes = [int(np.prod(t.shape)) * t.array.itemsize for t in (*inputs, *expected)]
            rows.append(
                {
                    "graph": graph.name,
                    "shape": shape,
                    "bytes": sum(sizes),
                    "kernels": len(kernels.groups),
                }
            )
    jobs.save()
    about = {"rows": rows, "quick": quick, "commit": harness.commit()}
    (folder / ABOUT).write_text(json.dumps(about))
    shutil.copy(build_runner(), folder / RUNNER)


def _lowered(graph: Graph) -> Program:
    import tensorflow as tf

    concrete = tf.function(graph.function).get_concrete_function(**graph.specs())
    library = {f.signature.name: f for f in concrete.graph.as_graph_def().library.function}
    body = TensorFlowGraph.from_function_def(concrete.function_def, library)
    shapes = {
        arg.name: tuple(tensor.shape.as_list())
        for arg, tensor in zip(body.args, concrete.inputs, strict=True)
    }
    return rewrite(lower_graph(body, infer_types(body, shapes), graph.name))


def _tensors(
    graph: Graph, program: Program, shape: tuple[int, int]
) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs of a shape, in the program's order, and the interpreter's answers."""
    rows, width = shape
    feeds = graph.feeds(min(rows, _DIFFERENT_ROWS), width)
    dims = graph.shapes(rows, width)
    inputs = [Tensor(array, dims[name]) for name, array in feeds.items()]
    answers = interpret(program, [t.array for t in inputs])
    return inputs, [Tensor(y, (rows, *y.shape[1:])) for y in answers]


def build_runner() -> Path:
    """Builds run_jobs_cuda, or what changed since. Raises CompileError."""
    setup = ["cmake", "-S", str(_ROOT), "-B", str(_BUILD), "-G", "Ninja"]
    for command in (setup, ["cmake", "--build", str(_BUILD), "--target", RUNNER]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise CompileError("cmake is needed to build what runs the kernels") from error
        if done.returncode != 0:
            raise CompileError(f"{RUNNER} does not compile: {done.stdout}{done.stderr}")
    return _BUILD / RUNNER
