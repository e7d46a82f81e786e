"""The patterns that `optimize` looks for, in the order in which they were registered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tensorflow as tf

from tf_blade.clustering.candidates import LITERAL_BYTES, is_literal, refusal
from tf_blade.compiler.emit.abi import header_path
from tf_blade.errors import InputError
from tf_blade.graph.graph import Graph
from tf_blade.graph.types import ARG, TensorInfo
from tf_blade.passes import PassContext, pipeline
from tf_blade.patterns.kernel import Kernel, read_kernel

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Pattern:
    """What to look for and what runs it.

    Attributes:
      name: in reports.
      graph: the traced function after the graph passes, which models go through as well.
      args: what fits each of its arguments.
      kernel: takes the arguments in order, gives the results.
    """

    name: str
    graph: Graph
    args: tuple[TensorInfo, ...]
    kernel: Kernel


_patterns: dict[str, Pattern] = {}


def register_pattern(
    library: str | Path, inputs: Sequence[tf.TensorSpec], *, name: str | None = None
) -> Callable[[_Function], _Function]:
    """Has `optimize` run subgraphs that compute what the decorated function does by a kernel.

    Args:
      library: a shared library that exports `blade_executable` (blade_abi.h). It becomes part of
        optimised models; serving needs no other file.
      inputs: dtypes and shapes of the function's arguments; None for any dim, or any shape. Where
        a model knows less than they say, the kernel has to check, and refuses what it can't do.
      name: for reports; by default the function's. Another pattern of that name is replaced.

    Returns: a decorator that traces the function with TensorFlow and gives it back as it is.

    Raises: InputError if the library can't be used, has another number of inputs or outputs than
      the function, or the function is no pattern: it has an effect, doesn't use an argument, or
      holds a large constant.
    """

    def register(function: _Function) -> _Function:
        called = name or function.__name__
        kernel = read_kernel(library)
        graph = _traced(function, inputs, called)
        _check(graph, kernel, called)
        args = tuple(TensorInfo(spec.dtype, _shape(spec)) for spec in inputs)
        _patterns[called] = Pattern(called, graph, args, kernel)
        return function

    return register


def unregister_pattern(name: str) -> None:
    """Forgets a pattern. Raises KeyError if there is none of that name."""
    del _patterns[name]


def registered_patterns() -> list[Pattern]:
    return list(_patterns.values())


def include_dir() -> str:
    """The folder of blade_abi.h, for a compiler's -I."""
    return str(header_path("blade_abi.h").parent)


def _shape(spec: tf.TensorSpec) -> tuple[int | None, ...] | None:
    return None if spec.shape.rank is None else tuple(spec.shape.as_list())


def _traced(function: Callable[..., Any], inputs: Sequence[tf.TensorSpec], name: str) -> Graph:
    concrete = tf.function(function, autograph=False).get_concrete_function(*inputs)
    if concrete.captured_inputs:
        raise InputError(f"pattern '{name}' uses a variable or tensor that is no argument of it.")
    library = {f.signature.name: f for f in concrete.graph.as_graph_def().library.function}
    graph = Graph.from_function_def(concrete.function_def, library)
    shapes = {arg.name: _shape(spec) for arg, spec in zip(graph.args, inputs, strict=True)}
    return pipeline.run(graph, PassContext(arg_shapes=shapes))


def _check(graph: Graph, kernel: Kernel, name: str) -> None:
    if (len(graph.args), len(graph.outputs)) != (kernel.n_inputs, kernel.n_outputs):
        raise InputError(
            f"pattern '{name}' has {len(graph.args)} arguments and {len(graph.outputs)} results, "
            f"its kernel {kernel.n_inputs} inputs and {kernel.n_outputs} outputs."
        )
    read = {ref.node for node in graph for ref in node.inputs}
    for node in graph:
        if node.op == ARG:
            if node.name not in read:
                raise InputError(f"pattern '{name}' does not use its argument '{node.name}'.")
        elif node.op == "Const":
            if not is_literal(node):
                raise InputError(
                    f"pattern '{name}' holds a constant of more than {LITERAL_BYTES} bytes: make "
                    "it an argument."
                )
        elif (reason := refusal(graph, node)) is not None:
            raise InputError(f"pattern '{name}' can't be replaced: {node.op}: {reason}.")
