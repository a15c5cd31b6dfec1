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
    missed = 0
    for start in range(0, len(a_ends), _BLOCK):
        block = slice(start, start + _BLOCK)
        own, apart = b_ends[block], a_ends[block] - b_ends[block]
        fit = _line(own, apart)
        late = (apart - fit) - (a_ends - a_starts)[block] > _SLACK_NS
        early = (fit - apart) - (b_ends - b_starts)[block] > _SLACK_NS
        missed += int((late | early).sum())
    return missed <= _MOST_APART * len(a_ends)


def _line(own: Ints, apart: Ints) -> Floats:
    """A robust line through the differences of ends, at each end."""
    time = (own - own[0]).astype(np.float64)
    rest = (apart - apart[0]).astype(np.float64)
    half = len(time) // 2
    run, rise = time[half:] - time[: len(time) - half], rest[half:] - rest[: len(time) - half]
    later = run >= NS_PER_MS
    slope = float(np.median(rise[later] / run[later])) if later.any() else 0.0
    slope = min(max(slope, -_MOST_DRIFT), _MOST_DRIFT)
    fit = slope * time
    found: Floats = float(apart[0]) + fit + float(np.median(rest - fit))
    return found
