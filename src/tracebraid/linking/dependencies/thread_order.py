"""Hand-overs between host threads: where one falls silent and another begins, the second waits for the first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.linking.dependencies.edges import edges, no_edges
from tracebraid.linking.dependencies.moments import END, START, Moments
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

__all__ = ["QUIET_NS", "thread_order"]

QUIET_NS = 100_000
"""How long a thread that is in no op and no call shows no sign of life before it counts as silent."""

_EVIDENCE = {
    "backward": "thread {} is silent when its backward begins here",
    "forward": "thread {}, which runs the backward of this one, is silent meanwhile",
    "alone": "thread {} alternates with this one, and all others are silent meanwhile",
}

_Ints = NDArray[np.int64]
_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class _Bursts:
    """Bursts: stretches of a thread between two silences, in the order of threads and time.

    Args:
        lane: the thread.
        first: row of the moment that begins it.
        last: row of the moment that ends it.
        begin_ns: time of the first.
        end_ns: time of the last.
        silent_since_ns: end of the burst before on the thread; the lowest int64 without one.
        silent_until_ns: begin of the next burst on the thread; the highest int64 without one.
    """

    lane: _Ints
    first: _Ints
    last: _Ints
    begin_ns: _Ints
    end_ns: _Ints
    silent_since_ns: _Ints
    silent_until_ns: _Ints


def thread_order(
    timeline: Timeline, tree: pl.DataFrame, forward_backward: pl.DataFrame, moments: Moments
) -> pl.DataFrame:
    """From a thread's last sign of life to the first of the thread that takes over.

    A thread takes over from another that was alive after the first fell silent, and that is silent when it begins.
    Proof is one of these: it runs the backward ops of that other one; or that one runs its backward ops and stays
    silent until its burst is over; or all other threads do so, and the two alternate.
    """
    if timeline.of_role(Role.OP).get_column("lane").n_unique() < 2:
        return no_edges()
    signs = _signs(timeline, tree, moments)
    if signs.is_empty() or signs.get_column("lane").n_unique() < 2:
        return no_edges()
    bursts = _bursts(signs)
    before, proofs = _handed_over(bursts, _autograd_pairs(timeline, forward_backward))
    after = np.flatnonzero(before >= 0)
    first, last = signs[bursts.first[after]], signs[bursts.last[before[after]]]
    pairs = pl.DataFrame(
        {
            "before_event": last.get_column("event_id"),
            "before_moment": last.get_column("moment"),
            "after_event": first.get_column("event_id"),
            "after_moment": first.get_column("moment"),
            "lane": last.get_column("lane"),
            "proof": proofs[after],
        }
    ).join(timeline.lanes.select("lane", "tid", "tid_text"), on="lane", how="left")
    thread = pl.coalesce(as_text("tid"), "tid_text", pl.lit("of no number"))
    text = pl.coalesce(
        pl.when(pl.col("proof") == proof).then(pl.format(words, thread)) for proof, words in _EVIDENCE.items()
    )
    return pl.concat(
        edges(
            pairs.filter((pl.col("before_moment") == from_moment) & (pl.col("after_moment") == to_moment)),
            "inter_thread",
            (from_moment, to_moment),
            text,
        )
        for from_moment in (START, END)
        for to_moment in (START, END)
    )


def _signs(timeline: Timeline, tree: pl.DataFrame, moments: Moments) -> pl.DataFrame:
    """Starts and ends of ops, annotations and calls on threads that run ops, by thread and time.

    `busy`: what is open behind the moment is an op or a call, so that silence says nothing.
    """
    kinds = dict.fromkeys(categories_of(Role.OP), "op") | dict.fromkeys(categories_of(Role.CALL), "call")
    kinds |= dict.fromkeys(categories_of(Role.ANNOTATION), "range")
    kind = as_text("category").replace_strict(kinds, default=None, return_dtype=pl.String)
    events = timeline.events.select("event_id", "lane", kind.alias("kind"))
    host = events.join(tree.select("event_id", "op_event"), on="event_id")
    host = host.filter(pl.col("kind").is_not_null())
    with_ops = host.filter(pl.col("kind") == "op").get_column("lane").unique()
    if with_ops.len() < 2:
        return host.clear()
    host = host.filter(pl.col("lane").is_in(with_ops.implode()))
    enclosing = events.select(pl.col("event_id").alias("op_event"), pl.col("kind").alias("enclosing"))
    starts = host.with_columns(pl.lit(START).alias("moment"), (pl.col("kind") != "range").alias("busy"))
    ended = host.join(enclosing, on="op_event", how="left", maintain_order="left")
    # An op that ends at the same time as what lies in it is over, too.
    event, outer = (ended.get_column(name) for name in ("event_id", "op_event"))
    goes_on = moments.end_ns[outer.fill_null(event).to_numpy()] > moments.end_ns[event.to_numpy()]
    ends = ended.with_columns(
        pl.lit(END).alias("moment"),
        ((pl.col("enclosing") == "op") & pl.Series(goes_on)).fill_null(False).alias("busy"),
    )
    signs = pl.concat(
        rows.select("event_id", "lane", "moment", "busy").with_columns(
            pl.Series("ns", times[rows.get_column("event_id").to_numpy()]),
            pl.Series("position", positions[rows.get_column("event_id").to_numpy()]),
        )
        for rows, times, positions in (
            (starts, moments.start_ns, moments.start_position),
            (ends, moments.end_ns, moments.end_position),
        )
    )
    return signs.sort("lane", "position")


def _bursts(signs: pl.DataFrame) -> _Bursts:
    lane, ns = signs.get_column("lane").to_numpy(), signs.get_column("ns").to_numpy()
    silent = (np.diff(ns) >= QUIET_NS) & ~signs.get_column("busy").to_numpy()[:-1]
    other = lane[1:] != lane[:-1]
    cut = np.flatnonzero(silent | other)
    first, last = np.concatenate([[0], cut + 1]), np.concatenate([cut, [len(lane) - 1]])
    begin, end = ns[first], ns[last]
    changes = lane[first][1:] != lane[first][:-1]
    since = np.concatenate([[_FIRST], np.where(changes, _FIRST, end[:-1])])
    until = np.concatenate([np.where(changes, _LAST, begin[1:]), [_LAST]])
    return _Bursts(lane[first], first, last, begin, end, since, until)


def _handed_over(bursts: _Bursts, autograd: set[tuple[int, int]]) -> tuple[_Ints, NDArray[np.str_]]:
    """For each burst the burst of another thread that it took over from, or -1, and the key of its proof.

    Of several, the proof that `_EVIDENCE` has first is taken, and then the one that fell silent last.
    """
    count = len(bursts.lane)
    silent = np.zeros(count, dtype=np.int64)
    best = {proof: np.full(count, -1, dtype=np.int64) for proof in _EVIDENCE}
    lanes = np.unique(bursts.lane)
    for lane in lanes.tolist():
        own = np.flatnonzero(bursts.lane == lane)
        row = own[np.maximum(np.searchsorted(bursts.end_ns[own], bursts.begin_ns, side="right") - 1, 0)]
        ended = bursts.end_ns[row] <= bursts.begin_ns
        until = np.where(ended, bursts.silent_until_ns[row], bursts.begin_ns[own[0]])
        throughout = (until >= bursts.end_ns) & (bursts.lane != lane)
        silent += throughout
        alive = ended & (until > bursts.begin_ns) & (bursts.end_ns[row] > bursts.silent_since_ns)
        may = {
            "backward": alive & np.isin(bursts.lane, [there for here, there in autograd if here == lane]),
            "forward": alive
            & throughout
            & np.isin(bursts.lane, [there for there, here in autograd if here == lane]),
            "alone": alive & throughout,
        }
        for proof, rows in may.items():
            later = rows & ((best[proof] < 0) | (bursts.end_ns[row] > bursts.end_ns[best[proof]]))
            best[proof][later] = row[later]
    best["alone"][(silent < len(lanes) - 1) | ~_alternate(bursts, best["alone"])] = -1
    proofs = np.select([found >= 0 for found in best.values()], list(best), default="")
    return np.select([found >= 0 for found in best.values()], list(best.values()), default=-1), proofs


def _alternate(bursts: _Bursts, before: _Ints) -> NDArray[np.bool_]:
    """Whether the thread of each burst had the burst ahead of `before` too, or that of `before` has the next one."""
    order = np.lexsort((bursts.lane, bursts.begin_ns))
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    lanes = np.concatenate([[-1], bursts.lane[order], [-1]])
    again = lanes[position[before]] == bursts.lane
    alternate: NDArray[np.bool_] = again | (lanes[position + 2] == bursts.lane[before])
    return alternate


def _autograd_pairs(timeline: Timeline, forward_backward: pl.DataFrame) -> set[tuple[int, int]]:
    """Pairs of threads: one, and another that runs the backward of its ops."""
    lane = timeline.events.get_column("lane")
    forward = lane.gather(forward_backward.get_column("forward_event")).to_list()
    backward = lane.gather(forward_backward.get_column("backward_event")).to_list()
    return {(before, after) for before, after in zip(forward, backward, strict=True) if before != after}
