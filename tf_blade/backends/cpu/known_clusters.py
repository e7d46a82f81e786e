"""Clusters that were compiled before, on this machine: their executables are found by what the
clusters compute, without lowering them again.

A note in the kernel cache says for each cluster which executable it became and what the report
tells of it, or which node can't be lowered. Its key covers everything that the compiler looks at:
ops, attributes, constants and wiring, types, functions called, names of nodes (an executable that
refuses a run names one), the compiler's own code, and what an executable's key covers (the C++
compiler, its flags, the CPU targets, the ABI).
"""

from __future__ import annotations

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tf_blade.backends.cpu.clusters import (
    Kernel,
    LoweredCluster,
    function_types,
    lower_cluster,
)
from tf_blade.clustering import Outlined
from tf_blade.compiler.build import Builds
from tf_blade.compiler.build.cache import Cache
from tf_blade.compiler.emit.abi import abi_header
from tf_blade.compiler.lower import LOWERINGS
from tf_blade.compiler.rewrite import pipeline
from tf_blade.compiler.rewrite.rules import RuleSet
from tf_blade.errors import UnsupportedError
from tf_blade.graph.calls import called_functions
from tf_blade.graph.shapes import Types

_PACKAGE = Path(__file__).parents[2]
_LOADED = time.time()  # the code that runs is not younger


class KnownClusters:
    """Lowers clusters, unless it is known what becomes of them.

    Args:
      builds: compiles, and keeps, the executables.
      folder: the kernel cache's.
    """

    def __init__(self, builds: Builds, folder: Path) -> None:
        self._builds = builds
        self._notes = Cache(folder, suffix="json", check=_unpack)
        code = compiler_code()
        self._compiler = code and _digest([code, builds.key("")])

    def lower(self, outlined: Outlined, types: Types) -> LoweredCluster:
        """What `lower_cluster` gives, or what is known instead of its source: its executable.

        Raises: UnsupportedError, as `lower_cluster` does.
        """
        key = self._key(outlined, types)
        known = self._find(key, outlined) if key else None
        if known is not None:
            return known
        try:
            return replace(lower_cluster(outlined, types), key=key)
        except UnsupportedError as error:
            if key:
                self._notes.put(key, _pack({"node": error.node, "reason": error.reason}))
            raise

    def remember(self, lowered: LoweredCluster) -> None:
        """To be called when a cluster's source has been compiled."""
        if not lowered.key or lowered.executable is not None:
            return
        note = {
            "executable": self._builds.key(lowered.source),
            "kernels": [[k.name, k.kind, k.nodes] for k in lowered.kernels],
            "gemms": lowered.gemms,
        }
        self._notes.put(lowered.key, _pack(note))

    def _find(self, key: str, outlined: Outlined) -> LoweredCluster | None:
        data = self._notes.get(key)
        if data is None:
            return None
        note = _unpack(data)
        if "reason" in note:
            raise UnsupportedError(note["reason"], note["node"])
        executable = self._builds.cached(note["executable"])
        if executable is None:
            return None
        kernels = [Kernel(name, kind, nodes) for name, kind, nodes in note["kernels"]]
        return LoweredCluster(outlined, kernels, note["gemms"], key=key, executable=executable)

    def _key(self, outlined: Outlined, types: Types) -> str:
        """ "" for what can't be told from other clusters."""
        if not self._compiler:
            return ""
        return _digest([self._compiler, *_parts(outlined, types)])


def _parts(outlined: Outlined, types: Types) -> Iterator[str | bytes]:
    """What a cluster is made of."""
    function = outlined.function
    yield outlined.content
    yield "\n".join(function.nodes)
    yield str(outlined.constant_inputs)
    # In the order of the function's nodes, which is that of its inputs and of its hash.
    yield "\n".join(f"{t} {t.likely}" for t in function_types(outlined, types).values())
    for name in sorted(called_functions(function)):
        yield name
        yield function.library[name].SerializeToString(deterministic=True)


def compiler_code() -> str:
    """A hash of the code that makes kernels; "" if that isn't all of tf_blade's as it was saved.

    Lowerings and rules can be added or replaced from outside, and files can be edited while their
    code runs.
    """
    functions = dict(_extensions())
    if not all(map(_is_ours, functions.values())):
        return ""
    files = _files_hash()
    return files and _digest([files, abi_header(), *functions])


def _extensions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for op, lowering in LOWERINGS.items():
        yield f"lowering {op}", lowering.function
    for i, step in enumerate(pipeline.PIPELINE):
        rules = getattr(step.run, "__self__", None)
        if not isinstance(rules, RuleSet):
            yield f"{i} {step.name}", step.run
            continue
        for k, rule in enumerate(rules.rules):
            yield f"{i} {step.name} {k} {rule.name}", rule.function


def _is_ours(function: Callable[..., Any]) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and Path(code.co_filename).is_relative_to(_PACKAGE)


@cache
def _files_hash() -> str:
    files = sorted(p for p in _PACKAGE.rglob("*") if p.suffix in (".py", ".h"))
    if any(file.stat().st_mtime > _LOADED for file in files):
        return ""
    return _digest(part for f in files for part in (str(f.relative_to(_PACKAGE)), f.read_bytes()))


def _digest(parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _pack(note: dict[str, Any]) -> bytes:
    data = json.dumps(note).encode()
    return hashlib.sha256(data).digest() + data


def _unpack(data: bytes) -> dict[str, Any]:
    """Raises ValueError for a damaged note."""
    if hashlib.sha256(data[32:]).digest() != data[:32]:
        raise ValueError("the note does not match its hash")
    note: dict[str, Any] = json.loads(data[32:])
    return note
