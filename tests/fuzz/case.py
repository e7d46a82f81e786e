"""A graph with what it is fed in each run: what is compared, kept and replayed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2

Feeds = dict[str, np.ndarray]


@dataclass
class FuzzCase:
    """Attributes:
    graph_def: inputs are its placeholders.
    fetches: names of the tensors to compare.
    tolerances: for each of them how far two right answers may be apart.
    runs: feeds by the placeholder's name, for each run.
    target: the CPU target to compile for.
    any_gain: cluster whatever is legal, not only what pays.
    """

    graph_def: graph_pb2.GraphDef
    fetches: list[str]
    tolerances: list[float]
    runs: list[Feeds]
    target: str = "x86-64-v3"
    any_gain: bool = True
    calls: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Writes PATH.pbtxt (the graph) and PATH.json (all else)."""
        path.with_suffix(".pbtxt").write_text(text_format.MessageToString(self.graph_def))
        about = {
            "fetches": self.fetches,
            "tolerances": self.tolerances,
            "target": self.target,
            "any_gain": self.any_gain,
            "runs": [{k: _encode(v) for k, v in feeds.items()} for feeds in self.runs],
        }
        path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> FuzzCase:
        """Reads what `save` wrote."""
        text = path.with_suffix(".pbtxt").read_text()
        about = json.loads(path.with_suffix(".json").read_text())
        runs = [{k: _decode(v) for k, v in feeds.items()} for feeds in about.pop("runs")]
        return cls(text_format.Parse(text, graph_pb2.GraphDef()), runs=runs, **about)

    def part(self, fetches: Iterable[int], runs: Iterable[int]) -> FuzzCase:
        """The case with these outputs and runs only, and the nodes that they need."""
        kept = list(fetches)
        names = [self.fetches[i].split(":")[0] for i in kept]
        graph_def = tf.compat.v1.graph_util.extract_sub_graph(self.graph_def, names)
        inputs = {node.name for node in graph_def.node if node.op == "Placeholder"}
        return replace(
            self,
            graph_def=graph_def,
            fetches=[self.fetches[i] for i in kept],
            tolerances=[self.tolerances[i] for i in kept],
            runs=[{n: x for n, x in self.runs[k].items() if n in inputs} for k in runs],
        )

    @property
    def ops(self) -> set[str]:
        """Op names in the graph and its functions."""
        functions = [n for f in self.graph_def.library.function for n in f.node_def]
        return {node.op for node in (*self.graph_def.node, *functions)}

    def __repr__(self) -> str:
        """The graph line by line, and the shapes of the first run."""
        lines = [_line(node) for node in self.graph_def.node]
        for function in self.graph_def.library.function:
            lines.append(f"function {function.signature.name}:")
            lines += [f"  {_line(node)}" for node in function.node_def]
        lines.append(f"fetch {', '.join(self.fetches)}")
        shapes = {name: list(value.shape) for name, value in self.runs[0].items()}
        return "\n" + "\n".join([*lines, f"first run: {shapes}"]) + "\n"


def _line(node: Any) -> str:
    shown = []
    for name, value in sorted(node.attr.items()):
        if name.startswith("_") or (name in ("output_shapes", "shape") and node.op == "If"):
            continue
        text = text_format.MessageToString(value, as_one_line=True)
        shown.append(f"{name}: {text}" if len(text) <= 160 else f"{name}: …")
    return f"{node.name} = {node.op}({', '.join(node.input)})  {'; '.join(shown)}"


def _encode(array: np.ndarray) -> dict[str, Any]:
    return {"dtype": array.dtype.name, "shape": list(array.shape), "values": array.ravel().tolist()}


def _decode(about: dict[str, Any]) -> np.ndarray:
    return np.array(about["values"], about["dtype"]).reshape(about["shape"])
