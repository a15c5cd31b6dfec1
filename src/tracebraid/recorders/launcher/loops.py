"""The loops of a program that does not mark its steps, and which of them is followed."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from msgspec import Struct, field

_STEPS_OF_ANOTHER = 16
"""Steps: the followed loop counts as over once another loop took more of them while it took none. Above the critic's
steps in a step of a GAN, or the optimizers of a round; few enough to catch a program's next phase."""

_KEPT = 256
"""Number of loops above which those of deleted objects are dropped; their step counts are kept."""


class LoopKind(IntEnum):
    """Event that ends a step of a loop; the loop of the highest kind is followed."""

    PLAIN_MODULE = 0
    """A call of an outermost module without parameters, such as a transform of the data."""
    MODULE = 1
    """A call of an outermost module that computes no gradients."""
    TRAINING_MODULE = 2
    """A call of an outermost module that is being trained."""
    OPTIMIZER = 3
    """The step of an optimizer."""

    @property
    def counted_by(self) -> str:
        """The word for it in manifests."""
        return "optimizer" if self is LoopKind.OPTIMIZER else "module"


class Loop(Struct):
    """One loop: an optimizer that steps, or a module that is called.

    Args:
        kind: what ends its steps.
        name: the class of the optimizer or module.
        owner: returns that object; None once it is deleted.
        thread: the thread that took its first step.
        steps: how many have ended.
        steps_elsewhere: how many have ended on other threads and do not count.
        threads: the threads that took steps, up to `_KEPT`.
        since_followed: how many since the loop that is followed took its last one.
        counted_to_end: whether later steps would be counted too.
    """

    kind: LoopKind
    name: str
    owner: Callable[[], Any]
    thread: int
    steps: int = 0
    steps_elsewhere: int = 0
    threads: set[int] = field(default_factory=set)
    since_followed: int = 0
    counted_to_end: bool = True


class Loops:
    """Counts the steps of each loop, and says which loop is followed.

    That is the first loop, until a loop of a greater kind takes a step; or until it is over before all its windows
    are recorded: its object is deleted, or another loop of its kind has taken many steps since its last.

    Args:
        of_one_thread: whether only the thread of its first step counts the steps of a loop.
    """

    def __init__(self, of_one_thread: bool = False) -> None:
        self.followed: Loop | None = None
        self.has_all_windows = False
        self._of_one_thread = of_one_thread
        self._loops: dict[tuple[int, LoopKind], Loop] = {}
        self._forgotten: dict[tuple[LoopKind, str], _Forgotten] = {}

    def stepped(self, owner: object, kind: LoopKind, thread: int, may_follow: bool = True) -> Loop | None:
        """Count a step; returns its loop, if that is the followed one."""
        loop = self._loop_of(owner, kind, thread)
        if not self.count(loop, thread):
            return None
        loop.since_followed += 1
        if loop is not self.followed:
            if not may_follow or not self._is_over(loop):
                return None
            self.followed, self.has_all_windows = loop, False
        for other in list(self._loops.values()):
            other.since_followed = 0
        return loop

    def of_optimizers(self) -> dict[int, Loop]:
        """The loops of optimizers, by the ids of these."""
        return {of: loop for (of, kind), loop in self._loops.items() if kind is LoopKind.OPTIMIZER}

    def stop_counting_modules(self, but: Loop | None) -> None:
        """Note that steps of modules are counted no further, except those of one loop."""
        for loop in self._loops.values():
            loop.counted_to_end = loop is but or loop.kind is LoopKind.OPTIMIZER

    def count(self, loop: Loop, thread: int) -> bool:
        """Count a step, and do nothing else; whether it is on a thread that counts."""
        if len(loop.threads) < _KEPT:
            loop.threads.add(thread)
        if self._of_one_thread and thread != loop.thread:
            loop.steps_elsewhere += 1
            return False
        loop.steps += 1
        return True

    def summary(self) -> list[dict[str, Any]]:
        """The loops, the most steps first; those of deleted objects of a class as one.

        Members: `counted_by`, `name`, `training`, `steps`, `followed`; `longest`: the most steps of one object;
        `objects`: how many objects of this class took such steps; `threads`: how many threads took them;
        `steps_elsewhere`: steps on other threads that do not count; `counted_to_end`: whether `steps` has those of the
        whole program.
        """
        self._forget()
        followed = self.followed
        rows = [(loop, loop is followed, loop.steps) for loop in self._loops.values()]
        # A followed loop whose object was deleted is among the dropped ones, under its kind and name.
        gone = followed if not any(is_followed for _, is_followed, _ in rows) else None
        rows += [
            (one.sum, gone is not None and (gone.kind, gone.name) == key, one.longest)
            for key, one in self._forgotten.items()
        ]
        objects = Counter((loop.kind, loop.name) for loop in self._loops.values())
        for key, one in self._forgotten.items():
            objects[key] += one.objects
        return [
            {
                "counted_by": loop.kind.counted_by,
                "name": loop.name,
                "training": loop.kind >= LoopKind.TRAINING_MODULE,
                "steps": loop.steps,
                "followed": is_followed,
                "longest": longest,
                "objects": objects[loop.kind, loop.name],
                "threads": len(loop.threads),
                "steps_elsewhere": loop.steps_elsewhere,
                "counted_to_end": loop.counted_to_end,
            }
            for loop, is_followed, longest in sorted(rows, key=lambda row: -row[0].steps)
        ]

    def _is_over(self, other: Loop) -> bool:
        """Return whether the followed loop is over, now that another one has taken a step."""
        followed = self.followed
        if followed is None or other.kind > followed.kind:
            return True
        if self.has_all_windows or other.kind < followed.kind:
            return False
        return followed.owner() is None or other.since_followed > _STEPS_OF_ANOTHER

    def _loop_of(self, owner: object, kind: LoopKind, thread: int) -> Loop:
        key = (id(owner), kind)
        loop = self._loops.get(key)
        if loop is None or loop.owner() is not owner:
            if loop is not None or len(self._loops) >= _KEPT:
                self._forget()
            loop = self._loops[key] = Loop(kind, type(owner).__name__, _reference(owner), thread)
        return loop

    def _forget(self) -> None:
        for key, loop in list(self._loops.items()):
            if loop.owner() is None and self._loops.pop(key, None) is not None:
                one = self._forgotten.setdefault(
                    (loop.kind, loop.name), _Forgotten(Loop(loop.kind, loop.name, loop.owner, loop.thread))
                )
                one.add(loop)


class _Forgotten(Struct):
    """Sums over the loops of deleted objects of a class."""

    sum: Loop
    objects: int = 0
    longest: int = 0

    def add(self, loop: Loop) -> None:
        self.objects += 1
        self.longest = max(self.longest, loop.steps)
        self.sum.steps += loop.steps
        self.sum.steps_elsewhere += loop.steps_elsewhere
        self.sum.counted_to_end &= loop.counted_to_end
        if len(self.sum.threads) < _KEPT:
            self.sum.threads |= loop.threads


def _reference(owner: object) -> Callable[[], Any]:
    try:
        return weakref.ref(owner)
    except TypeError:
        return lambda: owner
