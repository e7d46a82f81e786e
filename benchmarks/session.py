"""The C++ session that models are timed in; `tf_blade.c_session` says why not Python's.

`optimize` checks TF1 models in it, too.
"""

from __future__ import annotations

from tf_blade.c_api import c_api
from tf_blade.c_session import Call, Session

__all__ = ["Call", "Session", "c_api"]
