"""How a cluster becomes an executable for CPUs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tf_blade.clustering import Outlined
from tf_blade.compiler.build import Built
from tf_blade.compiler.emit import emit
from tf_blade.compiler.fuse import Plan, plan
from tf_blade.compiler.ir.program import Op, Program
from tf_blade.compiler.ir.verifier import verify
from tf_blade.compiler.lower import lower_graph, supports
from tf_blade.compiler.rewrite import RewriteLog, rewrite
from tf_blade.compiler.schedule import schedule
from tf_blade.dump import layout
from tf_blade.dump.write import DumpWriter
from tf_blade.errors import UnsupportedError
from tf_blade.graph.graph import Graph, TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.steps import Steps

__all__ = [
    "Compiled",
    "Kernel",
    "LoweredCluster",
    "compile_function",
    "function_types",
    "lower_cluster",
    "supports",
]


@dataclass(frozen=True)
class Kernel:
    """One kernel of an executable: its name and kind, and the TensorFlow nodes it computes."""

    name: str
    kind: str
    nodes: list[str]


@dataclass(frozen=True)
class LoweredCluster:
    """A cluster on its way to an executable.

    Attributes:
      outlined: the cluster as a TensorFlow function.
      kernels: what its program becomes, in launch order.
      gemms: how many of them are matrix products.
      source: their C++ source; "" where the executable is known.
      key: under which it can be remembered (`known_clusters.py`), "" if it can't be.
      executable: where it is known.
    """

    outlined: Outlined
    kernels: list[Kernel]
    gemms: int
    source: str = ""
    key: str = ""
    executable: Built | None = None

    @property
    def name(self) -> str:
        return self.outlined.cluster.name


@dataclass(frozen=True)
class Compiled:
    """What a function becomes: the program after the rewrites, the kernels, their C++ source."""

    program: Program
    plan: Plan
    source: str


def lower_cluster(
    outlined: Outlined, types: Types, dump: DumpWriter | None = None
) -> LoweredCluster:
    """Lowers, rewrites, fuses and prints one cluster.

    Args:
      outlined: the cluster.
      types: of the graph that it was cut from.
      dump: takes the cluster, the program after each stage, the changes made, and the source.

    Raises: UnsupportedError, naming the node, for what has no lowering.
    """
    own = function_types(outlined, types)
    name, constants = outlined.cluster.name, outlined.constant_inputs
    if dump is None:
        return _described(outlined, compile_function(outlined.function, own, name, constants))
    writer, steps = dump.cluster(outlined, own), Steps()
    try:
        made = compile_function(outlined.function, own, name, constants, steps, writer.write)
    except UnsupportedError:
        writer.discard()  # what is left of it will be other clusters
        raise
    writer.steps(steps)
    return _described(outlined, made)


def _described(outlined: Outlined, made: Compiled) -> LoweredCluster:
    kernels = [
        Kernel(group.name, group.kind, _sources(made.plan.ops(group))) for group in made.plan.groups
    ]
    gemms = sum(op.kind == "dot_general" for op in made.program.ops)
    return LoweredCluster(outlined, kernels, gemms, made.source)


def _sources(ops: Sequence[Op]) -> list[str]:
    """Names of the nodes that the ops came from."""
    names: dict[str, None] = {}
    for op in ops:
        names.update(dict.fromkeys(part for part in op.source.split(", ") if part))
    return list(names)


def compile_function(
    function: Graph,
    types: Types,
    name: str,
    constants: Collection[int],
    steps: Steps | None = None,
    write: Callable[[str, object], None] | None = None,
) -> Compiled:
    """Takes a cluster's function through the stages of the compiler, up to C++.

    Args:
      function: the cluster's body.
      types: of all its tensors.
      name: the program's.
      constants: arguments that are the same tensor in every call.
      steps: watches and limits the changes made to the program. None: all are made.
      write: takes the text of each stage, with the name of its file in a dump.

    Raises: UnsupportedError, naming the node, for what has no lowering.
    """
    write = write or _nowhere
    program = lower_graph(function, types, name, constants)
    write(layout.LOWERED, program)
    verify(program)
    program = rewrite(program, RewriteLog(steps=steps))
    write(layout.REWRITTEN, program)
    verify(program)
    kernels = plan(program, steps)
    write(layout.FUSED, kernels)
    if write is not _nowhere:
        write(layout.SCHEDULED, schedule(kernels))
    source = emit(program, kernels)
    write(layout.KERNELS, source)
    return Compiled(program, kernels, source)


def _nowhere(name: str, content: object) -> None:
    """Drops the text of a stage."""


def function_types(outlined: Outlined, types: Types) -> Types:
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
