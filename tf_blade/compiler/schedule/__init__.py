"""Scheduling: loops and buffers for each group of a plan."""

from tf_blade.compiler.schedule.schedule import Schedule, schedule

__all__ = ["Schedule", "schedule"]
