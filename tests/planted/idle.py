"""Scenes with a gap on the device, and its causes as a table of times."""

from __future__ import annotations

from tests.planted import Scene, Stream, Thread, device_scene
from tracebraid.analysis.time.idle.idle_parts import idle_causes
from tracebraid.model.linked_trace import LinkedTrace

KERNEL_NS = 10_000
"""Duration of the kernels before and behind the gap."""


def begun() -> tuple[Scene, Thread, Stream]:
    """A scene in which a kernel runs from 8 to 18 µs, and the host has returned from its launch at 5 µs."""
    scene, host, stream = device_scene()
    host.launch(stream, "before", KERNEL_NS)
    return scene, host, stream


def causes(linked: LinkedTrace, per_step: bool = False) -> dict[tuple[str, str | None], int]:
    """Idle time in ns by cause and host activity."""
    found: dict[tuple[str, str | None], int] = {}
    rows = idle_causes(linked, per_step=per_step).select("cause", "host_activity", "idle_ns").iter_rows()
    for cause, activity, idle_ns in rows:
        found[cause, activity] = found.get((cause, activity), 0) + idle_ns
    return found
