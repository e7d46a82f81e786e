"""The command line `tf-blade`: arguments, exit codes, and errors as text or JSON.

Exit codes: 0 done, 1 answers differ, 2 something given can't be used, 3 an error inside tf-blade.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tf_blade import __version__
from tf_blade.cli_debug_arguments import add_debug_commands, add_trace_arguments
from tf_blade.errors import TfBladeError

if TYPE_CHECKING:
    from tf_blade.api import Driver

_INTERNAL = 3
_INTERRUPTED = 130  # what shells use for Ctrl-C


def main(argv: Sequence[str] | None = None, driver: Driver | None = None) -> int:
    """Runs one command and returns its exit code.

    Args:
      argv: arguments without the program's name; None: sys.argv's.
      driver: what optimises; None: the optimizer.
    """
    options = _parser().parse_args(argv)
    # Whatever a library prints must not get between the lines of our JSON.
    stdout = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            if not options.debug:
                _import_tensorflow_quietly()
            from tf_blade import cli_commands, cli_debug

            commands = {**cli_commands.COMMANDS, **cli_debug.COMMANDS}
            outcome = commands[options.command](options, driver)
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        _fail(options, stdout, "Interrupted", "interrupted; nothing was written.")
        return _INTERRUPTED
    except TfBladeError as error:
        report = getattr(error, "report", None)
        extra = {"report": report.to_dict()} if report is not None else {}
        _fail(options, stdout, type(error).__name__, str(error), **extra)
        return error.exit_code
    except Exception as error:
        trace = traceback.format_exc()
        message = (
            f"internal error, {type(error).__name__}: {error}. Nothing was written. Please report "
            "it with this command's output under --debug and that of 'tf-blade doctor --json'; "
            'a config file with dump_dir = "DIR" keeps the compiler\'s intermediate forms.'
        )
        if options.debug and not options.json:
            print(trace, file=sys.stderr)
        extra = {"traceback": trace} if options.debug else {}
        _fail(options, stdout, "InternalError", message, **extra)
        return _INTERNAL
    with contextlib.suppress(BrokenPipeError):
        if options.json:
            print(json.dumps(outcome.data, ensure_ascii=False, allow_nan=False), file=stdout)
        else:
            from rich.console import Console

            console = Console(file=stdout)
            if not console.is_terminal:
                console = Console(file=stdout, width=110)
            console.print(outcome.content)
        stdout.flush()
    return outcome.exit_code


def _fail(options: argparse.Namespace, stdout: Any, kind: str, message: str, **extra: Any) -> None:
    if options.json:
        # "traceback" belongs to the error, "report" stands beside it.
        error = {"type": kind, "message": message}
        if "traceback" in extra:
            error["traceback"] = extra.pop("traceback")
        print(json.dumps({"error": error, **extra}, ensure_ascii=False), file=stdout, flush=True)
    else:
        print(f"tf-blade: {kind}: {message}", file=sys.stderr, flush=True)


def _import_tensorflow_quietly() -> None:
    """Imports TensorFlow without its start-up notes, which say nothing about the user's model."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.simplefilter("ignore")
    # Some notes are written before that level is read, straight to the file descriptor.
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        import tensorflow as tf

        tf.config.list_logical_devices()
    finally:
        os.dup2(saved, 2)
        os.close(saved)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object")
    common.add_argument(
        "--debug", action="store_true", help="show the traceback of internal errors"
    )

    model = argparse.ArgumentParser(add_help=False)
    model.add_argument(
        "--inputs",
        metavar="FILE.npz",
        help="sample feeds: an .npz file with an array for each input, or a folder of TensorProto "
        "files NAME.pb; without it inputs are made up from the signature",
    )
    model.add_argument(
        "--signature",
        metavar="NAME",
        action="append",
        help="a signature to use, may be repeated (default: all)",
    )
    model.add_argument("--config", metavar="FILE.toml", help="options, see tf_blade.Config")

    parser = argparse.ArgumentParser(
        prog="tf-blade",
        description="Makes TensorFlow SavedModels faster.",
        epilog="Exit codes: 0 done, 1 answers differ, 2 something given can't be used, "
        "3 an error inside tf-blade.",
    )
    parser.add_argument("--version", action="version", version=f"tf-blade {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    optimize = commands.add_parser(
        "optimize",
        parents=[common, model],
        help="optimise a SavedModel, check it and write the result",
        description="Optimises the SavedModel IN, compares its answers with the original's, times "
        "both, and writes OUT whole or not at all.",
    )
    optimize.add_argument("input", metavar="IN", help="a SavedModel folder")
    optimize.add_argument("output", metavar="OUT", help="the folder to write")
    optimize.add_argument("--overwrite", action="store_true", help="replace OUT if it exists")
    optimize.add_argument(
        "--allow-mismatch", action="store_true", help="write OUT even if its answers differ"
    )

    inspect = commands.add_parser(
        "inspect",
        parents=[common],
        help="show what would be optimised and what not, and why",
        description="A dry run: nothing is written.",
    )
    inspect.add_argument("input", metavar="DIR", help="a SavedModel folder")
    inspect.add_argument("--signature", metavar="NAME", action="append", help="as for optimize")
    inspect.add_argument("--config", metavar="FILE.toml", help="as for optimize")
    add_trace_arguments(inspect)

    bench = commands.add_parser(
        "bench",
        parents=[common, model],
        help="measure a SavedModel's latency",
        description="Measures DIR's latency, or with --against both models in turn.",
    )
    bench.add_argument("input", metavar="DIR", help="a SavedModel folder")
    bench.add_argument("--against", metavar="DIR", help="the original to compare with")
    bench.add_argument(
        "--seconds", type=_seconds, default=10.0, help="time to spend in all (default: 10)"
    )

    verify = commands.add_parser(
        "verify",
        parents=[common, model],
        help="compare two SavedModels' answers",
        description="Runs A (the original) and B on the same inputs. Exit code 1 if they differ.",
    )
    verify.add_argument("original", metavar="A", help="the original SavedModel folder")
    verify.add_argument("optimized", metavar="B", help="the SavedModel folder to hold against it")

    add_debug_commands(commands, common, model)

    commands.add_parser(
        "doctor",
        parents=[common],
        help="show what tf-blade found on this machine",
        description="Exit code 2 if something is missing that optimising needs.",
    )
    return parser


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400")
    return value
