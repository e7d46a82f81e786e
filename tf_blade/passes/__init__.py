"""Graph-to-graph passes that run before clustering; `pipeline.run` applies them in order."""

from tf_blade.passes.context import FreezeBudget, PassContext
from tf_blade.passes.pipeline import run

__all__ = ["FreezeBudget", "PassContext", "run"]
