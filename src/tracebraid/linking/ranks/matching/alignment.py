"""Two ranks' members of a group: which of one rank is which of the other?

The ends of a collective's members lie close together, so the intervals between ends are alike on both ranks,
whatever their clocks say: that tells repetitions apart, and needs no agreement of clocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracebraid.linking.ranks.matching.clock_votes import Ints, tracked_offsets, voted_offset

__all__ = ["Alignment", "Evidence", "Track", "align"]

_LEAST_TOLERANCE_NS = 20_000
"""Ends of one collective may always differ by this: what different kernels of one host were seen to differ by."""
_SPREADS = 10
"""Ends of one collective differ by at most this many times the median difference."""
_PLAUSIBLE_NS = 50_000_000
"""Clocks that are kept by NTP differ by less than 50 ms."""
_PLAUSIBLE_SHARE = 0.25
"""And what they differ by has to be less than this share of the interval between repetitions."""


@dataclass(frozen=True, eq=False)
class Track:
    """The members of a rank in a group, in the order in which they were issued.

    Args:
        tokens: a number for the type and size of each; equal numbers may be of one collective.
        ends: their ends, in ns.
        steps: a number for the step of each; -1: in none.
        starts: their starts, in ns.
        meets: whether each ends on no rank before all have started.
    """

    tokens: Ints
    ends: Ints
    steps: Ints
    starts: Ints
    meets: npt.NDArray[np.bool_]


class Evidence:
    """By what an alignment was found."""

    ORDER = 0
    """Both have the same members in the same order, which repeats nothing, or the times agree."""
    EQUAL_WINDOWS = 1
    """Both have the same members in the same order; it repeats, and neither times nor steps contradict."""
    UNIQUE = 2
    """Members that there is only one of, and the intervals between ends."""
    INTERVALS = 3
    """The intervals between ends."""
    STEPS = 4
    """The names of steps."""
    CLOCKS = 5
    """Clocks that are plausibly alike."""


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which member of `a` each member of `b` is.

    Args:
        of: for each of `b` its index in `a`; -1: none.
        offsets: what to add to each end of `b` to be on the clock of `a`, in ns.
        evidence: a member of `Evidence`.
    """

    of: Ints
    offsets: Ints
    evidence: int


def align(a: Track, b: Track, hint: int | None = None) -> Alignment | None:
    """Find the members of `b` in `a`; None where several alignments fit and nothing tells which.

    Args:
        a: the reference.
        b: another rank.
        hint: what to add to ends of `b` to be on the clock of `a`, where other groups say it.
    """
    if not len(a.tokens) or not len(b.tokens):
        return None
    equal = len(a.tokens) == len(b.tokens) and bool((a.tokens == b.tokens).all())
    steps_agree = equal and bool(((a.steps == b.steps) | (a.steps < 0) | (b.steps < 0)).all())
    if equal and steps_agree and not _repeats(a.tokens):
        return _same_order(a, b, Evidence.ORDER)
    vote = voted_offset(a.tokens, a.ends, b.tokens, b.ends, hint)
    if vote is not None:
        timed = _by_times(
            a, b, vote.at, vote.offset_ns, Evidence.UNIQUE if vote.is_unique else Evidence.INTERVALS
        )
        is_same = equal and steps_agree and bool((timed.of == np.arange(len(timed.of)))[timed.of >= 0].all())
        return _same_order(a, b, Evidence.ORDER) if is_same else timed
    if equal and steps_agree:
        # Names of several steps say more than clocks that nothing was compared with.
        plausible = None if hint is None and _in_several_steps(a, b) else _plausible(a, b, hint)
        return (
            None
            if plausible is not None and _shifted(plausible)
            else _same_order(a, b, Evidence.EQUAL_WINDOWS)
        )
    return _by_steps(a, b) or _plausible(a, b, hint)


def _same_order(a: Track, b: Track, evidence: int) -> Alignment:
    offset = int(np.median(a.ends - b.ends))
    return Alignment(np.arange(len(b.tokens)), np.full(len(b.tokens), offset), evidence)


def _in_several_steps(a: Track, b: Track) -> bool:
    """Whether all members of both are in steps, and in more than one."""
    return bool((a.steps >= 0).all() and (b.steps >= 0).all()) and len(np.unique(b.steps)) > 1


def _shifted(alignment: Alignment) -> bool:
    return not bool((alignment.of == np.arange(len(alignment.of)))[alignment.of >= 0].all())


