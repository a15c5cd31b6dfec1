"""Members of one collective by their order, types, sizes and times, where no numbers match them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracebraid.linking.ranks.matching.alignment import Alignment, Evidence, Track, align
from tracebraid.linking.ranks.matching.clock_votes import Ints
from tracebraid.linking.ranks.matching.known_offsets import KnownOffsets
from tracebraid.linking.ranks.matching.possible import can_meet
from tracebraid.model.collectives.codes import MatchMethod

__all__ = ["match_by_order"]

_METHODS = {
    Evidence.ORDER: (MatchMethod.GROUP_ORDER, 0.95),
    Evidence.EQUAL_WINDOWS: (MatchMethod.GROUP_ORDER, 0.7),
    Evidence.UNIQUE: (MatchMethod.ALIGNED_ORDER, 0.9),
    Evidence.INTERVALS: (MatchMethod.TIME, 0.85),
    Evidence.STEPS: (MatchMethod.ALIGNED_ORDER, 0.8),
    Evidence.CLOCKS: (MatchMethod.TIME, 0.6),
}
"""How members are said to be matched, and how sure that is."""

_TRIES = 2
"""A rank that fits nowhere is tried again when the others are aligned: they may reach into its window."""


@dataclass(eq=False)
class _Reference:
    """The collectives of a group that are known so far, on the clock of its first rank.

    Args:
        track: their tokens, ends and steps.
        keys: a number for each.
    """

    track: Track
    keys: Ints


@dataclass(frozen=True, eq=False)
class _Result:
    """Members of a rank, and the number of the collective that each is of."""

    rows: Ints
    keys: Ints
    method: MatchMethod
    confidence: float


def match_by_order(members: pl.DataFrame, clocks: dict[int, int]) -> pl.DataFrame:
    """The members that order matches: `row`, `key` (equal within a collective), `method`, `confidence`.

    The rank with the most members is the reference; each other rank is aligned with what is known so far, and adds
    what it alone has. Linear in members.

    Args:
        members: `row`, `channel`, `track` (the rank), `token`, `start_ns`, `end_ns`, `step_number`, `meets` (whether
            it ends on no rank before all have started), in the order of issue.
        clocks: what to add to a rank's times to be on the clock of some rank, in ns, as far as it is known.
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
    """Whether any members are aligned, and their times allow that they are of the same collectives."""
    if not (alignment.of >= 0).any():
        return False
    ours = np.flatnonzero((alignment.of >= 0) & track.meets)
    there = alignment.of[ours]
    return can_meet((known.starts[there], known.ends[there]), (track.starts[ours], track.ends[ours]))


def _track(frame: pl.DataFrame) -> Track:
    columns = ("token", "end_ns", "step_number", "start_ns", "meets")
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
