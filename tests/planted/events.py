"""`Planted`: an event as a scene planted it, and what it is in the file."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.builders import Json, complete

OP, ANNOTATION, PYTHON = "cpu_op", "user_annotation", "python_function"
RUNTIME, DRIVER = "cuda_runtime", "cuda_driver"
KERNEL, SYNC, MEMORY = "kernel", "cuda_sync", "cpu_instant_event"


@dataclass(eq=False)
class Planted:
    """An event of a scene; what is true of it by construction.

    Args:
        event_id: its row in `timeline.events`.
        name: its name.
        category: Kineto's category.
        pid: process, or device.
        tid: thread, or stream.
        ts: start in ns, relative to the scene's `base_ns`.
        dur: duration in ns; that of a host event is set when its `with` block ends.
        args: its arguments, by their names in the file.
        parent: host events: the innermost host event that encloses it on its thread.
        op: host events: the innermost op or annotation around it; device work: that around its call.
        call: device work: the call that launched it.
    """

    event_id: int
    name: str
    category: str
    pid: int
    tid: int
    ts: int
    dur: int = 0
    args: Json = field(default_factory=dict)
    parent: Planted | None = None
    op: Planted | None = None
    call: Planted | None = None

    @property
    def end(self) -> int:
        """Its end in ns."""
        return self.ts + self.dur

    @property
    def correlation(self) -> int:
        """The correlation of a call or of device work."""
        return int(self.args["correlation"])

    @property
    def rf_id(self) -> int:
        """The record function id of an op, by which a node of an Execution Trace is found."""
        return int(self.args["Record function id"])

    def ancestors(self) -> list[Planted]:
        """The host events around it, the innermost first; for device work, those around its call."""
        found, event = [], self.parent if self.call is None else self.call
        while event is not None:
            found.append(event)
            event = event.parent
        return found

    def json(self) -> Json:
        """The event as Kineto writes it."""
        if self.category == MEMORY:
            found = complete(self.name, self.category, us(self.ts), 0, self.pid, self.tid, self.args)
            del found["dur"]
            return {**found, "ph": "i", "s": "t"}
        return complete(self.name, self.category, us(self.ts), us(self.dur), self.pid, self.tid, self.args)


def us(ns: int) -> float:
    """Microseconds with the decimals that Kineto writes."""
    return round(ns / 1000, 3)
