"""Partial runs of sessions, which bring inputs one after the other.

A cluster waits for all of its inputs, also for those that a later part of the run would bring. What
TensorFlow hands over doesn't say that a graph is for partial runs; so these are never compiled.
"""

from __future__ import annotations

import functools
from typing import Any

from tensorflow.python.client.session import BaseSession

from tf_blade.just_in_time.switch import Switch


def leave_alone(switch: Switch) -> None:
    """Has the graphs of partial runs, which TensorFlow prepares as they are set up, stay as they
    are."""
    set_up = BaseSession.partial_run_setup

    @functools.wraps(set_up)
    def paused(*args: Any, **kwargs: Any) -> Any:
        with switch.paused():
            return set_up(*args, **kwargs)

    BaseSession.partial_run_setup = paused
