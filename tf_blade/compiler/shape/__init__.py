"""What is known of a program's dims: see `facts.py`."""

from tf_blade.compiler.shape.facts import Bounds, Facts, divisor

__all__ = ["Bounds", "Facts", "divisor"]
