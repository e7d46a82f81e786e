"""A trial run in a process of its own, for models that may take the process down with them.

With oneDNN on, TensorFlow 2.21 crashes while it prepares some convolutional models: its graph pass
MklLayoutRewritePass takes any Pad that a fused convolution reads for the convolution's own, and
follows a wild pointer when the Pad belongs to a residual that is added. Whether a model gets there
depends on what Grappler did before, so it is tried out rather than predicted; only models that have
the ops for it pay for the trial, which takes as long as importing TensorFlow.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tf_blade import machine
from tf_blade.errors import SavedModelError
from tf_blade.saved_model import MetaGraph
from tf_blade.signatures import reachable_nodes

_NEEDED = ({"Pad"}, {"Conv2D", "DepthwiseConv2dNative"}, {"Add", "AddV2"})
_SECONDS = 600  # that a trial may take
_SURVIVED = "the signatures ran"  # the child says so before it tries them in a session


def is_risky(meta_graph: MetaGraph, signatures: Iterable[str]) -> bool:
    """Whether running one of the signatures may crash the process."""
    if not machine.onednn_enabled():
        return False
    ops = {node.op for name in signatures for node in reachable_nodes(meta_graph, name)}
    return all(ops & needed for needed in _NEEDED)


def require_survival(
    directory: str | os.PathLike[str], tags: Iterable[str], signatures: Iterable[str]
) -> str:
    """Runs the signatures on made-up inputs in a child process.

    Errors that TensorFlow reports are not this function's business: they will come again.

    Returns: why the model must not be run in a C++ session; "" if it may. Grappler sees another
    graph there than in Python's functions.

    Raises SavedModelError if TensorFlow crashes wherever the model runs.
    """
    command = [sys.executable, "-m", "tf_blade.trial", os.fspath(directory), ",".join(tags)]
    package = Path(__file__).resolve().parents[1]
    paths = [str(package), os.environ.get("PYTHONPATH", "")]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in paths if path))
    try:
        done = subprocess.run(
            [*command, *signatures],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    if done.returncode in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS):
        name = signal.Signals(-done.returncode).name
        if _SURVIVED in done.stdout:
            return f"TensorFlow itself crashes ({name}) when a session runs it on this machine"
        raise SavedModelError(
            f"TensorFlow itself crashes ({name}) when it runs "
            f"'{os.fspath(directory)}' on this machine. Its oneDNN graph pass does that to some "
            "convolutions beside a Pad: try again with TF_ENABLE_ONEDNN_OPTS=0 in the environment."
        )
    return ""


def _run(directory: str, tags: str, signatures: list[str]) -> None:
    from tf_blade.check import plan_feeds
    from tf_blade.config import Config
    from tf_blade.original import Original
    from tf_blade.runner import Runner

    known = Original.read(directory, tuple(tag for tag in tags.split(",") if tag), signatures)
    model = Runner(directory, known.tags)
    plans = plan_feeds(model, known.signatures, known.features, {}, Config())
    if model.in_session:
        return
    print(_SURVIVED, flush=True)
    model.close()
    model = Runner(directory, known.tags, in_session=True)
    for name, plan in plans.items():
        if not known.no_session[name]:
            for feeds in plan.sets:
                model.run(name, feeds.values)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2], sys.argv[3:])
