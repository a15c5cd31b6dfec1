"""A hypothesis strategy of scenes that are sound: whatever holds of every trace holds of these."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.planted import Copy, Scene, Thread

NAMES = ["aten::add", "aten::mm", "aten::linear", "ddp", "forward"]
KERNELS = ["gemm", "elementwise", "softmax"]

_LENGTHS = st.integers(1, 20_000)


@dataclass(frozen=True)
class Action:
    """What the thread with the earliest clock does next.

    Args:
        kind: a key of `ACTIONS`.
        ns: a duration.
        number: which name or kernel.
        stream: which stream, counted from 0.
    """

    kind: str
    ns: int
    number: int
    stream: int


@dataclass
class _Actor:
    """A thread with the ends of what it has open."""

    thread: Thread
    ends: list[ExitStack] = field(default_factory=list)

    def enter(self, kind: str, name: str, ns: int) -> None:
        ends = ExitStack()
        ends.enter_context(getattr(self.thread, kind)(name, ns))
        self.ends.append(ends)

    def leave(self) -> None:
        if self.ends:
            self.thread.spend(1)
            self.ends.pop().close()


@st.composite
def scenes(draw: st.DrawFn, device: bool = True, most_actions: int = 40) -> Scene:
    """Scenes of 1 to 3 threads and streams: ops and annotations that nest, steps, launches, copies, waits.

    Streams run in the order of the calls; every host event lasts at least 1 ns, and so does all work.

    Args:
        draw: given by hypothesis.
        device: whether anything may run on a device.
        most_actions: the most that happens.
    """
    kinds = [kind for kind in ACTIONS if device or kind in HOST_KINDS]
    action = st.builds(Action, st.sampled_from(kinds), _LENGTHS, st.integers(0, 9), st.integers(0, 2))
    actions = draw(st.lists(action, max_size=most_actions))
    return scene_of(actions, draw(st.integers(1, 3)), draw(st.integers(1, 3)))


def scene_of(actions: list[Action], threads: int = 1, streams: int = 1) -> Scene:
    """The scene in which this happens, in this order."""
    scene = Scene(device_annotations=True)
    actors = [_Actor(scene.thread(start=number)) for number in range(threads)]
    for action in actions:
        actor = min(actors, key=lambda some: some.thread.now)
        ACTIONS[action.kind](actor, action, streams)
    for actor in actors:
        while actor.ends:
            actor.leave()
    return scene


def _spend(actor: _Actor, action: Action, streams: int) -> None:
    actor.thread.spend(action.ns)


def _op(actor: _Actor, action: Action, streams: int) -> None:
    actor.enter("op", NAMES[action.number % len(NAMES)], action.ns)


def _annotation(actor: _Actor, action: Action, streams: int) -> None:
    actor.enter("annotation", NAMES[action.number % len(NAMES)], action.ns)


def _frame(actor: _Actor, action: Action, streams: int) -> None:
    actor.enter("frame", f"train.py({action.number}): step", action.ns)


def _step(actor: _Actor, action: Action, streams: int) -> None:
    """A step begins on the main thread, where nothing is open."""
    if actor.thread.number == 1 and not actor.ends:
        actor.enter("annotation", f"ProfilerStep#{actor.thread.scene.count('step')}", 1)
    else:
        actor.thread.spend(action.ns)


def _leave(actor: _Actor, action: Action, streams: int) -> None:
    actor.thread.spend(1)
    actor.leave()


def _launch(actor: _Actor, action: Action, streams: int) -> None:
    stream = actor.thread.scene.stream(7 + action.stream % streams)
    actor.thread.launch(stream, KERNELS[action.number % len(KERNELS)], action.ns)


def _copy(actor: _Actor, action: Action, streams: int) -> None:
    stream = actor.thread.scene.stream(7 + action.stream % streams)
    kind = list(Copy)[action.number % len(Copy)]
    actor.thread.copy(stream, kind, 4 * action.ns, action.ns, blocking=action.number % 2 == 0)


def _fill(actor: _Actor, action: Action, streams: int) -> None:
    actor.thread.fill(actor.thread.scene.stream(7 + action.stream % streams), 4 * action.ns, action.ns)


def _replay(actor: _Actor, action: Action, streams: int) -> None:
    stream = actor.thread.scene.stream(7 + action.stream % streams)
    kernels = [(KERNELS[i % len(KERNELS)], action.ns + i) for i in range(1 + action.number)]
    actor.thread.replay(stream, kernels, graph=1 + action.stream)


def _collective(actor: _Actor, action: Action, streams: int) -> None:
    actor.thread.collective(actor.thread.scene.stream(7 + action.stream % streams), action.ns)


def _wait_event(actor: _Actor, action: Action, streams: int) -> None:
    scene, thread = actor.thread.scene, actor.thread
    recorded = thread.record(scene.stream(7 + action.number % streams))
    thread.wait_event(scene.stream(7 + action.stream % streams), recorded)


def _synchronize(actor: _Actor, action: Action, streams: int) -> None:
    actor.thread.synchronize(actor.thread.scene.stream(7 + action.stream % streams), action.number % 2 == 0)


def _allocate(actor: _Actor, action: Action, streams: int) -> None:
    actor.thread.release(actor.thread.allocate(512 * (1 + action.number)))


ACTIONS: dict[str, Callable[[_Actor, Action, int], None]] = {
    "spend": _spend,
    "op": _op,
    "annotation": _annotation,
    "frame": _frame,
    "step": _step,
    "leave": _leave,
    "launch": _launch,
    "copy": _copy,
    "fill": _fill,
    "replay": _replay,
    "collective": _collective,
    "wait_event": _wait_event,
    "synchronize": _synchronize,
    "allocate": _allocate,
}
"""What can happen, by its name."""

HOST_KINDS = ("spend", "op", "annotation", "frame", "step", "leave")
"""What needs no device."""
