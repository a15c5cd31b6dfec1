"""Which stages of a linked trace a question asks: what was noticed in these is known with its answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import IntFlag
from typing import Any, TypeVar

from tracebraid.model.kept import KeptValues
from tracebraid.model.linked_trace import LinkedTrace, LinkStages
from tracebraid.model.stage import Stage

__all__ = ["Touched", "TouchedTrace"]

T = TypeVar("T")


class Touched(IntFlag):
    """Stages, by what is noticed in them."""

    NOTHING = 0
    ET = 1
    TREE = 2
    LINKS = 4
    DEPENDENCIES = 8


_WITH_ET = Touched.ET | Touched.TREE | Touched.LINKS
_OF_STAGE = {
    "et": Touched.ET,
    "host_tree": Touched.TREE,
    "host_tree_by_et": _WITH_ET,
    "host_links": _WITH_ET,
    "node_links": _WITH_ET,
    "matched": _WITH_ET,
    "launches": Touched.TREE,
    "device_links": _WITH_ET,
    "forward_backward": Touched.NOTHING,
    "dependencies": Touched.TREE | Touched.DEPENDENCIES,
    "coverage": _WITH_ET,
}
"""What asking a stage computes, with the stages that it asks itself: as `linking.link_traces` makes them."""


class _Log:
    """What was touched since it was looked at last."""

    def __init__(self) -> None:
        self.touched = Touched.NOTHING

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Start with nothing, and add what was before when the block ends."""
        before, self.touched = self.touched, Touched.NOTHING
        try:
            yield
        finally:
            self.touched |= before


class _TouchedStage(Stage[T]):
    """A stage that notes that it was asked."""

    def __init__(self, stage: Stage[T], touches: Touched, log: _Log) -> None:
        super().__init__(stage)
        self._touches, self._log = touches, log

    def __call__(self) -> T:
        self._log.touched |= self._touches
        return super().__call__()


class _TouchedValues(KeptValues):
    """Kept values that note what each was made of, whenever it is asked for."""

    def __init__(self, log: _Log) -> None:
        super().__init__()
        self._log, self._made_of = log, dict[Hashable, Touched]()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        with self._log.apart():
            value = super().get(key, compute)
            touched = self._log.touched | self._made_of.get(key, Touched.NOTHING)
            self._made_of[key] = self._log.touched = touched
        return value


class TouchedTrace(LinkedTrace):
    """The linked trace of a rank, which tells what a question touched."""

    _log: _Log

    @classmethod
    def of(cls, linked: LinkedTrace) -> TouchedTrace:
        """One of these that shares the stages of another, and none of the values derived from it."""
        log = _Log()
        members: dict[str, Any] = {name: getattr(linked.stages, name) for name in _OF_STAGE}
        touched: dict[str, Any] = {
            name: None if stage is None else _TouchedStage(stage, _OF_STAGE[name], log)
            for name, stage in members.items()
        }
        trace = cls(linked.timeline, LinkStages(**touched), _TouchedValues(log))
        object.__setattr__(trace, "_log", log)
        return trace

    def asked(self, question: Callable[[LinkedTrace], T]) -> tuple[T, Touched]:
        """The answer, and what was touched for it."""
        self._log.touched = Touched.NOTHING
        value = question(self)
        return value, self._log.touched
