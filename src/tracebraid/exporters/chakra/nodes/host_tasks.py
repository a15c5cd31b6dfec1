"""The time of threads as tasks, from one moment at which a thread meets something else to the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.nodes.handed_on import Cuts
from tracebraid.exporters.chakra.nodes.tasks import TaskKind, Tasks, Waits
from tracebraid.exporters.chakra.nodes.threads import Threads

__all__ = ["HostTasks", "Line", "host_tasks", "line_of"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Line:
    """The moments and cuts of all threads in their order, one thread behind the other.

    Args:
        point: the point.
        times_ns: when it is.
        thread: its thread.
        is_first: whether it is the first of its thread.
        waited: whether the thread waited since the point before.
        owner: activity to which the time since the point before belongs.
        communicates: whether the thread communicates in the time behind the point.
    """

    point: _Ints
    times_ns: _Ints
    thread: _Ints
    is_first: _Flags
    waited: _Flags
    owner: _Ints
    communicates: _Flags

    def __len__(self) -> int:
        return len(self.point)

    def rows(self, points: _Ints) -> _Ints:
        """The row of each point; -1: it is on no thread."""
        found = np.full(int(max(points.max(initial=-1), self.point.max(initial=-1))) + 1, -1, dtype=np.int64)
        found[self.point] = np.arange(len(self.point))
        rows: _Ints = found[points]
        return rows

    def ends(self) -> _Flags:
        """Whether a row is the first or last of its thread, or an end of a wait."""
        found = self.is_first | self.waited
        found[:-1] |= self.is_first[1:] | self.waited[1:]
        found[-1:] = True
        return found

    def changes(self, owners: _Ints) -> _Flags:
        """Whether behind a row the time belongs to another activity than before it.

        Args:
            owners: of each activity that which counts.
        """
        lasts = np.zeros(len(self.point), dtype=np.bool_)
        lasts[1:] = (self.times_ns[1:] > self.times_ns[:-1]) & ~self.is_first[1:]
        rows = np.flatnonzero(lasts)
        owner = owners[self.owner[rows]]
        found = np.zeros(len(self.point), dtype=np.bool_)
        found[rows[:-1]] = owner[1:] != owner[:-1]
        return found


@dataclass(frozen=True, eq=False)
class HostTasks:
    """What threads do.

    Args:
        tasks: their work.
        waits: from point to point of a thread where it does nothing between them.
    """

    tasks: Tasks
    waits: Waits


def line_of(threads: Threads, cuts: Cuts) -> Line:
    """The moments and cuts of all threads in their order.

    Args:
        threads: of a rank.
        cuts: points inside their work.
    """
    position = np.r_[cuts.position, np.arange(len(threads.moments))]
    times_ns = np.r_[cuts.times_ns, threads.times_ns]
    point = np.r_[cuts.first + np.arange(len(cuts.position)), threads.moments]
    order = np.lexsort((times_ns, position))
    at = position[order]
    is_cut = point[order] >= cuts.first
    return Line(
        point[order],
        times_ns[order],
        threads.thread[at],
        threads.is_first[at],
        threads.waited[at],
        threads.owner[at],
        threads.communicates[at] & ~is_cut,
    )


def host_tasks(line: Line, is_cut: _Flags, taken: _Flags, owners: _Ints) -> HostTasks:
    """The work between cuts, and the waits.

    Args:
        line: the points of threads.
        is_cut: whether each is a cut; all of `Line.ends` are.
        taken: rows up to which, from the cut before, the time is something else, such as communication.
        owners: of each activity that which its time belongs to.
    """
    cut = np.flatnonzero(is_cut)
    begin, end = cut[:-1], cut[1:]
    own = ~line.is_first[end] & ~taken[end]
    begin, end = begin[own], end[own]
    lasts = line.times_ns[end] > line.times_ns[begin]
    works = lasts & ~line.waited[end]
    span = (line.point[begin[works]], line.point[end[works]])
    activity = owners[line.owner[_first_that_lasts(line, begin[works])]]
    tasks = Tasks.of(span, TaskKind.HOST, activity, lane=line.thread[end[works]])
    return HostTasks(tasks, Waits(line.point[begin[~works]], line.point[end[~works]]))


def _first_that_lasts(line: Line, begin: _Ints) -> _Ints:
    """The first row behind each that is later than it."""
    every = np.arange(len(line))
    later = np.zeros(len(line), dtype=np.bool_)
    later[1:] = line.times_ns[1:] > line.times_ns[:-1]
    following = np.minimum.accumulate(np.where(later, every, len(line))[::-1])[::-1]
    found: _Ints = following[begin + 1]
    return found
