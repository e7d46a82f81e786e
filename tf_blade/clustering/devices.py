"""Device strings of nodes: what they fix, and whether two of them can be met by one node."""

from __future__ import annotations

import re

# Fields of a device name, each None where the string leaves it open.
Device = tuple[str | None, str | None, str | None, str | None, str | None]

ANYWHERE: Device = (None, None, None, None, None)
_FIELDS = ("job", "replica", "task", "device", "index")


def parse(text: str) -> Device:
    """Fields of "/job:a/replica:0/task:0/device:CPU:0", also in the old form "/cpu:0"."""
    fields: dict[str, str] = {}
    for part in filter(None, text.split("/")):
        key, _, value = part.partition(":")
        if key.lower() in ("cpu", "gpu"):
            key, value = "device", f"{key}:{value}"
        if key == "device":
            kind, _, index = value.partition(":")
            fields["device"] = kind.upper()
            if index and index != "*":
                fields["index"] = index
        elif value != "*":
            fields[key] = value
    return (
        fields.get("job"),
        fields.get("replica"),
        fields.get("task"),
        fields.get("device"),
        fields.get("index"),
    )


def is_cpu(device: Device) -> bool:
    """Whether the device is the host's, or left open."""
    return device[3] in (None, "CPU")


def combine(a: Device, b: Device) -> Device | None:
    """The device that satisfies both, or None if they contradict each other."""
    if a == b:
        return a
    if any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True)):
        return None
    joined = [x if x is not None else y for x, y in zip(a, b, strict=True)]
    return (joined[0], joined[1], joined[2], joined[3], joined[4])


def text(device: Device) -> str:
    """The device as TensorFlow writes it; "" for one that fixes nothing."""
    parts = [f"/{k}:{v}" for k, v in zip(_FIELDS, device, strict=True) if v is not None]
    return re.sub(r"/index:", ":", "".join(parts))
