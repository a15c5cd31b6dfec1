"""Exposed reductions of gradients for which there was work to hide them behind."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.communication.exposed import computing, exposed_events
from tracebraid.analysis.antipatterns.communication.small_collectives import SMALL_BYTES
from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.event_columns import event_columns
from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.analysis.memory.host.passes import passes
from tracebraid.analysis.time.intervals import Cover, cover_of
from tracebraid.analysis.time.work_events import HOST
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector
from tracebraid.model.units import NS_PER_MS

__all__ = ["DETECTOR", "LAUNCH_NS", "WAIT_NS", "hidable_communication", "hidden_most"]

WAIT_NS = NS_PER_MS
"""On the host, compute that starts no later than this behind a collective has waited for it."""

LAUNCH_NS = 20_000
"""A launch that returned so long before a collective's end would have started before it: a launch takes 5 to 10 us."""

_OPERATIONS = ["allreduce", "reducescatter", "reducescatterbase"]
_EVALUATE = r"^autograd::engine::evaluate_function: "
_ACCUMULATE = r"^autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
"""The only node of a backward pass in whose hooks gradients are reduced; what communicates in another, needs."""

_NEVER = 2**62

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


def hidable_communication(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Exposed reductions of gradients, by two patterns; only the optimizer needs what they reduce.

    In a backward pass: what the pass computes behind a reduction does not need it. Where it waited for the reduction
    all the same (launched `LAUNCH_NS` before its end, begun right behind it), it saves its exposed time, and all
    reductions behind some moment together at most what the pass computes behind it without communication.

    Behind a backward pass: of several reductions that were all issued behind the last launch of the pass, each but the
    last could have been issued earlier. Together they save at most what the pass computes.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    events = exposed_events(linked, annotation).filter(pl.col("operation").is_in(_OPERATIONS))
    found = [
        frame
        for device in events.get_column("device").unique().sort().to_list()
        for frame in _of_device(linked, annotation, device, events.filter(pl.col("device") == device))
    ]
    rows = pl.concat(found) if found else events.with_columns(pl.lit(0, dtype=pl.Int64).alias("saving_ns"))
    return evidence_of(
        linked,
        annotation,
        rows.with_columns(pl.col("ts_ns").alias("start_ns"), pl.col("operation").alias("subject")),
    )


def _of_device(linked: LinkedTrace, annotation: str, device: str, events: pl.DataFrame) -> list[pl.DataFrame]:
    """The reductions of each backward pass with `saving_ns`."""
    of_pass = passes(linked, annotation)
    compute = computing(linked, device)
    launch = compute.select(pl.coalesce("call_event", "op_event")).to_series()
    called, long = event_columns(linked.timeline, launch, called="ts_ns", long="dur_ns")
    compute = compute.with_columns(called.fill_null(-1), (called + long).fill_null(_NEVER).alias("returned"))
    free = events.filter(pl.Series(~_needed(linked, events)))
    communicates = cover_of(*(events.get_column(name).to_numpy() for name in ("ts_ns", "end_ns")))
    found = []
    bounds = zip(of_pass.begin_ns.tolist(), of_pass.end_ns.tolist(), strict=True)
    next_begin = np.r_[of_pass.begin_ns, np.iinfo(np.int64).max][1:].tolist()
    for (begin, end), until in zip(bounds, next_begin, strict=True):
        launched = compute.filter(pl.col("called").is_between(begin, end, closed="left"))
        last = launched.get_column("called").max()
        done = last if isinstance(last, int) else end
        issued = pl.col("issued_ns")
        inside = free.filter(issued.is_between(begin, done, closed="left"))
        behind = free.filter((issued >= done) & (issued < until))
        found.append(_inside(inside, launched, compute, communicates, device))
        found.append(_behind(behind, launched))
    return found


def _inside(
    events: pl.DataFrame, launched: pl.DataFrame, compute: pl.DataFrame, communicates: Cover, device: str
) -> pl.DataFrame:
    starts, ends = (launched.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    work = cover_of(starts, ends)
    after = events.get_column("end_ns").to_numpy()
    last = np.full(len(after), max(ends.max(initial=0), after.max(initial=0)))
    there = work.within(after, last) - work.shared_within(communicates, after, last)
    exposed = np.where(_waited(events, compute, device), events.get_column("exposed_ns").to_numpy(), 0)
    order = np.argsort(after, kind="stable")
    saving = np.empty(len(order), dtype=np.int64)
    saving[order] = hidden_most(exposed[order], there[order])
    return events.with_columns(pl.Series("saving_ns", saving, dtype=pl.Int64))


def hidden_most(exposed: _Ints, there: _Ints) -> _Ints:
    """How much of each of some collectives work behind them can hide at most; each ns of work hides one.

    Args:
        exposed: exposed time of each, in order.
        there: work behind each, falling; work that is behind a later one is behind those before it, too.
    """
    spent = np.cumsum(exposed)
    before = spent - exposed
    # From each on: the least of what is behind a later one and of what is exposed until it.
    limits = np.minimum.accumulate(np.r_[there + before, spent[-1:]][::-1])[::-1]
    total = limits[:-1] - before if len(exposed) else exposed
    found: _Ints = total - np.r_[total[1:], 0][: len(total)]
    return np.clip(found, 0, exposed)


def _waited(events: pl.DataFrame, compute: pl.DataFrame, device: str) -> _Bools:
    """Whether the next compute behind each collective was launched well before its end, and begins at once."""
    moments, returned = (compute.get_column(name).to_numpy() for name in ("ts_ns", "returned"))
    after = events.get_column("end_ns").to_numpy()
    if not len(moments):
        return np.zeros(len(after), dtype=np.bool_)
    following = np.searchsorted(moments, after, side="left")
    exists = following < len(moments)
    following = np.minimum(following, len(moments) - 1)
    gap = moments[following] - after
    if device == HOST:
        return np.asarray(exists & (gap < WAIT_NS))
    return np.asarray(exists & (gap < LAUNCH_NS) & (returned[following] < after - LAUNCH_NS))


def _behind(events: pl.DataFrame, launched: pl.DataFrame) -> pl.DataFrame:
    """The reductions behind a pass, the last left out."""
    starts, ends = (launched.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    known = events.get_column("message_bytes")
    too_small = known.null_count() == 0 and known.sum() <= SMALL_BYTES
    events = events.sort("ts_ns").head(0 if too_small or not len(starts) else max(events.height - 1, 0))
    spent = pl.col("exposed_ns").cum_sum()
    room = pl.lit(cover_of(starts, ends).length, dtype=pl.Int64)
    saving = pl.min_horizontal(spent, room) - pl.min_horizontal(spent - pl.col("exposed_ns"), room)
    return events.with_columns(saving.alias("saving_ns"))


def _needed(linked: LinkedTrace, events: pl.DataFrame) -> _Bools:
    """Whether a collective lies in a node of the backward pass, whose result the next nodes take."""
    tree = host_ops(linked)
    name = host_names(linked).get_column("name")
    nodes = flags_by_name(name, lambda text: text.str.contains(_EVALUATE))
    accumulate = flags_by_name(name, lambda text: text.str.contains(_ACCUMULATE))
    host = events.get_column("host_event").fill_null(-1).to_numpy()
    known = np.isin(host, tree.event_id)
    found = np.zeros(len(host), dtype=np.bool_)
    if known.any() and nodes.any():
        node = tree.nearest(nodes)[tree.rows(host[known])]
        found[known] = (node >= 0) & ~accumulate[node]
    return found


DETECTOR = Detector(
    "hidable-communication",
    "reductions of gradients that nothing hides, though there was work to hide them",
    "issue them in the backward pass and asynchronously: DDP or FSDP2, async_op=True, wait only before the optimizer",
    hidable_communication,
    (Need.COMMUNICATION,),
)
