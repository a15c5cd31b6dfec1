"""Match members of collectives by order, types, sizes and times, if numbers are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from tracebraid.model.collectives import MatchMethod
from tracebraid.model.quantities import NS_PER_MS

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

_WINDOW = 32
"""Window of members that vote for an offset: small enough that clocks do not drift within it."""
_WINDOWS = 6
"""Windows that are tried, spread over the track."""
_UNIT_NS = 1_000
"""Differences of ends below a microsecond say nothing: old traces are rounded to it."""
_MOST_NS = 100_000_000
"""Differences beyond say no more than this one."""
_LEAST_BITS = 20.0
"""Minimum margin of the best offset over the next, in bits: a million to one, for thousands of offsets."""
_BLOCK = 64
"""Members over which a clock's drift is followed at a time."""


class Vote(Struct, frozen=True):
    """An offset that the intervals between ends tell from all others.

    Args:
        at: the member of `b` near which it was found.
        offset_ns: what to add to an end of `b` there.
        is_unique: a member of that type and size is only once in `a`.
    """

    at: int
    offset_ns: int
    is_unique: bool


def voted_offset(a_tokens: Ints, a_ends: Ints, b_tokens: Ints, b_ends: Ints, hint: int | None) -> Vote | None:
    """The offset under which ends of `b` coincide with ends of `a` far better than under any other; None: none does.

    The evidence of an offset is the sum over members of log2 of the difference between the end and the nearest of
    its type and size: what is due to chance has differences of about the interval between them.
    """
    ends_of = {int(token): np.sort(a_ends[a_tokens == token]) for token in np.unique(a_tokens)}
    last = max(0, len(b_tokens) - _WINDOW)
    for start in dict.fromkeys(np.linspace(last, 0, _WINDOWS).astype(int)[[3, 1, 4, 0, 2, 5]].tolist()):
        window = np.arange(start, min(start + _WINDOW, len(b_tokens)))
        found = _voted(ends_of, b_tokens, b_ends, window, hint)
        if found is not None:
            return found
    return None


