"""Can the members that were aligned be of the same collectives, by their starts and ends?"""

from __future__ import annotations

import numpy as np

from tracebraid.linking.ranks.matching.clock_votes import Floats, Ints
from tracebraid.model.units import NS_PER_MS

__all__ = ["can_meet"]

_BLOCK = 64
"""Members over which a clock's drift is a line."""
_LEAST = 8
"""Members from which on times say whether they meet."""
_MOST_DRIFT = 1e-3
"""No clock drifts more: see `MOST_DRIFT_PPM` of clocks."""
_SLACK_NS = 20_000
"""What a time may be off against another of its rank."""
_MOST_APART = 0.1
"""Share of the members that may miss each other, by wrong times; of those of different collectives most do."""


def can_meet(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> bool:
    """Whether there are clocks by which most pairs overlap: no rank ends before all have started.

    Args:
        a: starts and ends of members of a rank, in order, of types that wait for all ranks.
        b: of those that are said to be of the same collectives, on another rank.
    """
    (a_starts, a_ends), (b_starts, b_ends) = a, b
    if len(a_ends) < _LEAST:
        return True
    met = 0
    for start in range(0, len(a_ends), _BLOCK):
        block = slice(start, start + _BLOCK)
        drift = _drift(b_ends[block], a_ends[block] - b_ends[block])
        least = (a_starts - b_ends)[block] - drift - _SLACK_NS
        most = (a_ends - b_starts)[block] - drift + _SLACK_NS
        met += _most_at_once(least, most)
    return len(a_ends) - met <= _MOST_APART * len(a_ends)


def _most_at_once(least: Floats, most: Floats) -> int:
    """How many of the intervals of possible offsets hold the offset that the most of them hold."""
    firsts, lasts = np.sort(least), np.sort(most)
    # At the start of an interval all are open that began by then and did not end before.
    return int((np.arange(1, len(firsts) + 1) - np.searchsorted(lasts, firsts)).max())


def _drift(own: Ints, apart: Ints) -> Floats:
    """How much more than at the first end the clocks are apart at each end, along a robust line."""
    time = (own - own[0]).astype(np.float64)
    rest = (apart - apart[0]).astype(np.float64)
    half = len(time) // 2
    run, rise = time[half:] - time[: len(time) - half], rest[half:] - rest[: len(time) - half]
    later = run >= NS_PER_MS
    slope = float(np.median(rise[later] / run[later])) if later.any() else 0.0
    found: Floats = min(max(slope, -_MOST_DRIFT), _MOST_DRIFT) * time
    return found