def _repeats(tokens: Ints) -> bool:
    """Whether a sequence is like itself shifted by at most half of its length."""
    values = tokens.tolist()
    border = [0] * len(values)
    length = 0
    for row in range(1, len(values)):
        while length and values[row] != values[length]:
            length = border[length - 1]
        length += values[row] == values[length]
        border[row] = length
    return border[-1] * 2 >= len(values)


def _by_times(a: Track, b: Track, at: int, offset_ns: int, evidence: int) -> Alignment:
    """The members whose ends are each other's nearest of that type and size, once on one clock, and close."""
    offsets = tracked_offsets(a.tokens, a.ends, b.tokens, b.ends, (at, offset_ns))
    ends = b.ends + offsets
    of = np.full(len(ends), -1, dtype=np.int64)
    for token in np.unique(b.tokens):
        ours, known = np.flatnonzero(b.tokens == token), np.flatnonzero(a.tokens == token)
        if len(known):
            forth, back = _nearest(a.ends[known], ends[ours]), _nearest(ends[ours], a.ends[known])
            mutual = back[forth] == np.arange(len(ours))
            of[ours[mutual]] = known[forth[mutual]]
    found = of >= 0
    apart = np.abs(np.where(found, a.ends[of] - ends, 0))
    tolerance = max(_LEAST_TOLERANCE_NS, _SPREADS * int(np.median(apart[found]))) if found.any() else 0
    of[apart > tolerance] = -1
    of[_disagree(a.steps, b.steps, of)] = -1
    return Alignment(of, offsets, evidence)


def _disagree(a_steps: Ints, b_steps: Ints, of: Ints) -> npt.NDArray[np.bool_]:
    """Members that would be in steps of different names; where all are, names of steps are the ranks' own."""
    known = (of >= 0) & (b_steps >= 0) & (a_steps[of] >= 0)
    differ = known & (a_steps[of] != b_steps)
    return differ if differ.sum() * 2 < known.sum() else np.zeros(len(of), dtype=bool)


def _nearest(given: Ints, wanted: Ints) -> Ints:
    """The index of the value that is nearest to each wanted one."""
    order = np.argsort(given, kind="stable")
    values = given[order]
    right = np.clip(np.searchsorted(values, wanted), 1, max(len(values) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(values) - 1)
    nearer = np.abs(values[right] - wanted) < np.abs(values[left] - wanted)
    return np.asarray(order[np.where(nearer, right, left)], dtype=np.int64)


def _by_steps(a: Track, b: Track) -> Alignment | None:
    """By the offset at which members coincide of which a step has equally many on both ranks."""
    common = np.intersect1d(a.steps[a.steps >= 0], b.steps[b.steps >= 0])
    if not len(common):
        return None
    of = np.full(len(b.tokens), -1, dtype=np.int64)
    known: dict[tuple[int, int], list[int]] = {}
    for row, key in enumerate(zip(a.steps.tolist(), a.tokens.tolist(), strict=True)):
        known.setdefault(key, []).append(row)
    ours: dict[tuple[int, int], list[int]] = {}
    for row, key in enumerate(zip(b.steps.tolist(), b.tokens.tolist(), strict=True)):
        ours.setdefault(key, []).append(row)
    for key, rows in ours.items():
        if key[0] >= 0 and len(known.get(key, ())) == len(rows):
            of[rows] = known[key]
    found = np.flatnonzero(of >= 0)
    if not len(found):
        return None
    # Where each rank lost another member of a step, equal numbers mislead: most steps say what the offset is.
    apart = a.ends[of[found]] - b.ends[found]
    middle = np.argsort(apart, kind="stable")[len(apart) // 2]
    timed = _by_times(a, b, int(found[middle]), int(apart[middle]), Evidence.STEPS)
    return timed if (timed.of[found] == of[found]).sum() * 2 >= len(found) else None


def _plausible(a: Track, b: Track, hint: int | None) -> Alignment | None:
    """By what other groups say of the clocks, else by the clocks as they are.

    Their difference has to be far less than the interval between repetitions.
    """
    found = _by_times(a, b, 0, hint or 0, Evidence.CLOCKS)
    matched = found.of >= 0
    if not matched.any():
        return None
    apart = int(np.median(np.abs(a.ends[found.of[matched]] - b.ends[matched] - (hint or 0))))
    gaps = np.diff(np.sort(a.ends))
    interval = int(np.median(gaps)) if len(gaps) else _PLAUSIBLE_NS
    return found if apart < min(_PLAUSIBLE_NS, _PLAUSIBLE_SHARE * interval) else None