def _voted(
    ends_of: dict[int, Ints], b_tokens: Ints, b_ends: Ints, window: Ints, hint: int | None
) -> Vote | None:
    there = [row for row in window.tolist() if int(b_tokens[row]) in ends_of]
    if len(there) < 2:
        return None
    # Any of the members may be lost on the other rank: several of them propose offsets.
    rarest = sorted(there, key=lambda row: len(ends_of[int(b_tokens[row])]))
    voters = rarest[:: max(1, len(rarest) // 4)][:4]
    offers = np.unique(np.concatenate([ends_of[int(b_tokens[row])] - b_ends[row] for row in voters]))
    if hint is not None:
        offers = np.unique(np.append(offers, hint))
    bits = _bits(offers, ends_of, b_tokens[window], b_ends[window])
    best = int(bits.argmin())
    apart = np.abs(offers - offers[best])
    rivals = bits[apart > _rival_distance(ends_of, b_ends[window])]
    if len(rivals) and rivals.min() - bits[best] < _LEAST_BITS:
        return None
    alone = _LEAST_BITS if not len(rivals) else 0.0
    most = len(window) * np.log2(1 + _MOST_NS / _UNIT_NS)
    if alone and most - bits[best] < alone:
        return None
    offset = _refined(int(offers[best]), ends_of, b_tokens[window], b_ends[window])
    unique = any(len(ends_of[int(b_tokens[row])]) == 1 for row in there)
    return Vote(int(window[len(window) // 2]), offset, unique)


def _rival_distance(ends_of: dict[int, Ints], b_ends: Ints) -> int:
    """Offsets closer than this are the same alignment: half of the median interval between ends."""
    gaps = np.diff(np.sort(b_ends))
    gaps = gaps[gaps > 0]
    return int(np.median(gaps)) // 2 if len(gaps) else _UNIT_NS


def _bits(offers: Ints, ends_of: dict[int, Ints], tokens: Ints, ends: Ints) -> Floats:
    """For each offset the sum of log2 of the differences, in units."""
    total = np.zeros(len(offers))
    for token in np.unique(tokens):
        ours = ends[tokens == token]
        known = ends_of.get(int(token))
        if known is None:
            total += len(ours) * np.log2(1 + _MOST_NS / _UNIT_NS)
            continue
        apart = np.abs(_signed(known, (ours[None, :] + offers[:, None]).ravel()))
        total += np.log2(1 + np.minimum(apart, _MOST_NS) / _UNIT_NS).reshape(len(offers), -1).sum(axis=1)
    return total


def _signed(known: Ints, wanted: Ints) -> Ints:
    """The nearest known value less each wanted one."""
    right = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    left = np.maximum(right - 1, 0)
    after, before = known[right] - wanted, known[left] - wanted
    return np.asarray(np.where(np.abs(after) < np.abs(before), after, before), dtype=np.int64)


def _refined(offset: int, ends_of: dict[int, Ints], tokens: Ints, ends: Ints) -> int:
    """The offset moved by the median difference of the closer half."""
    apart = [
        _signed(ends_of[int(token)], ends[tokens == token] + offset)
        for token in np.unique(tokens)
        if int(token) in ends_of
    ]
    found = np.concatenate(apart)
    closer = found[np.argsort(np.abs(found), kind="stable")[: (len(found) + 1) // 2]]
    return offset + int(np.median(closer))


def tracked_offsets(
    a_tokens: Ints, a_ends: Ints, b_tokens: Ints, b_ends: Ints, known: tuple[int, int]
) -> Ints:
    """The offset at each member of `b`: it is followed from where it is known, block by block, as clocks drift."""
    ends_of = {int(token): np.sort(a_ends[a_tokens == token]) for token in np.unique(a_tokens)}
    at, first = known
    offsets = np.full(len(b_tokens), first, dtype=np.int64)
    for forward in (True, False):
        offset = first
        span = range(at, len(b_tokens), _BLOCK) if forward else range(at, 0, -_BLOCK)
        for start in span:
            block = slice(start, start + _BLOCK) if forward else slice(max(0, start - _BLOCK), start)
            offset = _followed(offset, ends_of, b_tokens[block], b_ends[block])
            offsets[block] = offset
    return offsets


def _followed(offset: int, ends_of: dict[int, Ints], tokens: Ints, ends: Ints) -> int:
    """The offset of a block, from that of its neighbour; a block that fits badly changes nothing."""
    if not any(int(token) in ends_of for token in np.unique(tokens)):
        return offset
    moved = _refined(offset, ends_of, tokens, ends)
    gaps = np.diff(np.sort(ends))
    most = int(np.median(gaps)) // 4 if len(gaps) else 0
    return moved if abs(moved - offset) <= most else offset


class KnownOffsets:
    """Offsets of ranks' clocks; ranks that no group connects have none against each other.

    Args:
        first: what to add to each rank's times to be on the clock of some rank, in ns.
    """

    def __init__(self, first: Mapping[int, int]) -> None:
        # Of each rank the ranks that it is connected with, which share this mapping, with their offsets.
        self._of: dict[int, dict[int, int]] = {key: dict(first) for key in first}

    def between(self, rank: int, other: int) -> int | None:
        """Offset from a rank's clock to the other's; None: unknown."""
        known = self._of.get(rank, {})
        return known[rank] - known[other] if other in known else None

    def add(self, offsets: Mapping[int, int]) -> None:
        """Connect ranks, by what to add to the times of each to be on the clock of some rank of them.

        What was known before stays.
        """
        for rank, offset in offsets.items():
            connected = self._of.setdefault(rank, {rank: 0})
            anchor = next(iter(offsets))
            base = self._of[anchor]
            if connected is base:
                continue
            moved = base[anchor] - offsets[anchor] + offset - connected[rank]
            for other, known in connected.items():
                base[other] = known + moved
                self._of[other] = base


_LEAST = 8
"""Minimum members for times to be conclusive."""
_MOST_DRIFT = 1e-3
"""No clock drifts more: see `MOST_DRIFT_PPM` of clocks."""
_SLACK_NS = 20_000
"""Maximum error of a time relative to others of its rank."""
_MOST_APART = 0.1
"""Maximum share of members that miss each other due to wrong times; for different collectives, most do."""


def can_meet(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> bool:
    """Return whether clock offsets exist by which most pairs overlap: no rank ends before all have started."""
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
    """Return the maximum number of intervals of possible offsets that share an offset."""
    firsts, lasts = np.sort(least), np.sort(most)
    # At the start of an interval all are open that began by then and did not end before.
    return int((np.arange(1, len(firsts) + 1) - np.searchsorted(lasts, firsts)).max())


def _drift(own: Ints, apart: Ints) -> Floats:
    """Clock drift at each end since the first end, along a robust line."""
    time = (own - own[0]).astype(np.float64)
    rest = (apart - apart[0]).astype(np.float64)
    half = len(time) // 2
    run, rise = time[half:] - time[: len(time) - half], rest[half:] - rest[: len(time) - half]
    later = run >= NS_PER_MS
    slope = float(np.median(rise[later] / run[later])) if later.any() else 0.0
    found: Floats = min(max(slope, -_MOST_DRIFT), _MOST_DRIFT) * time
    return found


_LEAST_TOLERANCE_NS = 20_000
"""Ends of one collective may always differ by this: what different kernels of one host were seen to differ by."""
_SPREADS = 10
"""Ends of one collective differ by at most this many times the median difference."""
_LEAST_OVERLAPPING = 0.9
"""Share of the members of equal sequences that have to overlap in their order, by times that may be wrong: see
`can_meet`."""
_PLAUSIBLE_NS = 50_000_000
"""Clocks that are kept by NTP differ by less than 50 ms."""
_PLAUSIBLE_SHARE = 0.25
"""And what they differ by has to be less than this share of the interval between repetitions."""


class Track(Struct, frozen=True, eq=False):
    """The members of a rank in a group, in the order in which they were issued.

    Args:
        tokens: a number for the type and size of each; equal numbers may be of one collective.
        ends: their ends, in ns.
        steps: a number for the step of each; -1: in none.
        starts: their starts, in ns.
        meets: whether each ends on no rank before all have started.
        on_host: whether a backend of the host communicates each: its threads end them when they are woken, so that
            the intervals between ends are each rank's own.
    """

    tokens: Ints
    ends: Ints
    steps: Ints
    starts: Ints
    meets: npt.NDArray[np.bool_]
    on_host: npt.NDArray[np.bool_]


class Evidence:
    """Basis of an alignment."""

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


class Alignment(Struct, frozen=True, eq=False):
    """Member of `a` for each member of `b`.

    Args:
        of: for each of `b` its index in `a`; -1: none.
        offsets: what to add to each end of `b` to be on the clock of `a`, in ns.
        evidence: a member of `Evidence`.
    """

    of: Ints
    offsets: Ints
    evidence: int


def align(a: Track, b: Track, hint: int | None = None) -> Alignment | None:
    """Find the members of `b` in `a`; None if several alignments fit and nothing tells which."""
    if not len(a.tokens) or not len(b.tokens):
        return None
    equal = len(a.tokens) == len(b.tokens) and bool((a.tokens == b.tokens).all())
    steps_agree = equal and bool(((a.steps == b.steps) | (a.steps < 0) | (b.steps < 0)).all())
    if equal and steps_agree:
        period = _period(a.tokens)
        if period is None or _meet_in_order(a, b, hint or 0, period):
            return _same_order(a, b, Evidence.ORDER)
        if (a.on_host & b.on_host & (a.steps >= 0) & (b.steps >= 0)).all():
            return _same_order(a, b, Evidence.EQUAL_WINDOWS)
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
    """Return whether all members of both are in steps, and in more than one."""
    return bool((a.steps >= 0).all() and (b.steps >= 0).all()) and len(np.unique(b.steps)) > 1


def _shifted(alignment: Alignment) -> bool:
    return not bool((alignment.of == np.arange(len(alignment.of)))[alignment.of >= 0].all())


def _meet_in_order(a: Track, b: Track, offset: int, period: int) -> bool:
    """Return whether nearly all members of equal sequences overlap in order, and fewer if shifted by a period."""
    known, own = (a.starts, a.ends), (b.starts + offset, b.ends + offset)
    in_order = _overlapping(known, own)
    if in_order < _LEAST_OVERLAPPING:
        return False
    later, earlier = slice(period, None), slice(None, -period)
    return all(
        _overlapping((known[0][here], known[1][here]), (own[0][there], own[1][there])) < in_order
        for here, there in ((later, earlier), (earlier, later))
    )


def _overlapping(a: tuple[Ints, Ints], b: tuple[Ints, Ints]) -> float:
    """The share of pairs of which neither ends before the other starts."""
    return float(((a[0] <= b[1]) & (b[0] <= a[1])).mean())


def _period(tokens: Ints) -> int | None:
    """Return the smallest shift by which a sequence equals itself; None: none up to half its length."""
    values = tokens.tolist()
    border = [0] * len(values)
    length = 0
    for row in range(1, len(values)):
        while length and values[row] != values[length]:
            length = border[length - 1]
        length += values[row] == values[length]
        border[row] = length
    return len(values) - border[-1] if border[-1] * 2 >= len(values) else None


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
    """Align by the offset at which members coincide, in steps with equal counts on both ranks."""
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
    """Align by clock offsets from other groups, else by unaligned clocks.

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


_METHODS = {
    Evidence.ORDER: (MatchMethod.GROUP_ORDER, 0.95),
    Evidence.EQUAL_WINDOWS: (MatchMethod.GROUP_ORDER, 0.7),
    Evidence.UNIQUE: (MatchMethod.ALIGNED_ORDER, 0.9),
    Evidence.INTERVALS: (MatchMethod.TIME, 0.85),
    Evidence.STEPS: (MatchMethod.ALIGNED_ORDER, 0.8),
    Evidence.CLOCKS: (MatchMethod.TIME, 0.6),
}
"""Method and confidence of a match."""

_TRIES = 2
"""A rank that fits nowhere is tried again when the others are aligned: they may reach into its window."""


class _Reference(Struct, eq=False):
    """Known collectives of a group so far, on the clock of its first rank.

    Args:
        track: their tokens, ends and steps.
        keys: a number for each.
    """

    track: Track
    keys: Ints


class _Result(Struct, frozen=True, eq=False):
    """Members of a rank, and the number of the collective that each is of."""

    rows: Ints
    keys: Ints
    method: MatchMethod
    confidence: float


def match_by_order(members: pl.DataFrame, clocks: dict[int, int]) -> pl.DataFrame:
    """The members that order matches: `row`, `key` (equal within a collective), `method`, `confidence`.

    The rank with the most members is the reference; each other rank is aligned with what is known so far, and adds
    what it alone has. Linear in members.
    """
    known = KnownOffsets(clocks)
    found = [_matched(channel, tracks, known) for channel, tracks in _channels(members) if len(tracks) > 1]
    schema = {"row": pl.Int64, "key": pl.String, "method": pl.String, "confidence": pl.Float64}
    return pl.concat([pl.DataFrame(schema=schema), *found])


def _channels(members: pl.DataFrame) -> Iterator[tuple[str, dict[int, pl.DataFrame]]]:
    """The members of each rank in each channel; channels of the most members first, as they say most of clocks."""
    parts = members.partition_by("channel", as_dict=True, maintain_order=True)
    for (channel,), part in sorted(parts.items(), key=lambda item: -item[1].height):
        ranks = part.partition_by("track", as_dict=True, maintain_order=True)
        ordered = sorted(ranks.items(), key=lambda item: (-item[1].height, item[0]))
        yield str(channel), {int(str(rank)): frame for (rank,), frame in ordered}


def _matched(channel: str, tracks: dict[int, pl.DataFrame], clocks: KnownOffsets) -> pl.DataFrame:
    first, *waiting = tracks
    track = _track(tracks[first])
    reference = _Reference(track, np.arange(len(track.tokens)))
    results = [_result(tracks[first], reference.keys, None)]
    offsets = {first: 0}
    for _ in range(_TRIES):
        left = []
        for rank in waiting:
            track = _track(tracks[rank])
            alignment = align(reference.track, track, clocks.between(rank, first))
            if alignment is None or not _is_possible(reference.track, track, alignment):
                left.append(rank)
                continue
            offsets[rank] = int(np.median(alignment.offsets))
            keys = _added(reference, track, alignment)
            results.append(_result(tracks[rank], keys, alignment))
        if not left or len(left) == len(waiting):
            break
        waiting = left
    clocks.add(offsets)
    return _together(channel, results)


def _is_possible(known: Track, track: Track, alignment: Alignment) -> bool:
    """Return whether any members are aligned, and their times allow that they are of the same collectives."""
    if not (alignment.of >= 0).any():
        return False
    ours = np.flatnonzero((alignment.of >= 0) & track.meets)
    there = alignment.of[ours]
    return can_meet((known.starts[there], known.ends[there]), (track.starts[ours], track.ends[ours]))


def _track(frame: pl.DataFrame) -> Track:
    columns = ("token", "end_ns", "step_number", "start_ns", "meets", "on_host")
    return Track(*(frame.get_column(name).to_numpy() for name in columns))


def _added(reference: _Reference, track: Track, alignment: Alignment) -> Ints:
    """The keys of a rank's members; those that are new are added to the reference, at their times on its clock."""
    new = alignment.of < 0
    keys = np.where(new, -1, reference.keys[alignment.of])
    keys[new] = len(reference.keys) + np.arange(new.sum())
    if new.any():
        known, offsets = reference.track, alignment.offsets[new]
        ends = track.ends[new] + offsets
        order = np.argsort(np.concatenate([known.ends, ends]), kind="stable")
        reference.track = Track(
            np.concatenate([known.tokens, track.tokens[new]])[order],
            np.concatenate([known.ends, ends])[order],
            np.concatenate([known.steps, track.steps[new]])[order],
            np.concatenate([known.starts, track.starts[new] + offsets])[order],
            np.concatenate([known.meets, track.meets[new]])[order],
            np.concatenate([known.on_host, track.on_host[new]])[order],
        )
        reference.keys = np.concatenate([reference.keys, keys[new]])[order]
    return keys


def _result(frame: pl.DataFrame, keys: Ints, alignment: Alignment | None) -> _Result:
    evidence = Evidence.ORDER if alignment is None else alignment.evidence
    method, confidence = _METHODS[evidence]
    rows = frame.get_column("row").to_numpy()
    return _Result(rows, keys, method, 1.0 if alignment is None else confidence)


def _together(channel: str, results: list[_Result]) -> pl.DataFrame:
    """The results of all ranks of a channel: a frame for each rank would take most of the time of many channels."""
    lengths = [len(result.rows) for result in results]
    found = pl.DataFrame(
        {
            "row": np.concatenate([result.rows for result in results]),
            "number": np.concatenate([result.keys for result in results]),
            "method": np.repeat([result.method.value for result in results], lengths),
            "confidence": np.repeat([result.confidence for result in results], lengths),
        }
    )
    key = pl.concat_str(pl.lit(f"o|{channel}|"), pl.col("number").cast(pl.String)).alias("key")
    return found.select("row", key, "method", "confidence")
