"""`python -m tests.fuzz --minutes N [--seed S]`: see docs/fuzzing.md."""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

# As in the tests: what answers are compared with is TensorFlow without oneDNN.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main() -> int:
    """Exit code 1 if a graph failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default: 5)")
    parser.add_argument("--seed", type=int, help="where to begin (default: by chance)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/fuzz"), help="folder for failures (build/fuzz)"
    )
    parser.add_argument(
        "--replay", type=Path, nargs="+", default=[], metavar="FILE", help="check these cases only"
    )
    arguments = parser.parse_args()
    if arguments.replay:
        return replay(arguments.replay, arguments.out)
    from tests.fuzz.campaign import campaign

    first_seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    summary = campaign(arguments.out, seconds=arguments.minutes * 60, first_seed=first_seed)
    print(summary)
    return 1 if summary.failures else 0


def replay(paths: list[Path], out: Path) -> int:
    """Checks cases that were written down; IR and sources go to folders beside `out`'s kernels."""
    from tests.fuzz.case import FuzzCase
    from tests.fuzz.subject import Mismatch, check

    failed = 0
    for path in paths:
        case = FuzzCase.load(path)
        dump = out / f"{path.stem}.dump"
        try:
            check(case, str(out / "kernels"), str(dump))
            print(f"{path.stem}: ok")
        except Mismatch as mismatch:
            failed += 1
            print(f"{path.stem}: {mismatch}\nIR and sources: {dump}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
