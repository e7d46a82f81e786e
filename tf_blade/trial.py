"""A trial run in a process of its own, for models that may take the process down with them.

With oneDNN on, TensorFlow 2.21 crashes while it prepares some convolutional models: its graph pass
MklLayoutRewritePass takes any Pad that a fused convolution reads for the convolution's own, and
follows a wild pointer when the Pad belongs to a residual that is added. Whether a model gets there
depends on what Grappler did before, so it is tried out rather than predicted; only models that have
the ops for it pay for the trial, which takes as long as importing TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tf_blade import machine
from tf_blade.child import Child, Crashed
from tf_blade.errors import SavedModelError
from tf_blade.saved_model import MetaGraph
from tf_blade.signatures import reachable_nodes

if TYPE_CHECKING:
    from tf_blade.runner import Feeds

_NEEDED = ({"Pad"}, {"Conv2D", "DepthwiseConv2dNative"}, {"Add", "AddV2"})


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
    arguments = os.fspath(directory), tuple(tags), list(signatures)
    survived = False
    with contextlib.closing(Child()) as child:
        try:
            found, questions = child.call(_run, *arguments)
            survived = True
            child.call(_run_in_session, arguments[0], found, questions)
        except Crashed as crash:
            if crash.signal not in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
                return ""
            name = crash.signal.name
        except Exception:
            return ""
        else:
            return ""
    if survived:
        return f"TensorFlow itself crashes ({name}) when a session runs it on this machine"
    raise SavedModelError(
        f"TensorFlow itself crashes ({name}) when it runs "
        f"'{os.fspath(directory)}' on this machine. Its oneDNN graph pass does that to some "
        "convolutions beside a Pad: try again with TF_ENABLE_ONEDNN_OPTS=0 in the environment."
    )


def _run(
    directory: str, tags: tuple[str, ...], signatures: list[str]
) -> tuple[tuple[str, ...], list[tuple[str, Feeds]]]:
    """Runs the model where its format is best. Returns its tags, and what to ask a session, if that
    is another place."""
    from tf_blade.check import plan_feeds
    from tf_blade.config import Config
    from tf_blade.original import Original
    from tf_blade.runner import Runner

    known = Original.read(directory, tags, signatures)
    model = Runner(directory, known.tags)
    plans = plan_feeds(model, known.signatures, known.features, {}, Config())
    model.close()
    served = {} if model.in_session else {n: p for n, p in plans.items() if not known.no_session[n]}
    return known.tags, [(n, feeds.values) for n, plan in served.items() for feeds in plan.sets]


def _run_in_session(
    directory: str, tags: tuple[str, ...], questions: list[tuple[str, Feeds]]
) -> None:
    from tf_blade.runner import Runner

    if questions:
        model = Runner(directory, tags, in_session=True)
        for signature, feeds in questions:
            model.run(signature, feeds)
