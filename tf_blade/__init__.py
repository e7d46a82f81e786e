"""tf-blade makes TensorFlow SavedModels faster, for every shape they will ever see.

    import tf_blade
    model = tf_blade.optimize("wide_deep/1", "wide_deep_blade/1")
    print(model.report)

Names are loaded on first use: importing the package imports neither TensorFlow nor the compiler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tf_blade.api import optimize as optimize
    from tf_blade.config import Config as Config
    from tf_blade.errors import CompilerNotFoundError as CompilerNotFoundError
    from tf_blade.errors import ConfigError as ConfigError
    from tf_blade.errors import DumpError as DumpError
    from tf_blade.errors import InputError as InputError
    from tf_blade.errors import MismatchError as MismatchError
    from tf_blade.errors import OutputExistsError as OutputExistsError
    from tf_blade.errors import RuntimeLibraryError as RuntimeLibraryError
    from tf_blade.errors import SavedModelError as SavedModelError
    from tf_blade.errors import SignatureError as SignatureError
    from tf_blade.errors import TfBladeError as TfBladeError
    from tf_blade.just_in_time.service import disable as disable
    from tf_blade.just_in_time.service import enable as enable
    from tf_blade.just_in_time.service import jit as jit
    from tf_blade.just_in_time.service import jit_stats as jit_stats
    from tf_blade.just_in_time.stats import JitStats as JitStats
    from tf_blade.optimized_model import OptimizedModel as OptimizedModel
    from tf_blade.optimized_model import load as load
    from tf_blade.patterns import register_pattern as register_pattern
    from tf_blade.report import Report as Report

__version__ = "0.1.0"

_HOME = {
    "optimize": "tf_blade.api",
    "load": "tf_blade.optimized_model",
    "OptimizedModel": "tf_blade.optimized_model",
    "Config": "tf_blade.config",
    "Report": "tf_blade.report",
    **dict.fromkeys(("disable", "enable", "jit", "jit_stats"), "tf_blade.just_in_time.service"),
    "JitStats": "tf_blade.just_in_time.stats",
    "register_pattern": "tf_blade.patterns",
} | dict.fromkeys(
    (
        "CompilerNotFoundError",
        "ConfigError",
        "DumpError",
        "InputError",
        "MismatchError",
        "OutputExistsError",
        "RuntimeLibraryError",
        "SavedModelError",
        "SignatureError",
        "TfBladeError",
    ),
    "tf_blade.errors",
)

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tf_blade' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
