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
from tensorflow.core.framework import function_pb2, types_pb2

from tf_blade.clustering import Outlined
from tf_blade.config import Config
from tf_blade.dump import layout
from tf_blade.dump.arrays import save_arrays
from tf_blade.dump.subgraph import save_nodes
from tf_blade.errors import DumpError
from tf_blade.feature_column.raising import LookupCall
from tf_blade.feature_column.spec import Lookup, Output
from tf_blade.feature_column.text import encode
from tf_blade.graph.graph import TensorRef
from tf_blade.graph.shapes import Types
from tf_blade.graph.types import TensorInfo
from tf_blade.steps import Steps

# A lookup's names of dtypes.
_LOOKUP_DTYPES = {
    "i32": tf.int32,
    "i64": tf.int64,
    "f32": tf.float32,
    "f64": tf.float64,
    "bool": tf.bool,
    "string": tf.string,
}


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
            types={
                str(ref): [info.dtype.name, info.shape, info.likely] for ref, info in types.items()
            },
        )
        return writer

    def lookup(self, call: LookupCall, function: function_pb2.FunctionDef, source: str) -> None:
        """A folder for a fused lookup.

        Args:
          call: its node; those of its inputs that only its fallback reads are left out.
          function: TensorFlow's nodes.
          source: of its kernels; "" if the library's run it.
        """
        lookup = call.lookup
        tables = {part for bag in lookup.bags if bag.table for part in bag.table.parts}
        inputs = [
            {
                **_tensor(f"input_{i}", ref, TensorInfo(_LOOKUP_DTYPES[dtype], None)),
                "constant": i in tables,
                "variable": call.input_dtypes[i] == types_pb2.DT_RESOURCE,
            }
            for i, (dtype, ref) in enumerate(zip(lookup.inputs, call.inputs, strict=False))
        ]
        outputs = [
            {
                **_tensor(f"output_{i}", TensorRef(call.name, i), TensorInfo(tf.float32, None)),
                "width": output.width,
                "columns": _columns(lookup, output),
            }
            for i, output in enumerate(lookup.outputs)
        ]
        writer = ClusterWriter(self._folder / call.name)
        writer.write(layout.NODES, function)
        writer.write(layout.LOOKUP, encode(lookup))
        if source:
            writer.write(layout.KERNELS, source)
        nodes = [node.name for node in function.node_def if node.op != "Const"]
        writer.describe(kind="lookup", name=call.name, nodes=nodes, inputs=inputs, outputs=outputs)


class ClusterWriter:
    """The folder of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def write(self, name: str, content: object) -> None:
        """Writes the text of a stage. Sources stay what they are: the kernel cache knows them."""
        text = str(content)
        end = "" if text.endswith("\n") else "\n"
        (self.folder / name).write_text(text + end, encoding="utf-8")

    def steps(self, steps: Steps) -> None:
        """Writes what was changed, in order."""
        _write_json(self.folder / layout.STEPS, [dataclasses.asdict(s) for s in steps.made])

    def discard(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder)

    def describe(self, **facts: Any) -> None:
        """Writes cluster.json, which makes the folder a cluster's."""
        _write_json(self.folder / layout.CLUSTER, facts)


def write_samples(
    folder: Path,
    samples: Sequence[tuple[str, dict[str, np.ndarray]]],
    tables: dict[str, np.ndarray] | None = None,
    missing: str = "",
) -> None:
    """Adds recorded tensors to a cluster's folder.

    Args:
      samples: for each of them where it comes from, and its tensors by name.
      tables: of a lookup, what is the same in all of them.
      missing: why there are none.
    """
    listed = []
    (folder / layout.SAMPLE_FOLDER).mkdir(exist_ok=True)
    if tables is not None:
        save_arrays(folder / layout.TABLES, tables)
    for i, (label, arrays) in enumerate(samples):
        file = f"{layout.SAMPLE_FOLDER}/{i:04}.npz"
        save_arrays(folder / file, arrays)
        listed.append({"file": file, "label": label})
    _write_json(folder / layout.SAMPLES, {"samples": listed, "missing": missing})


def _tensor(name: str, ref: TensorRef, info: TensorInfo) -> dict[str, Any]:
    """An input or output: its name in the function, the model's tensor, what is known of it."""
    return {"name": name, "tensor": str(ref), "dtype": info.dtype.name, "shape": info.shape}


def _columns(lookup: Lookup, output: Output) -> list[tuple[str, int, int]]:
    """Name, place and width in each row of the columns that an output is made of."""
    return [
        (lookup.bags[part.bag].column or f"bag {part.bag}", part.offset, part.width)
        for part in output.parts
        if part.bag is not None
    ]


def _write_json(path: Path, content: object) -> None:
    """Whole or not at all: a reader takes what the file says for what there is."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(path)
