"""What the `models` benchmark does with one model, each step in a process of its own.

    python -m benchmarks.model_worker optimize TASK.json
    python -m benchmarks.model_worker peer     TASK.json
    python -m benchmarks.model_worker measure  TASK.json

A process a step keeps memory and caches of one model from the next, shows that the optimised
model loads where it was not made, and turns a crash into a row instead of an end.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import cases, harness, peers
from benchmarks.compare import Difference, compare

# Calls that are compared before anything is timed: state that a model keeps shows by the second.
_COMPARED_CALLS = 3


@dataclass(frozen=True)
class Task:
    """One model's work order.

    Attributes:
      case: folder of the model (see `cases.py`).
      optimized: where the optimised SavedModel is, or is to be written.
      result: JSON file that the step writes.
      seconds: time to spend on each size.
      quick: spend as little time as possible inside `optimize` too.
      unchanged: the optimised model is the original: time the original only.
      peers: rivals (`peers.py`) to convert and try out (step peer), or to time too (measure).
      converted: folder where each peer keeps what it made of the model.
    """

    case: str
    optimized: str
    result: str
    seconds: float
    quick: bool
    unchanged: bool = False
    peers: tuple[str, ...] = ()
    converted: str = ""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Task:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**fields | {"peers": tuple(fields["peers"])})

    def folder(self, peer: str) -> Path:
        """Where a peer keeps its files."""
        return Path(self.converted, peer)


def optimize(task: Task) -> dict[str, Any]:
    """Optimises the model as a user would, with the feeds as sample inputs."""
    import tf_blade

    case = cases.read_case(Path(task.case))
    config = tf_blade.Config(timing_seconds=1.0) if task.quick else tf_blade.Config()
    start = time.perf_counter()
    model = tf_blade.optimize(
        str(case.saved_model),
        task.optimized,
        config=config,
        inputs=[case.feeds(size) for size in case.sizes],
        signatures=[case.signature],
        overwrite=True,
    )
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_bytes": _peak_bytes(), "report": model.report.to_dict()}


def try_peer(task: Task) -> str:
    """Has a peer convert and run the model: why it can't, or "" if its answers are right."""
    case, (name,) = cases.read_case(Path(task.case)), task.peers
    peer = peers.PEERS[name]
    missing = peer.missing()
    if missing:
        return f"not installed: {missing} (requirements-peers.txt)"
    task.folder(name).mkdir(parents=True, exist_ok=True)
    try:
        peer.convert(case, task.folder(name))
        for size in case.sizes:
            feeds = case.feeds(size)
            with _call(case.saved_model, case.signature, feeds) as original:
                expected = original.outputs()
            with peer.open(case, task.folder(name), feeds) as call:
                difference = compare(expected, call.outputs())
            if not difference.ok:
                return f"its answers differ ({size}): {difference.message}"
    except Exception as error:  # whatever a converter raises is its reason
        return peers.reason(error)
    return ""


def measure(task: Task) -> list[dict[str, Any]]:
    """Compares and times original and optimised model: one row a size."""
    return [_measure_size(task, size) for size in cases.read_case(Path(task.case)).sizes]


