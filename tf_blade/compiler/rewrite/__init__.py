"""Simplifies IR programs: rules as data (`rules.py`), listed in order in `pipeline.py`."""

from tf_blade.compiler.rewrite.pipeline import rewrite
from tf_blade.compiler.rewrite.rules import RewriteLog

__all__ = ["RewriteLog", "rewrite"]
