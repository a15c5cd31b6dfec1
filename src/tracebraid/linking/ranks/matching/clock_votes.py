"""How far are two ranks' clocks apart, by the ends of what may be the same collectives?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "Ints", "Vote", "tracked_offsets", "voted_offset"]

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

_WINDOW = 32
"""Members by whose ends an offset is voted: so few that clocks do not drift between them."""
_WINDOWS = 6
"""Windows that are tried, spread over the track."""
_UNIT_NS = 1_000
"""Differences of ends below a microsecond say nothing: old traces are rounded to it."""
_MOST_NS = 100_000_000
"""Differences beyond say no more than this one."""
_LEAST_BITS = 20.0
"""Evidence by which the best offset has to exceed the next, in bits: a million to one, for thousands of offsets."""
_BLOCK = 64
"""Members over which a clock's drift is followed at a time."""


@dataclass(frozen=True)
class Vote:
    """An offset that the intervals between ends tell from all others.

    Args:
        at: the member of `b` in whose neighbourhood it was found.
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
    """The offset at each member of `b`: it is followed from where it is known, block by block, as clocks drift.

    Args:
        a_tokens: see `voted_offset`, as all that follow.
        a_ends: in ns.
        b_tokens: of the other rank.
        b_ends: in ns.
        known: a member of `b`, and the offset there in ns.
    """
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