def _measure_size(task: Task, size: str) -> dict[str, Any]:
    case = cases.read_case(Path(task.case))
    feeds, stored = case.feeds(size), case.answers(size)
    with _call(case.saved_model, case.signature, feeds) as original:
        expected = [original.outputs() for _ in range(_COMPARED_CALLS)]
        row: dict[str, Any] = {
            "size": size,
            "shapes": {name: list(value.shape) for name, value in sorted(feeds.items())},
        }
        # Stored answers come from another machine: where this TensorFlow already differs from
        # them, only its own answers can be asked for.
        if stored:
            row["original_gives_stored_answers"] = compare(stored, expected[0]).ok
            if row["original_gives_stored_answers"]:
                expected[0] = stored
        rivals: dict[str, Callable[[], object]] = {"original": original.run}
        with contextlib.ExitStack() as stack:
            if not task.unchanged:
                optimized = stack.enter_context(_call(Path(task.optimized), case.signature, feeds))
                rivals["optimized"] = optimized.run
                found = [compare(want, optimized.outputs()) for want in expected]
            for name in task.peers:
                call = peers.PEERS[name].open(case, task.folder(name), feeds)
                rivals[name] = stack.enter_context(call).run
            share = len(rivals) / 2  # each rival gets as much time, however many there are
            samples = harness.interleave(rivals, seconds=task.seconds * share)
            row |= _timings(samples) | _peer_ratios(samples, task)
            if task.unchanged:
                return row | _verdict(compare(expected[0], expected[0]))
            if compare(expected[1], expected[2]).max_abs_error == 0.0:  # no state: still right?
                found.append(compare(original.outputs(), optimized.outputs()))
            counts = _counts(Path(task.optimized))
            counts |= _shares_of_time(original, optimized)
        worst = min(found, key=lambda difference: (difference.ok, -difference.max_error))
        ratio = samples.ratio("original", "optimized")
        return row | _verdict(worst) | counts | {"speedup": asdict(ratio)}


def _peer_ratios(samples: harness.Samples, task: Task) -> dict[str, Any]:
    """How many times faster than each peer the optimised model is (the original, if unchanged)."""
    ours = "original" if task.unchanged else "optimized"
    return {f"speedup_vs_{name}": asdict(samples.ratio(name, ours)) for name in task.peers}


@contextlib.contextmanager
def _call(directory: Path, signature: str, feeds: Mapping[str, np.ndarray]) -> Iterator[Any]:
    from benchmarks.session import Session

    _register_ops(directory)
    with Session(directory) as session:
        yield session.bind(signature, feeds)


def _register_ops(directory: Path) -> None:
    """Loads the op library when the model holds our op: a session can't, it only looks ops up."""
    if _holds_clusters(directory):
        from tf_blade import library

        library.load_ops()
        library.reset_counters()


def _holds_clusters(directory: Path) -> bool:
    data = (directory / "saved_model.pb").read_bytes()
    return b"BladeCluster" in data or b"BladeLookup" in data


def _counts(directory: Path) -> dict[str, Any]:
    """How often compiled code ran, and TensorFlow in its place (cause -> count), since loading."""
    if not _holds_clusters(directory):
        return {}
    from tf_blade import library

    counters = library.counters()
    return {"launches": counters.launches, "fallbacks": counters.fallbacks}


def _shares_of_time(original: Any, optimized: Any) -> dict[str, float]:
    """How much of the kernels' time is compiled code's.

    cluster_time: of all kernels in the optimised model. dense_clustered: of the time that the
    original spends in dense kernels, what the optimised model no longer spends in such kernels
    of TensorFlow's.
    """
    from benchmarks.session import kernel_seconds

    before, after = kernel_seconds(original), kernel_seconds(optimized)
    ours = sum(time for kernel, time in after.items() if kernel.op.startswith("Blade"))
    dense = sum(time for kernel, time in before.items() if kernel.dense)
    left = sum(
        time for kernel, time in after.items() if kernel.dense and not kernel.op.startswith("Blade")
    )
    shares = {"cluster_time": ours / max(after.total(), 1e-9)}
    return shares | ({"dense_clustered": 1 - left / dense} if dense > 0 else {})


def _timings(samples: harness.Samples) -> dict[str, Any]:
    return {f"{name}_ms": asdict(samples.timing(name)) for name in samples.seconds}


def _verdict(difference: Difference) -> dict[str, Any]:
    return {
        "wrong": not difference.ok,
        "max_abs_error": difference.max_abs_error,
        "max_error": difference.max_error,
        "message": difference.message,
    }


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main(step: str, path: Path) -> None:
    task = Task.read(path)
    steps: dict[str, Callable[[Task], Any]] = {
        "optimize": optimize,
        "peer": try_peer,
        "measure": measure,
    }
    result = steps[step](task)
    Path(task.result).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
