"""A stream of a scene: runs what is queued on it, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.builders import Json
from tests.planted.events import KERNEL, Planted

if TYPE_CHECKING:
    from tests.planted.scene import Scene


@dataclass(frozen=True)
class Recorded:
    """A CUDA event that was recorded on a stream.

    Args:
        number: the event.
        stream: the stream on which it was recorded.
        call: the call that recorded it.
        done: when the stream reaches it, in ns.
    """

    number: int
    stream: Stream
    call: Planted
    done: int


@dataclass(eq=False)
class Stream:
    """A stream; get it from `Scene.stream`.

    Args:
        scene: the scene that it belongs to.
        number: the stream.
        device: the device.
        free: when the last work queued so far ends, or the wait for an event does, in ns.
        work: what was queued on it.
    """

    scene: Scene
    number: int
    device: int = 0
    free: int = 0
    work: list[Planted] = field(default_factory=list)

    def run(
        self,
        name: str,
        dur: int,
        ready: int = 0,
        category: str = KERNEL,
        call: Planted | None = None,
        at: int | None = None,
        args: Json | None = None,
    ) -> Planted:
        """Queue work: it starts when it is ready and all work before it has ended.

        Threads queue work by `Thread.launch` and its kin; by this alone, work has no launch in the trace.

        Args:
            name: name of the kernel or copy.
            dur: its duration in ns.
            ready: the earliest start in ns.
            category: Kineto's category.
            call: the call that launches it.
            at: an exact start instead, which may overlap what is queued already.
            args: further arguments, or others than usual.
        """
        start = max(ready, self.free) if at is None else at
        fixed: Json = {"device": self.device, "context": 1, "stream": self.number}
        fixed["correlation"] = self.scene.new_correlation() if call is None else call.correlation
        if call is not None and call.op is not None and "External id" in call.op.args:
            fixed["External id"] = call.op.args["External id"]
        if category == KERNEL:
            fixed |= {"queued": 0, "grid": [1, 1, 1], "block": [128, 1, 1]}
        planted = self.scene.add(
            name, category, self.device, self.number, start, dur, {**fixed, **(args or {})}
        )
        planted.call, planted.op = call, call.op if call is not None else None
        self.work.append(planted)
        self.free = max(self.free, planted.end)
        return planted
