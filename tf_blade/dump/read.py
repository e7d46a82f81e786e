"""Reads dumps. What is wrong with one is a `DumpError` that says what to do."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow.core.framework import function_pb2, tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2

from tf_blade.compiler.ir.parser import ParseError, parse
from tf_blade.compiler.ir.program import Program
from tf_blade.dump import layout
from tf_blade.dump.arrays import load_arrays
from tf_blade.errors import DumpError
from tf_blade.graph.graph import Graph, GraphError
from tf_blade.graph.names import parse_tensor_name
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import TensorInfo
from tf_blade.steps import Step

_AGAIN = "Make the dump again: optimize with dump_dir set"


@dataclass(frozen=True)
class Tensor:
    """An input or output of a cluster.

    Attributes:
      name: in the cluster's function.
      tensor: the model's tensor that it was, "node:0".
      info: dtype and partly known shape.
      constant: whether it is the same in every call: a weight, or a lookup's table.
      variable: of a lookup's table, whether it is a variable's resource in the model.
    """

    name: str
    tensor: str
    info: TensorInfo
    constant: bool = False
    variable: bool = False


@dataclass(frozen=True)
class Sample:
    """Recorded inputs: where they come from ("serving_default, batch 7"), and their file."""

    label: str
    file: Path


@dataclass(frozen=True)
class DumpedCluster:
    """One cluster of a dump. Properties read its files; they raise DumpError."""

    folder: Path
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def is_lookup(self) -> bool:
        return bool(self.facts["kind"] == "lookup")

    @property
    def nodes(self) -> list[str]:
        """Names of the TensorFlow nodes inside."""
        return list(self.facts["nodes"])

    @property
    def inputs(self) -> list[Tensor]:
        return [_tensor(fact) for fact in self.facts["inputs"]]

    @property
    def outputs(self) -> list[Tensor]:
        return [_tensor(fact) for fact in self.facts["outputs"]]

    def columns(self, output: int) -> tuple[int, list[tuple[str, int, int]]]:
        """Of a lookup's output: the width of a row, and of each column name, place and width."""
        fact = self.facts["outputs"][output]
        return fact["width"], [tuple(column) for column in fact["columns"]]

    @property
    def constant_inputs(self) -> list[int]:
        """Numbers of the inputs that are the same tensor in every call."""
        return [i for i, tensor in enumerate(self.inputs) if tensor.constant]

    @cached_property
    def types(self) -> Types:
        """Of every tensor of the function."""
        return {parse_tensor_name(name): _info(*info) for name, info in self.facts["types"].items()}

    @cached_property
    def function(self) -> Graph:
        """TensorFlow's nodes."""
        try:
            fdef = text_format.Parse(self.text(layout.NODES), function_pb2.FunctionDef())
            return Graph.from_function_def(fdef, {})
        except (text_format.ParseError, GraphError) as error:
            raise self._damaged(layout.NODES, error) from error

    @cached_property
    def constants(self) -> dict[str, tensor_pb2.TensorProto]:
        """Values of the constant inputs, by name."""
        file = f"{layout.ORIGINAL}/saved_model.pb"
        try:
            model = saved_model_pb2.SavedModel.FromString(self._path(file).read_bytes())
            nodes = {node.name: node for node in model.meta_graphs[0].graph_def.node}
            names = [tensor.name for tensor in self.inputs if tensor.constant]
            return {name: nodes[name].attr["value"].tensor for name in names}
        except (DecodeError, IndexError, KeyError) as error:
            raise self._damaged(file, error) from error

    @property
    def original(self) -> Path:
        """The SavedModel of TensorFlow's nodes."""
        self._path(f"{layout.ORIGINAL}/saved_model.pb")
        return self.folder / layout.ORIGINAL

    @cached_property
    def samples(self) -> list[Sample]:
        """The recorded inputs; none if the model wasn't run (a dry run, no check)."""
        return [Sample(s["label"], self._path(s["file"])) for s in self._recorded["samples"]]

    @property
    def missing(self) -> str:
        """Why there are no samples."""
        return str(self._recorded["missing"])

    @cached_property
    def _recorded(self) -> dict[str, Any]:
        if not (self.folder / layout.SAMPLES).exists():
            reason = "it has no recorded inputs: optimize records them when it checks the model"
            return {"samples": [], "missing": reason}
        found = self._json(layout.SAMPLES)
        if not isinstance(found, dict) or not {"samples", "missing"} <= found.keys():
            raise self._damaged(layout.SAMPLES, ValueError("it lists no samples"))
        return found

    @cached_property
    def steps(self) -> list[Step]:
        """The compiler's changes to the program, in order."""
        return [Step(**item) for item in self._json(layout.STEPS)]

    @property
    def rewritten(self) -> Program:
        """The program after the rewrites, which the kernels compute."""
        try:
            return parse(self.text(layout.REWRITTEN))
        except ParseError as error:
            raise self._damaged(layout.REWRITTEN, error) from error

    def arrays(self, sample: Sample) -> list[np.ndarray]:
        """All of the cluster's inputs in their order, constants included."""
        return self._named(sample, self.inputs)

    def expected(self, sample: Sample) -> list[np.ndarray]:
        """Of a lookup: what TensorFlow gave."""
        return self._named(sample, self.outputs)

    def _named(self, sample: Sample, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        recorded = self._load(sample.file)
        try:
            return [self._same[t.name] if t.constant else recorded[t.name] for t in tensors]
        except KeyError as error:
            raise self._damaged(sample.file.name, error) from error

    @cached_property
    def _same(self) -> dict[str, np.ndarray]:
        """What is the same in every call."""
        if self.is_lookup:
            return self._load(self._path(layout.TABLES))
        return {name: tf.make_ndarray(proto) for name, proto in self.constants.items()}

    def _load(self, file: Path) -> dict[str, np.ndarray]:
        try:
            return load_arrays(file)
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise self._damaged(file.name, error) from error

    def text(self, name: str) -> str:
        """The text of a stage, by the name of its file."""
        try:
            return self._path(name).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged(name, error) from error

    def _path(self, name: str) -> Path:
        path = self.folder / name
        if not path.is_file():
            raise DumpError(f"the dump of cluster '{self.name}' lacks '{path}'. {_AGAIN}.")
        return path

    def _json(self, name: str) -> Any:
        return _read_json(self._path(name))

    def _damaged(self, name: str, error: Exception) -> DumpError:
        return DumpError(f"'{self.folder / name}' can't be read ({error}). {_AGAIN}.")


@dataclass(frozen=True)
class Dump:
    """The dump of one model: its options, and its clusters by name, in order."""

    folder: Path
    facts: dict[str, Any]
    clusters: dict[str, DumpedCluster]

    @property
    def rtol(self) -> float:
        return float(self.facts["rtol"])

    @property
    def atol(self) -> float:
        return float(self.facts["atol"])

    def choose(self, name: str | None) -> list[DumpedCluster]:
        """The cluster of that name, or all of them. Raises DumpError if there is none."""
        if name is None:
            return list(self.clusters.values())
        if name in self.clusters:
            return [self.clusters[name]]
        close = difflib.get_close_matches(name, self.clusters, n=3)
        hint = f" Did you mean {_listed(close, ' or ')}?" if close else ""
        raise DumpError(
            f"'{self.folder}' has no cluster '{name}' (has: {_short(list(self.clusters))}).{hint}"
        )


def read_dump(path: str | Path) -> Dump:
    """Reads a dump's folder, or one cluster's folder in it.

    Raises DumpError: no such folder, no dump, one of another version, a damaged one, no cluster.
    """
    folder = Path(path)
    if not folder.exists():
        raise DumpError(f"the dump '{folder}' does not exist. {_AGAIN}.")
    if not folder.is_dir():
        raise DumpError(f"'{folder}' is no folder. A dump is the folder that dump_dir names.")
    only = None
    if not (folder / layout.DUMP).exists() and (folder / layout.CLUSTER).exists():
        folder, only = folder.absolute().parent, folder.absolute().name
    if not (folder / layout.DUMP).exists():
        raise DumpError(
            f"'{folder}' is no dump, or one of an older tf-blade: it has no {layout.DUMP}. "
            f"{_AGAIN}."
        )
    facts = _read_json(folder / layout.DUMP)
    found = facts.get("format") if isinstance(facts, dict) else None
    if found != layout.FORMAT:
        writer = facts.get("tf_blade", "unknown") if isinstance(facts, dict) else "unknown"
        raise DumpError(
            f"'{folder}' is a dump of format {found} (tf-blade {writer}), this tf-blade reads "
            f"format {layout.FORMAT}. {_AGAIN} by this version, or use that one."
        )
    files = sorted(folder.glob(f"*/{layout.CLUSTER}"), key=lambda file: _order(file.parent.name))
    clusters = {file.parent.name: _read_cluster(file) for file in files}
    if not clusters:
        raise DumpError(f"'{folder}' has no cluster: nothing of the model was compiled.")
    return Dump(folder, facts, clusters if only is None else {only: clusters[only]})


def _read_cluster(file: Path) -> DumpedCluster:
    facts = _read_json(file)
    needed = {"kind", "name", "nodes", "inputs", "outputs"}
    if isinstance(facts, dict) and facts.get("kind") == "cluster":
        needed |= {"types"}
    if not isinstance(facts, dict) or not needed <= facts.keys():
        raise DumpError(f"'{file}' doesn't describe a cluster. {_AGAIN}.")
    return DumpedCluster(file.parent, facts)


def _order(name: str) -> tuple[tuple[int, str], ...]:
    """blade_cluster_10 after blade_cluster_9."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in name.split("_"))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DumpError(f"'{path}' can't be read ({error}). {_AGAIN}.") from error


def _tensor(fact: dict[str, Any]) -> Tensor:
    info = _info(fact["dtype"], fact["shape"])
    flags = fact.get("constant", False), fact.get("variable", False)
    return Tensor(fact["name"], fact["tensor"], info, *flags)


def _info(
    dtype: str, shape: Sequence[int | None] | None, likely: Sequence[int | None] | None = None
) -> TensorInfo:
    known, hint = (None if sizes is None else tuple(sizes) for sizes in (shape, likely))
    return TensorInfo(tf.as_dtype(dtype), known, hint)


def _listed(names: Iterable[str], joint: str) -> str:
    return joint.join(f"'{name}'" for name in names)


def _short(names: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(names[:limit])
    return f"{shown}, … {len(names) - limit} more" if len(names) > limit else shown
