"""What `optimize` writes about each cluster when `Config.dump_dir` is set.

Files appear as the work goes on, so that a run that fails leaves what led to it.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tf_blade.clustering import Outlined
from tf_blade.config import Config
from tf_blade.dump import layout
from tf_blade.dump.subgraph import save_nodes
from tf_blade.errors import DumpError
from tf_blade.graph.graph import TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import TensorInfo
from tf_blade.steps import Steps


class DumpWriter:
    """The folder of one model.

    Clusters of an earlier dump in it are removed, other files are left alone.

    Raises DumpError if it can't be written.
    """

    def __init__(self, folder: str, config: Config, source: str) -> None:
        from tf_blade import __version__

        self._folder = Path(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if (self._folder / layout.DUMP).exists():
                for old in self._folder.glob(f"*/{layout.CLUSTER}"):
                    shutil.rmtree(old.parent)
            _write_json(
                self._folder / layout.DUMP,
                {
                    "format": layout.FORMAT,
                    "tf_blade": __version__,
                    "tensorflow": tf.__version__,
                    "model": source,
                    "rtol": config.rtol,
                    "atol": config.atol,
                    "cpu_targets": list(config.cpu_targets),
                    "compiler": config.compiler,
                },
            )
        except OSError as error:
            raise DumpError(
                f"can't write the dump to '{folder}': {error.strerror}. Choose another dump_dir."
            ) from error

    def cluster(self, outlined: Outlined, types: Types) -> ClusterWriter:
        """A folder for a cluster.

        Args:
          types: of the function's tensors.
        """
        function = outlined.function
        graph = outlined.cluster.region.graph
        constants = {
            function.args[i].name: graph.nodes[outlined.inputs[i].node].attrs["value"].tensor
            for i in outlined.constant_inputs
        }
        inputs = [
            {
                **_tensor(arg.name, ref, types[TensorRef(arg.name)]),
                "constant": arg.name in constants,
            }
            for arg, ref in zip(function.args, outlined.inputs, strict=True)
        ]
        outputs = [
            _tensor(name, ref, types[inner])
            for (name, inner), ref in zip(function.outputs, outlined.outputs, strict=True)
        ]
        writer = ClusterWriter(self._folder / outlined.cluster.name)
        writer.write(layout.NODES, function.to_function_def())
        save_nodes(writer.folder / layout.ORIGINAL, function, types, constants)
        writer.describe(
            kind="cluster",
            name=outlined.cluster.name,
            nodes=list(outlined.cluster.members),
            inputs=inputs,
            outputs=outputs,
            types={str(ref): [info.dtype.name, info.shape] for ref, info in types.items()},
        )
        return writer

    def lookup(self, name: str, function: function_pb2.FunctionDef, text: str, source: str) -> None:
        """A folder for a fused lookup: TensorFlow's nodes, what is computed, and the kernels."""
        writer = ClusterWriter(self._folder / name)
        writer.write(layout.NODES, function)
        writer.write(layout.LOOKUP, text)
        if source:
            writer.write(layout.KERNELS, source)
        nodes = [node.name for node in function.node_def if node.op != "Const"]
        writer.describe(kind="lookup", name=name, nodes=nodes)


class ClusterWriter:
    """The folder of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def write(self, name: str, content: object) -> None:
        """Writes the text of a stage."""
        (self.folder / name).write_text(f"{content}\n", encoding="utf-8")

    def steps(self, steps: Steps) -> None:
        """Writes what was changed, in order."""
        _write_json(self.folder / layout.STEPS, [dataclasses.asdict(s) for s in steps.made])

    def discard(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder)

    def describe(self, **facts: Any) -> None:
        """Writes cluster.json, which makes the folder a cluster's."""
        _write_json(self.folder / layout.CLUSTER, facts)


def write_samples(folder: Path, samples: Sequence[tuple[str, dict[str, np.ndarray]]]) -> None:
    """Adds inputs to a cluster's folder.

    Args:
      samples: for each of them where it comes from, and the inputs that are no constants, by name.
    """
    listed = []
    (folder / layout.SAMPLE_FOLDER).mkdir(exist_ok=True)
    for i, (label, arrays) in enumerate(samples):
        file = f"{layout.SAMPLE_FOLDER}/{i:04}.npz"
        np.savez(folder / file, **arrays)  # type: ignore[arg-type]  # a name is no option
        listed.append({"file": file, "label": label})
    _write_json(folder / layout.SAMPLES, listed)


def _tensor(name: str, ref: TensorRef, info: TensorInfo) -> dict[str, Any]:
    """An input or output: its name in the function, the model's tensor, what is known of it."""
    return {"name": name, "tensor": str(ref), "dtype": info.dtype.name, "shape": info.shape}


def _write_json(path: Path, content: object) -> None:
    """Whole or not at all: a reader takes what the file says for what there is."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)
