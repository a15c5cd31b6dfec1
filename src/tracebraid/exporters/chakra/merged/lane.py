"""The one lane of a rank: its work as a sequence, and delays between, cut where something else begins."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.merged.work import Work
from tracebraid.exporters.chakra.nodes.tasks import NONE

__all__ = ["Cuts", "Lane", "lane_of"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cuts:
    """Where the lane is cut: for communication that is issued, and where steps begin and end.

    Args:
        time_ns: when.
        moment: the moment that is reached then: what the lane waited for is what that waited for.
    """

    time_ns: _Ints
    moment: _Ints

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True, eq=False)
class Lane:
    """What follows each other on the lane; each array has an entry for each.

    Args:
        start_ns: when it starts; that of the next is never before the end.
        end_ns: when it ends.
        activity: what it is of: row of `ACTIVITIES`; -1: a delay.
        moment: the moment that it waited for: of work that of its start, of a delay that of its end.
        communication: the communication, by number, at whose end it starts; -1: it starts when the one before it ends.
        covered_ns: of the first part of work, how much of it other work covers.
        part: of an activity, 0 for the first part of it and rising.
    """

    start_ns: _Ints
    end_ns: _Ints
    activity: _Ints
    moment: _Ints
    communication: _Ints
    covered_ns: _Ints
    part: _Ints

    def __len__(self) -> int:
        return len(self.start_ns)

    def __getitem__(self, rows: _Ints) -> Lane:
        """Some of it."""
        return Lane(*(getattr(self, entry.name)[rows] for entry in fields(self)))


def lane_of(work: Work, cuts: Cuts, last: _Ints, end_ns: _Ints, begins_ns: int) -> Lane:
    """The lane of a rank, from its beginning to the last cut or the end of work.

    Work has the part of its time that no work before it covers, and is cut where the lane is. Between works is a delay,
    up to each cut: of it only what lies behind the end of communication, where that is what the lane waited for.

    Args:
        work: by its start.
        cuts: in any order.
        last: of each moment the communication that it waited for last, by number, as in `Awaited`.
        end_ns: when each communication was over.
        begins_ns: when the lane begins; no work is before.
    """
    covered_until = np.maximum.accumulate(np.r_[begins_ns, work.end_ns])[:-1]
    start = np.maximum(work.start_ns, covered_until)
    end = np.maximum(work.end_ns, start)
    order = np.lexsort((cuts.moment, cuts.time_ns))
    cuts = Cuts(cuts.time_ns[order], cuts.moment[order])
    worked = _parts(work, start, end, cuts.time_ns)
    uncovered = np.flatnonzero((end > start) | (start > covered_until))
    delays = _delays((start[uncovered], end[uncovered]), work.moment[uncovered], cuts, begins_ns)
    communication = np.where(delays.moment == NONE, NONE, last[delays.moment])
    over_ns = np.where(communication == NONE, begins_ns, end_ns[communication] if len(end_ns) else begins_ns)
    waited = over_ns > delays.start_ns
    kept = waited | (delays.end_ns > delays.start_ns)
    delays = Lane(
        np.where(waited, over_ns, delays.start_ns),
        delays.end_ns,
        delays.activity,
        delays.moment,
        np.where(waited, communication, NONE),
        delays.covered_ns,
        delays.part,
    )[np.flatnonzero(kept)]
    # Work that starts at the end of a delay without duration is behind it.
    both = Lane(*(np.r_[getattr(delays, entry.name), getattr(worked, entry.name)] for entry in fields(Lane)))
    is_work = np.r_[np.zeros(len(delays), dtype=np.int64), np.ones(len(worked), dtype=np.int64)]
    return both[np.lexsort((is_work, both.end_ns, both.start_ns))]


def _parts(work: Work, start: _Ints, end: _Ints, cut_ns: _Ints) -> Lane:
    """The works, cut: as many parts as there are cuts inside, and one more."""
    cut_ns = np.unique(cut_ns)
    first = np.searchsorted(cut_ns, start, side="right")
    inside = np.maximum(np.searchsorted(cut_ns, end, side="left") - first, 0)
    of = np.repeat(np.arange(len(work)), inside + 1)
    part = np.arange(len(of)) - np.repeat(np.cumsum(inside + 1) - inside - 1, inside + 1)
    at = first[of] + part
    if len(cut_ns):
        starts = np.where(part == 0, start[of], cut_ns[np.clip(at - 1, 0, len(cut_ns) - 1)])
        ends = np.where(part == inside[of], end[of], cut_ns[np.clip(at, 0, len(cut_ns) - 1)])
    else:
        starts, ends = start, end
    covered = work.measured_ns - (end - start)
    none = np.full(len(of), NONE, dtype=np.int64)
    return Lane(
        starts,
        ends,
        work.activity[of],
        work.moment[of],
        none,
        np.where(part == 0, covered[of], 0),
        _numbered(work.activity[of]),
    )


def _numbered(activity: _Ints) -> _Ints:
    """Of each entry how many of the same activity are before it."""
    order = np.argsort(activity, kind="stable")
    ordered = activity[order]
    new = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    number = np.empty(len(activity), dtype=np.int64)
    number[order] = np.arange(len(activity)) - np.repeat(new, np.diff(np.r_[new, len(activity)]))
    return number


def _delays(spans: tuple[_Ints, _Ints], moments: _Ints, cuts: Cuts, begins_ns: int) -> Lane:
    """All time without work, cut, as delays, each with the moment at its end."""
    start, end = spans
    idle_from, idle_to = np.r_[begins_ns, end], np.r_[start, np.iinfo(np.int64).max]
    # At the end of idle time the moment is that of the work that starts there.
    gap = np.searchsorted(idle_from, cuts.time_ns, side="left") - 1
    inside = (gap >= 0) & (cuts.time_ns < idle_to[gap])
    idle = np.flatnonzero(idle_to[:-1] > idle_from[:-1])
    gap, at = np.r_[gap[inside], idle], np.r_[cuts.time_ns[inside], idle_to[idle]]
    moment = np.r_[cuts.moment[inside], moments[idle]]
    order = np.lexsort((at, gap))
    gap, at, moment = gap[order], at[order], moment[order]
    is_first = np.r_[True, gap[1:] != gap[:-1]][: len(gap)]
    begin = np.where(is_first, idle_from[gap], np.r_[0, at[:-1]][: len(at)])
    none, zero = np.full(len(at), NONE, dtype=np.int64), np.zeros(len(at), dtype=np.int64)
    return Lane(begin, at, none, moment, none, zero, zero)
