"""What the `feature_columns` benchmark does with one subject, each step in a process of its own.

python -m benchmarks.columns.worker build    TASK.json RESULT.json
python -m benchmarks.columns.worker optimize TASK.json RESULT.json
python -m benchmarks.columns.worker measure  TASK.json RESULT.json
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.columns import subjects
from benchmarks.columns.feeds import Ids
from benchmarks.columns.variants import VARIANTS

_SAMPLE_BATCHES = (1, 16)  # of the feeds that `optimize` checks with


@dataclass(frozen=True)
class Task:
    """One subject's work order.

    Attributes:
      subject: as `subjects.encode` writes it.
      variant: to optimise (step optimize).
      models: variant -> SavedModel folder, to write (optimize) or to run (measure).
      batches, ids, user_shares: the feeds; every batch goes with every share.
      clients: numbers of clients to measure calls a second with; latency is of one.
      seconds: time for each batch, share and number of clients.
    """

    subject: dict[str, Any]
    variant: str = ""
    models: dict[str, str] = field(default_factory=dict)
    batches: tuple[int, ...] = ()
    ids: Ids = "zipf"
    user_shares: tuple[float, ...] = (0.0,)
    clients: tuple[int, ...] = (1,)
    seconds: float = 1.0


def build(task: Task) -> dict[str, Any]:
    """Generates the subject and says where it is."""
    subject = subjects.build(task.subject)
    return {"name": subject.name, "saved_model": str(subject.saved_model)}


def optimize(task: Task) -> dict[str, Any]:
    """Optimises the subject for one variant."""
    import tf_blade

    subject = subjects.build(task.subject)
    samples = [subject.feeds(batch, "zipf", 0.0, 1)[0].tensors for batch in _SAMPLE_BATCHES]
    options: dict[str, Any] = VARIANTS[task.variant].config or {}
    # A wrong or slower result is kept: it is for this benchmark to show it.
    config = tf_blade.Config(timing_seconds=0.0, keep_slower=True, allow_mismatch=True, **options)
    start = time.perf_counter()
    made = tf_blade.optimize(
        str(subject.saved_model),
        task.models[task.variant],
        config=config,
        inputs=samples,
        signatures=[subject.signature],
        overwrite=True,
    )
    return {
        "optimize_seconds": time.perf_counter() - start,
        "optimize_peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20),
        "outcome": made.report.outcome,
        "outcome_reason": made.report.outcome_reason,
    }


def measure(task: Task) -> list[dict[str, Any]]:
    """Compares and times the variants: a row for each batch, user share and rival."""
    from benchmarks.columns import measure as measuring

    subject = subjects.build(task.subject)
    return measuring.measure(
        subject,
        {name: Path(folder) for name, folder in task.models.items()},
        [(batch, share) for batch in task.batches for share in task.user_shares],
        task.ids,
        task.clients,
        task.seconds,
    )


def main(step: str, order: Path, result: Path) -> None:
    task = Task(**json.loads(order.read_text(encoding="utf-8")))
    steps: dict[str, Callable[[Task], Any]] = {
        "build": build,
        "optimize": optimize,
        "measure": measure,
    }
    result.write_text(json.dumps(steps[step](task)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
