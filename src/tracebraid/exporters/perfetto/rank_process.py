"""A rank as a process of a timeline: every event on the track of its thread or stream, with all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tracebraid.exporters.perfetto.args import args_of_frame, args_of_timeline
from tracebraid.exporters.perfetto.content import Arg, Counter, Process, Slices
from tracebraid.exporters.perfetto.et_args import JSON_ARGS, et_args
from tracebraid.exporters.perfetto.lanes import lanes_of
from tracebraid.exporters.perfetto.numbering import numbered
from tracebraid.exporters.perfetto.rank_flows import rank_flows
from tracebraid.exporters.perfetto.unplaced import with_unplaced
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.wire_format import Ints

__all__ = ["RankContext", "rank_process"]


@dataclass(frozen=True, eq=False)
class RankContext:
    """What other stages know of a rank.

    Args:
        number: its place among the processes.
        events: its events that are shown, with their starts on aligned clocks: of `EVENTS`.
        surroundings: `event_id` of host events and further columns, such as the module, that become arguments.
        collectives: see `rank_flows`.
        counters: its counters.
        labels: what else is to be said of it.
    """

    number: int
    events: pl.DataFrame
    surroundings: pl.DataFrame
    collectives: pl.DataFrame
    counters: Sequence[Counter] = ()
    labels: Sequence[str] = ()


def rank_process(linked: LinkedTrace, context: RankContext) -> Process:
    """A rank as a process; where all of its events are shown, with those too that have no time or no known form.

    Args:
        linked: the rank; the starts of its own events are not used.
        context: what else is known of it.
    """
    events = context.events.sort("ts_ns", "dur_ns", "event_id", descending=[False, True, False])
    row_of_event: Ints = np.full(linked.timeline.events.height, -1, dtype=np.int64)
    row_of_event[events.get_column("event_id").to_numpy()] = np.arange(events.height)
    lanes = lanes_of(events, linked.timeline.lanes)
    is_instant = as_text("category").is_in(categories_of(Role.INSTANT)).fill_null(value=False)
    slices = Slices(
        lanes.of_event,
        events.get_column("ts_ns").to_numpy(),
        events.get_column("dur_ns").to_numpy(),
        events.select(is_instant & (pl.col("dur_ns") == 0)).to_series().to_numpy(),
        numbered(events.get_column("name")),
        numbered(events.get_column("category")),
        _args(linked, context, row_of_event),
        rank_flows(linked, context.number, row_of_event, context.collectives),
    )
    shown = lanes.lanes
    if events.height == linked.timeline.events.height:
        slices, shown = with_unplaced(slices, shown, linked.timeline.tables["other_events"])
    name = f"rank {linked.rank}"
    return Process(context.number, name, context.labels, shown, slices, context.counters, linked.rank)


def _args(linked: LinkedTrace, context: RankContext, row_of_event: Ints) -> list[Arg]:
    """Those of the file, then what linking and other stages know; an Execution Trace is read where there is one."""
    found = args_of_timeline(linked.timeline, row_of_event)
    found += args_of_frame(et_args(linked), row_of_event, JSON_ARGS)
    found += args_of_frame(_of_device(linked, context.surroundings), row_of_event)
    return found + args_of_frame(context.surroundings, row_of_event)


def _of_device(linked: LinkedTrace, surroundings: pl.DataFrame) -> pl.DataFrame:
    """The op that launched each device event, its node, and what surrounds it."""
    links = linked.device_links if linked.has_et else linked.launches
    node = pl.col("node_id") if linked.has_et else pl.lit(None, dtype=pl.Int64)
    work = links.filter(pl.col("op_event").is_not_null()).select(
        "event_id", "op_event", node.alias("node id")
    )
    names = linked.timeline.events.select("name").get_column("name")
    return (
        work.with_columns(names.gather(work.get_column("op_event")).alias("op"))
        .join(surroundings, left_on="op_event", right_on="event_id", how="left", maintain_order="left")
        .drop("op_event")
    )
