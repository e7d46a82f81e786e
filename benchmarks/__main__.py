"""The command line of the benchmarks: python -m benchmarks NAME [--quick] [--json FILE]."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# Name -> module with add_arguments(parser) and run(arguments) -> (rows, summary).
BENCHMARKS = {
    "models": "benchmarks.models",
    "feature_columns": "benchmarks.feature_columns",
    "compiler": "benchmarks.compiler",
    "optimize": "benchmarks.optimize",
    "cuda": "benchmarks.cuda",
    "vector_math": "benchmarks.vector_math",
}


def main(argv: list[str] | None = None) -> int:
    """Runs one benchmark. Exit code 1 if its summary counts something as wrong, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    modules = {name: importlib.import_module(module) for name, module in BENCHMARKS.items()}
    for name, module in modules.items():
        first_line = (module.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(
            name,
            help=first_line,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--quick", action="store_true", help="short runs: does it work at all")
        command.add_argument("--json", type=Path, metavar="FILE", help="write the record here")
        module.add_arguments(command)
    arguments = parser.parse_args(argv)

    rows, summary = modules[arguments.name].run(arguments)

    if arguments.json:
        from benchmarks import harness

        record = harness.Record(arguments.name, arguments.quick, rows, summary, harness.machine())
        record.write(arguments.json)
        print(f"Written: {arguments.json}")
    return 1 if summary.get("wrong") else 0


if __name__ == "__main__":
    sys.exit(main())
