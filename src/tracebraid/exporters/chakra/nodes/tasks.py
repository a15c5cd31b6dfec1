"""Work between points in time, and points that wait for others: what becomes nodes and their dependencies."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["NONE", "TaskKind", "Tasks", "Waits"]

_Ints = NDArray[np.int64]

NONE = -1
"""Stands for no activity, row or thread."""


class TaskKind(IntEnum):
    """What a task is."""

    HOST = 0
    """A thread works."""
    HOST_DELAY = 1
    """A thread goes on later than all that it waits for."""
    DEVICE = 2
    """Work of a device."""
    DEVICE_DELAY = 3
    """Work of a device starts later than all that it waits for."""
    COMMUNICATION = 4


@dataclass(frozen=True, eq=False)
class Tasks:
    """Work, each from a point to a later one; each array has one entry per task.

    Args:
        start: the point at which it starts.
        end: the point at which it ends.
        kind: `TaskKind`.
        activity: what it is of: row of `ACTIVITIES`.
        row: row of `CHAKRA_COMMUNICATION`; -1: it is no communication.
        lane: a number for each thread, and for each part of a stream in which every work waits for the one before it;
            -1: of neither.
    """

    start: _Ints
    end: _Ints
    kind: _Ints
    activity: _Ints
    row: _Ints
    lane: _Ints

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, rows: NDArray[np.bool_] | _Ints) -> Tasks:
        """Some of them."""
        return Tasks(*(getattr(self, entry.name)[rows] for entry in fields(self)))

    @staticmethod
    def of(
        span: tuple[_Ints, _Ints],
        kind: TaskKind,
        activity: _Ints,
        row: _Ints | None = None,
        lane: _Ints | None = None,
    ) -> Tasks:
        """Tasks of one kind, from the first points to the second."""
        none = np.full(len(activity), NONE, dtype=np.int64)
        of_kind = np.full(len(activity), int(kind), dtype=np.int64)
        return Tasks(*span, of_kind, activity, none if row is None else row, none if lane is None else lane)

    @staticmethod
    def joined(parts: list[Tasks]) -> Tasks:
        """All tasks of several lists, one behind the other."""
        return Tasks(
            *(np.concatenate([getattr(part, entry.name) for part in parts]) for entry in fields(Tasks))
        )


@dataclass(frozen=True, eq=False)
class Waits:
    """Points that are not before others.

    Args:
        before: the point that is waited for.
        after: the point that waits.
    """

    before: _Ints
    after: _Ints

    def __len__(self) -> int:
        return len(self.before)

    @staticmethod
    def joined(parts: list[Waits]) -> Waits:
        """All of several lists, one behind the other."""
        return Waits(
            np.concatenate([part.before for part in parts]), np.concatenate([part.after for part in parts])
        )
