"""The loops of a program that does not mark its steps, and which of them is followed."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

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


@dataclass
class Loop:
    """One loop: an optimizer that steps, or a module that is called.

    Args:
        kind: what ends its steps.
        name: the class of the optimizer or module.
        owner: returns that object; None once it is deleted.
        thread: the thread that took its first step; others are not counted.
        steps: how many have ended.
        since_followed: how many since the loop that is followed took its last one.
    """

    kind: LoopKind
    name: str
    owner: Callable[[], Any]
    thread: int
    steps: int = 0
    since_followed: int = 0


class Loops:
    """Counts the steps of each loop, and says which loop is followed.

    That is the first loop, until a loop of a greater kind takes a step; or until it is over before all its windows
    are recorded: its object is deleted, or another loop of its kind has taken many steps since its last.
    """

    def __init__(self) -> None:
        self.followed: Loop | None = None
        self.has_all_windows = False
        self._loops: dict[tuple[int, LoopKind], Loop] = {}
        self._forgotten: dict[tuple[LoopKind, str], int] = {}

    def stepped(self, owner: object, kind: LoopKind, thread: int, may_follow: bool = True) -> Loop | None:
        """Count a step; returns its loop, if that is the followed one."""
        loop = self._loop_of(owner, kind, thread)
        if loop.thread != thread:
            return None
        loop.steps += 1
        loop.since_followed += 1
        if loop is not self.followed:
            if not may_follow or not self._is_over(loop):
                return None
            self.followed, self.has_all_windows = loop, False
        for other in self._loops.values():
            other.since_followed = 0
        return loop

    def summary(self) -> list[dict[str, Any]]:
        """The loops, the most steps first: `counted_by`, `name`, `training`, `steps`, `followed`."""
        self._forget()
        rows = [(loop.kind, loop.name, loop.steps, loop is self.followed) for loop in self._loops.values()]
        # A followed loop whose object was deleted is among the dropped ones, under its kind and name.
        gone = self.followed if not any(is_followed for *_, is_followed in rows) else None
        rows += [
            (kind, name, steps, gone is not None and (kind, name) == (gone.kind, gone.name))
            for (kind, name), steps in self._forgotten.items()
        ]
        return [
            {
                "counted_by": kind.counted_by,
                "name": name,
                "training": kind >= LoopKind.TRAINING_MODULE,
                "steps": steps,
                "followed": is_followed,
            }
            for kind, name, steps, is_followed in sorted(rows, key=lambda row: -row[2])
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
            if loop.owner() is None:
                name = (loop.kind, loop.name)
                self._forgotten[name] = self._forgotten.get(name, 0) + loop.steps
                del self._loops[key]


def _reference(owner: object) -> Callable[[], Any]:
    try:
        return weakref.ref(owner)
    except TypeError:
        return lambda: owner
