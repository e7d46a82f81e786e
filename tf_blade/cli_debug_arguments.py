"""Arguments of the debugging commands. Imports nothing heavy: see cli.py."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Commands = Any


def add_debug_commands(
    commands: Commands, common: argparse.ArgumentParser, model: argparse.ArgumentParser
) -> None:
    """Adds `replay` and `bisect` to the commands.

    Args:
      common: arguments of every command.
      model: those of every command that runs a model.
    """
    tolerance = argparse.ArgumentParser(add_help=False)
    tolerance.add_argument(
        "--rtol", type=float, metavar="X", help="relative tolerance, as in tf_blade.Config"
    )
    tolerance.add_argument(
        "--atol", type=float, metavar="X", help="absolute tolerance, as in tf_blade.Config"
    )

    replay = commands.add_parser(
        "replay",
        parents=[common, tolerance],
        help="run clusters of a dump alone, against TensorFlow",
        description="Runs clusters outside of their model on the inputs recorded with them, and "
        "compares the compiled code with TensorFlow's nodes and with the IR's interpreter. Exit "
        "code 1 if they differ.",
    )
    replay.add_argument(
        "dump", metavar="DUMP", help="a folder that dump_dir named, or a cluster's folder in it"
    )
    replay.add_argument("--cluster", metavar="NAME", help="the only cluster to run (default: all)")
    replay.add_argument(
        "--seconds",
        type=_seconds_or_none,
        default=5.0,
        help="time to spend on timing in all, 0 for none (default: 5)",
    )

    bisect = commands.add_parser(
        "bisect",
        parents=[common, model, tolerance],
        help="find out what makes an optimised model's answers wrong",
        description="Optimises the SavedModel MODEL and, if its answers differ from the "
        "original's, halves the set of its clusters, and then the compiler's changes in a wrong "
        "one, until what makes the difference is found. Exit code 1 if the answers differ.",
    )
    bisect.add_argument("input", metavar="MODEL", help="a SavedModel folder")
    bisect.add_argument(
        "--dump",
        metavar="DIR",
        help="where to write the clusters for 'tf-blade replay' (default: a new temporary folder)",
    )


def add_trace_arguments(inspect: argparse.ArgumentParser) -> None:
    """Adds the trace and the fusion plan to `inspect`."""
    what = inspect.add_mutually_exclusive_group()
    what.add_argument(
        "--fusions",
        action="store_true",
        help="show the kernels that each cluster becomes, and why each is one",
    )
    what.add_argument(
        "--trace",
        action="store_true",
        help="show every rewrite, inlining and fusion in order, with before and after",
    )
    inspect.add_argument(
        "--html", metavar="FILE", help="write the trace as one self-contained page (with --trace)"
    )


def _seconds_or_none(text: str) -> float:
    value = float(text)
    if not 0 <= value < 86400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400")
    return value
