"""What communication the lane of a rank waits for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.merged.awaited import Awaited
from tracebraid.exporters.chakra.merged.lane import Lane
from tracebraid.exporters.chakra.nodes.tasks import NONE

__all__ = ["waits_of"]

_Ints = NDArray[np.int64]


def waits_of(lane: Lane, awaited: Awaited, end_ns: _Ints, event: _Ints) -> tuple[_Ints, _Ints]:
    """Entries of a lane, and the entry of what is issued that each waits for.

    An entry waits for what its moment waited for, if that was over when the entry started, and nothing before it on the
    lane has waited for it; and for that at whose end it starts.

    Args:
        lane: of a rank.
        awaited: of the same rank.
        end_ns: when each event of communication was over.
        event: of each entry of what is issued, its event: a kernel of sends and receives has several.
    """
    own = np.flatnonzero(lane.communication != NONE)
    entries, events = [own], [lane.communication[own]]
    position = np.empty(len(end_ns), dtype=np.int64)
    position[np.argsort(end_ns, kind="stable")] = np.arange(len(end_ns))
    for latest in awaited.by_lane:
        waited = np.where(lane.moment == NONE, NONE, latest[lane.moment])
        known = (waited != NONE) & (end_ns[waited] <= lane.start_ns)
        newest = np.maximum.accumulate(np.where(known, position[waited], NONE))
        new = np.flatnonzero(newest > np.r_[NONE, newest[:-1]][: len(newest)])
        entries.append(new)
        events.append(waited[new])
    return _of_events(np.concatenate(entries), np.concatenate(events), event)


def _of_events(entry: _Ints, waited: _Ints, event: _Ints) -> tuple[_Ints, _Ints]:
    """The same for each of the entries of an event that is waited for."""
    by_event = np.argsort(event, kind="stable")
    first = np.searchsorted(event[by_event], waited, side="left")
    count = np.searchsorted(event[by_event], waited, side="right") - first
    of = np.repeat(np.arange(len(entry)), count)
    within = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    return entry[of], by_event[first[of] + within]
