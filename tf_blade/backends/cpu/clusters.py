"""How a cluster becomes an executable for CPUs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tf_blade.clustering import Outlined
from tf_blade.compiler.emit import emit
from tf_blade.compiler.fuse import Plan, plan
from tf_blade.compiler.ir.program import Program
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.lower import lower_graph, supports
from tf_blade.compiler.rewrite import rewrite
from tf_blade.graph.graph import TensorRef
from tf_blade.graph.shapes import Types

__all__ = ["LoweredCluster", "lower_cluster", "supports"]


@dataclass(frozen=True)
class LoweredCluster:
    """A cluster on its way to an executable.

    Attributes:
      outlined: the cluster as a TensorFlow function.
      program: what it computes, after the rewrites.
      plan: which kernels the program becomes.
      source: their C++ source.
    """

    outlined: Outlined
    program: Program
    plan: Plan
    source: str

    @property
    def name(self) -> str:
        return self.outlined.cluster.name


def lower_cluster(outlined: Outlined, types: Types, dump_dir: str | None = None) -> LoweredCluster:
    """Lowers, rewrites, fuses and prints one cluster.

    Args:
      outlined: the cluster.
      types: of the graph that it was cut from.
      dump_dir: write the program after each stage and the source to a folder in there.

    Raises: UnsupportedError, naming the node, for what has no lowering.
    """
    name = outlined.cluster.name
    dump = _Dump(dump_dir, name)
    dump.write("nodes.pbtxt", outlined.function.to_function_def())
    program = lower_graph(
        outlined.function, _function_types(outlined, types), name, set(outlined.constant_inputs)
    )
    dump.write("1_lowered.ir", program)
    verify(program)
    program = rewrite(program)
    dump.write("2_rewritten.ir", program)
    verify(program)
    kernels = plan(program)
    dump.write("3_fused.txt", kernels)
    source = emit(program, kernels)
    dump.write("4_kernels.cc", source)
    return LoweredCluster(outlined, program, kernels, source)


def _function_types(outlined: Outlined, types: Types) -> Types:
    """Types of the function's tensors: its nodes keep their names, its arguments are the inputs."""
    function = outlined.function
    found: Types = {}
    for node, ref in zip(function.args, outlined.inputs, strict=True):
        found[TensorRef(node.name)] = types[ref]
    arguments = {node.name for node in function.args}
    for node in function:
        if node.name not in arguments:
            for i in range(len(function.output_dtypes(node))):
                found[TensorRef(node.name, i)] = types[TensorRef(node.name, i)]
    return found


class _Dump:
    """A folder with everything about one cluster; writes nothing when there is none."""

    def __init__(self, dump_dir: str | None, cluster: str) -> None:
        self._folder = Path(dump_dir) / cluster if dump_dir else None
        if self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, content: object) -> None:
        if self._folder:
            (self._folder / name).write_text(f"{content}\n", encoding="utf-8")
