"""Every exception tf-blade raises on purpose.

Messages say what happened, where, and what to do next. `exit_code` is what the command line
returns.
"""

from __future__ import annotations


class TfBladeError(Exception):
    """Base of all errors of this package."""

    exit_code = 3


class InputError(TfBladeError):
    """Something the user gave cannot be used; nothing was written."""

    exit_code = 2


class SavedModelError(InputError):
    """A path that is no SavedModel, can't be read, or that TensorFlow itself can't load."""


class SignatureError(InputError):
    """A signature that doesn't exist, or feeds that don't fit it (name, dtype, shape)."""


class ConfigError(InputError):
    """An unknown configuration key or a value outside its range."""


class DumpError(InputError):
    """A dump that doesn't exist, isn't whole, is of another version, or can't be written."""


class OutputExistsError(InputError):
    """The output folder exists and overwrite=True was not given."""


class CompilerNotFoundError(InputError):
    """No C++ compiler on this machine; the message names the three ways to get one."""


class MismatchError(TfBladeError):
    """The optimised model's answers differ from the original's by more than the tolerance.

    `report` (a tf_blade.Report, or None) has every comparison.
    """

    exit_code = 1

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class CompileError(TfBladeError):
    """A cluster could not be compiled. It stays in TensorFlow; this never reaches the user."""


class UnsupportedError(CompileError):
    """An op, dtype or form that has no lowering. `node` names it, the message is the reason."""

    def __init__(self, reason: str, node: str = "") -> None:
        super().__init__(f"{node}: {reason}" if node else reason)
        self.reason = reason
        self.node = node


class RuntimeLibraryError(TfBladeError):
    """The op library is missing, was built for another TensorFlow, or could not be opened."""
