"""One cluster of a dump outside of its model."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from tf_blade import _runtime, machine
from tf_blade.backends.cpu.executables import compile_sources
from tf_blade.child import Child, Crashed
from tf_blade.compiler.ir import interpreter
from tf_blade.compiler.ir.program import Program
from tf_blade.config import Config
from tf_blade.debug.suspects import Refused, run_executable
from tf_blade.dump import layout
from tf_blade.dump.read import Dump, DumpedCluster, Sample
from tf_blade.dump.subgraph import TAGS, save_compiled, save_nodes
from tf_blade.errors import CompileError, DumpError
from tf_blade.graph.graph import TensorRef
from tf_blade.library import load_ops
from tf_blade.progress import silent
from tf_blade.runner import Answers, Feeds, Runner


def compile_config(dump: Dump) -> Config:
    """How the dump's kernels were compiled; for this machine if they were for others."""
    targets, compiler = dump.facts["cpu_targets"], dump.facts["compiler"]
    if machine.cpu_target() not in targets:
        return Config()
    return Config(cpu_targets=tuple(targets), compiler=compiler)


def only_for_this_machine(config: Config) -> Config:
    """The configuration without targets whose code wouldn't run here."""
    target = machine.cpu_target()
    if target not in config.cpu_targets:
        return config
    return dataclasses.replace(config, cpu_targets=(target,))


def compile_kernels(source: str, config: Config) -> bytes:
    """An executable of one source, from the cache if it was compiled before.

    Raises CompilerNotFoundError, and DumpError if it doesn't compile.
    """
    result = compile_sources([source], config, silent).results[source]
    if isinstance(result, CompileError):
        raise DumpError(f"the kernels don't compile: {result}")
    return result.executable


def crashes(cluster: DumpedCluster, container: bytes, child: Child) -> bool:
    """Whether an executable of the cluster crashes on one of the recorded inputs."""
    dtypes = [np.dtype(t.info.dtype.as_numpy_dtype) for t in cluster.outputs]
    for sample in cluster.samples:
        arrays = cluster.arrays(sample)
        try:
            child.call(run_executable, container, arrays, dtypes, cluster.constant_inputs)
        except Refused:
            continue
        except Crashed:
            return True
    return False


def run_interpreter(program: Program, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the IR's reference gives. Raises Refused."""
    try:
        return interpreter.run(program, list(arrays))
    except interpreter.Refused as refusal:
        raise Refused(refusal.reason) from None


class Alone(Protocol):
    """A cluster or lookup, ready to run outside of its model on one of its samples.

    `arrays` are the sample's inputs. Methods raise Refused where the inputs aren't covered.
    """

    def compiled(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the generated code gives, run in a child process. Raises Crashed besides."""
        ...

    def reference(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the code is meant to give."""
        ...

    def tensorflow(self, sample: Sample, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What TensorFlow gives. Raises RuntimeError as TensorFlow does."""
        ...

    def close(self) -> None:
        """Gives its memory back."""
        ...


class AloneCluster:
    """A compiled cluster; its reference is the interpreter of its rewritten program.

    Attributes:
      container: its executable.

    Raises CompilerNotFoundError, and DumpError if the kernels don't compile.
    """

    def __init__(self, dump: Dump, cluster: DumpedCluster, child: Child) -> None:
        self.container = compile_kernels(cluster.text(layout.KERNELS), compile_config(dump))
        self._cluster = cluster
        self._child = child
        self._nodes = TensorFlowNodes(cluster.original, grappler=False)

    def compiled(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        dtypes = [np.dtype(t.info.dtype.as_numpy_dtype) for t in self._cluster.outputs]
        constants = self._cluster.constant_inputs
        return self._child.call(run_executable, self.container, arrays, dtypes, constants)

    def reference(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return run_interpreter(self._cluster.rewritten, arrays)

    def tensorflow(self, sample: Sample, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        answers = self._nodes.run(feeds_of(self._cluster, arrays))
        return [answers[tensor.name] for tensor in self._cluster.outputs]

    def close(self) -> None:
        self._nodes.runner.close()


class AloneLookup:
    """A fused lookup; its reference are the library's kernels, which read its text.

    What TensorFlow gives was recorded: its nodes need the model's variables and vocabularies.

    Raises as AloneCluster does.
    """

    def __init__(self, dump: Dump, cluster: DumpedCluster, child: Child) -> None:
        self._cluster = cluster
        self._child = child
        try:
            self._library = _runtime.Lookup(cluster.text(layout.LOOKUP))
        except _runtime.Refused as refusal:
            raise DumpError(
                f"'{cluster.folder / layout.LOOKUP}' can't be read: {refusal}"
            ) from refusal
        self._container = b""
        if (cluster.folder / layout.KERNELS).exists():
            source = cluster.text(layout.KERNELS)
            self._container = compile_kernels(source, compile_config(dump))

    def compiled(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if not self._container:
            return self.reference(arrays)
        dtypes = [np.dtype(np.float32)] * len(self._cluster.outputs)
        return self._child.call(run_executable, self._container, arrays, dtypes)

    def reference(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            results: list[np.ndarray]
            results, _ = self._library.run(list(arrays), threads=machine.available_cpus())
        except _runtime.Refused as refusal:
            raise Refused(str(refusal)) from None
        return results

    def tensorflow(self, sample: Sample, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return self._cluster.expected(sample)

    def close(self) -> None:
        """It holds nothing that is large."""


def feeds_of(cluster: DumpedCluster, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The inputs as the cluster's SavedModels take them: by name, without the constants."""
    pairs = zip(cluster.inputs, arrays, strict=True)
    return {tensor.name: array for tensor, array in pairs if not tensor.constant}


class TensorFlowNodes:
    """TensorFlow's nodes of a cluster in a C++ session.

    Args:
      folder: of a SavedModel written by `tf_blade.dump.subgraph`.
      grappler: whether TensorFlow may optimise them.
    """

    def __init__(self, folder: Path, grappler: bool) -> None:
        self.runner = Runner(folder, TAGS, grappler, in_session=True)

    def run(self, feeds: Feeds) -> Answers:
        """The outputs by name. Raises RuntimeError as TensorFlow does."""
        return self.runner.run(layout.SIGNATURE, feeds)


@contextlib.contextmanager
def all_tensors(cluster: DumpedCluster) -> Iterator[tuple[TensorFlowNodes, list[TensorRef]]]:
    """TensorFlow's nodes with every tensor as an output, and these in order of computation."""
    function = cluster.function
    arguments = {arg.name for arg in function.args}
    tensors = [
        TensorRef(node.name, i)
        for node in function.topological_order()
        if node.name not in arguments
        for i in range(len(function.output_dtypes(node)))
    ]
    outputs = [(str(ref), ref) for ref in tensors]
    with tempfile.TemporaryDirectory(prefix="tf_blade_nodes_") as folder:
        save_nodes(Path(folder), function, cluster.types, cluster.constants, outputs)
        nodes = TensorFlowNodes(Path(folder), grappler=False)
        try:
            yield nodes, tensors
        finally:
            nodes.runner.close()


@contextlib.contextmanager
def compiled_node(cluster: DumpedCluster, executable: bytes) -> Iterator[TensorFlowNodes]:
    """The cluster's op in a C++ session, as a server runs it."""
    load_ops()
    with tempfile.TemporaryDirectory(prefix="tf_blade_node_") as folder:
        save_compiled(Path(folder), cluster.function, cluster.types, cluster.constants, executable)
        node = TensorFlowNodes(Path(folder), grappler=True)
        try:
            yield node
        finally:
            node.runner.close()
