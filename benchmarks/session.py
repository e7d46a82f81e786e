"""The C++ session that models are timed in; `tf_blade.c_session` says why not Python's.

`optimize` checks TF1 models in it, too.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from typing import NamedTuple

import tensorflow as tf
from tensorflow.core.framework import step_stats_pb2
from tensorflow.core.protobuf import config_pb2

from tf_blade.c_api import Status, c_api
from tf_blade.c_session import Call, Session

__all__ = ["Call", "Kernel", "Session", "c_api", "kernel_seconds"]

# They run what is counted itself.
_CALLERS = frozenset(
    "PartitionedCall StatefulPartitionedCall If StatelessIf Case StatelessCase While "
    "StatelessWhile".split()
)


# They read floats from bytes.
_READERS = ("Parse", "Decode")


class Kernel(NamedTuple):
    """Kernels that are counted together: of one op, and dense or not.

    Dense is what has floating-point results, but for ops that read them from bytes.
    """

    op: str
    dense: bool


def kernel_seconds(call: Call, runs: int = 5) -> Counter[Kernel]:
    """What the session's executor says that kernels take, over some runs."""
    api, status, found = c_api(), Status(), Counter[Kernel]()
    options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
    serialized = options.SerializeToString()
    given = api.TF_NewBufferFromString(serialized, len(serialized))
    session, _, *arguments = call.arguments
    for _ in range(runs):
        taken = api.TF_NewBuffer()
        try:
            # All arguments but the options, what the run tells of itself, and the status.
            api.TF_SessionRun(session, given, *arguments[:-2], taken, status.pointer)
            status.check("tracing the model")
            told = ctypes.string_at(taken.contents.data, taken.contents.length)
        finally:
            api.TF_DeleteBuffer(taken)
        for result in call.arguments[6]:
            api.TF_DeleteTensor(result)
        for device in config_pb2.RunMetadata.FromString(told).step_stats.dev_stats:
            for node in device.node_stats:
                op = node.timeline_label.partition(" = ")[2].partition("(")[0]
                if op and op not in _CALLERS:
                    taken_by_it = (node.op_end_rel_nanos - node.op_start_rel_nanos) / 1e9
                    dense = not op.startswith(_READERS) and _is_floating(node)
                    found[Kernel(op, dense)] += taken_by_it
    api.TF_DeleteBuffer(given)
    return found


def _is_floating(node: step_stats_pb2.NodeExecStats) -> bool:
    return any(
        tf.as_dtype(output.tensor_description.dtype).is_floating
        for output in node.output
        if output.tensor_description.dtype
    )
