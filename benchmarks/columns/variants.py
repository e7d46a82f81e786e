"""The ways of running a model that are compared."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from typing import Any

STOCK = "stock"


@dataclass(frozen=True)
class Variant:
    """One way to run a model.

    Attributes:
      name: what it is called on the command line and in rows.
      config: options of `tf_blade.Config` to optimise the model with; None: the original model.
      jit: whether TensorFlow's XLA auto-clustering is on.
    """

    name: str
    config: dict[str, Any] | None = field(default=None, hash=False)
    jit: bool = False


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant(STOCK),
        Variant("xla", jit=True),
        Variant("default", {}),  # what a user gets
        Variant("off", {"lookups": "off"}),
        Variant("library", {"lookups": "library"}),
        Variant("codegen", {"lookups": "codegen"}),
    )
}
FOR_COLUMNS = (STOCK, "xla", "library", "codegen")
FOR_MODELS = (STOCK, "default")


def available(names: list[str] | tuple[str, ...]) -> list[Variant]:
    """The variants of these names whose options `tf_blade.Config` has.

    Raises ValueError for a name that is none of VARIANTS.
    """
    from tf_blade import Config

    options = {option.name for option in dataclasses.fields(Config)}
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        raise ValueError(f"no variant called {', '.join(unknown)}; there are {', '.join(VARIANTS)}")
    found = [VARIANTS[name] for name in names]
    return [variant for variant in found if options.issuperset(variant.config or {})]


def environment(variants: list[Variant]) -> dict[str, str]:
    """What a process that runs these variants needs in its environment."""
    found = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2")
    if any(variant.jit for variant in variants):
        # A session's jit level then counts for the CPU too; level OFF stays off.
        found["TF_XLA_FLAGS"] = "--tf_xla_cpu_global_jit"
    return found


def session_config(variant: Variant) -> bytes:
    """The serialized ConfigProto of a variant: a thread a core for all of them."""
    import tensorflow as tf

    cores = len(os.sched_getaffinity(0))
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=cores, inter_op_parallelism_threads=cores
    )
    levels = tf.compat.v1.OptimizerOptions
    config.graph_options.optimizer_options.global_jit_level = (
        levels.ON_2 if variant.jit else levels.OFF
    )
    return bytes(config.SerializeToString())
