"""A rank as a process of a timeline: every event on the track of its thread or stream, with all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.exporters.perfetto.content import (
    Arg,
    ArgKind,
    Counter,
    Flow,
    FlowKind,
    Lane,
    Process,
    Slices,
    Texts,
    args_of_frame,
    args_of_timeline,
    numbered,
)
from tracebraid.model.category import Role, categories_of
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.wire_format import Ints

_LANE = "other events"


def with_unplaced(slices: Slices, lanes: Sequence[Lane], other: pl.DataFrame) -> tuple[Slices, list[Lane]]:
    """Slices and lanes with the other events of a trace, at the last start: their own times are not known."""
    count = other.height
    if count == 0:
        return slices, list(lanes)
    json = numbered(other.get_column("json"))
    there = np.flatnonzero(json.numbers >= 0)
    arg = Arg("event", ArgKind.JSON, len(slices) + there, json.numbers[there], json.distinct)
    last_ns = slices.ts_ns[-1:] if len(slices) else np.zeros(1, dtype=np.int64)
    moments = replace(
        slices,
        lane=np.concatenate([slices.lane, np.full(count, len(lanes), dtype=np.int64)]),
        ts_ns=np.concatenate([slices.ts_ns, np.repeat(last_ns, count)]),
        dur_ns=np.concatenate([slices.dur_ns, np.zeros(count, dtype=np.int64)]),
        is_instant=np.concatenate([slices.is_instant, np.ones(count, dtype=np.bool_)]),
        names=_appended(slices.names, numbered(other.get_column("phase"))),
        categories=_appended(slices.categories, Texts(np.zeros(count, dtype=np.int64), [_LANE])),
        args=[*slices.args, arg],
    )
    return moments, [*lanes, Lane(_LANE)]


def _appended(texts: Texts, more: Texts) -> Texts:
    shifted = np.where(more.numbers < 0, -1, more.numbers + len(texts.distinct))
    return Texts(np.concatenate([texts.numbers, shifted]), [*texts.distinct, *more.distinct])


JSON_ARGS = ("input shapes", "input types", "output shapes", "output types")
"""The arguments whose texts are JSON."""


def et_args(linked: LinkedTrace) -> pl.DataFrame:
    """`event_id` of each host op that has a node, and the arguments that its node has."""
    et = linked.et
    if et is None:
        return pl.DataFrame(schema={"event_id": pl.Int64})
    links = linked.host_links.filter(pl.col("node_id").is_not_null()).select("event_id", "node_id")
    schema = et.nodes.select("node_id", as_text("op_schema").alias("op schema"))
    return (
        links.join(schema, on="node_id", how="left", maintain_order="left")
        .join(_values(et, is_output=False), on="node_id", how="left", maintain_order="left")
        .join(_values(et, is_output=True), on="node_id", how="left", maintain_order="left")
        .rename({"node_id": "node id"})
    )


def _values(et: ExecutionTrace, is_output: bool) -> pl.DataFrame:
    """The shapes and types of each node's inputs or outputs, each a JSON list."""
    direction = "output" if is_output else "input"
    quoted = (
        '"'
        + as_text("type")
        .fill_null("")
        .str.replace_all("\\", "\\\\", literal=True)
        .str.replace_all('"', '\\"', literal=True)
        + '"'
    )
    return (
        et.values.filter(pl.col("is_output") == is_output)
        .sort("node_id", "position")
        .group_by("node_id", maintain_order=True)
        .agg(
            pl.format("[{}]", as_text("shape").fill_null("[]").str.join(",")).alias(f"{direction} shapes"),
            pl.format("[{}]", quoted.str.join(",")).alias(f"{direction} types"),
        )
    )


_RANK_BITS = 32
"""Bits of a rank's own arrow numbers; its process number is in the bits above."""
_COLLECTIVE = 1 << 62
"""Is added to the number of a collective, so that it is no rank's own arrow."""


def rank_flows(
    linked: LinkedTrace, process: int, row_of_event: Ints, collectives: pl.DataFrame
) -> list[Flow]:
    """Return the flows of a rank with both ends."""
    launches = linked.launches.filter(pl.col("call_event").is_not_null())
    after = process << _RANK_BITS
    launched = _pairs(FlowKind.LAUNCH, launches.select("call_event", "event_id"), row_of_event, after)
    backward = linked.forward_backward.select("forward_event", "backward_event")
    after += 0 if launched is None else len(launched.rows) // 2
    flows = [
        launched,
        _pairs(FlowKind.FORWARD_BACKWARD, backward, row_of_event, after),
        _members(collectives, row_of_event),
    ]
    return [flow for flow in flows if flow is not None]


def _pairs(kind: FlowKind, pairs: pl.DataFrame, row_of_event: Ints, after: int) -> Flow | None:
    """A flow from the event in the first column to that in the second one, of each row whose events are both there."""
    if pairs.is_empty():
        return None
    start, end = (row_of_event[column.to_numpy()] for column in pairs.get_columns())
    there = (start >= 0) & (end >= 0)
    start, end = start[there], end[there]
    if not len(start):
        return None
    numbers = after + 1 + np.arange(len(start))
    return _sorted(
        Flow(
            kind,
            np.concatenate([start, end]),
            np.concatenate([numbers, numbers]),
            np.repeat([True, False], len(start)),
            np.repeat([False, True], len(start)),
        )
    )


def _members(collectives: pl.DataFrame, row_of_event: Ints) -> Flow | None:
    if collectives.is_empty():
        return None
    rows = row_of_event[collectives.get_column("event_id").to_numpy()]
    there = rows >= 0
    first, last = (collectives.get_column(name).to_numpy()[there] for name in ("is_first", "is_last"))
    numbers = _COLLECTIVE + collectives.get_column("collective").to_numpy()[there]
    return _sorted(Flow(FlowKind.COLLECTIVE, rows[there], numbers, first, last))


def _sorted(flow: Flow) -> Flow:
    order = np.lexsort((flow.numbers, flow.rows))
    return Flow(flow.kind, flow.rows[order], flow.numbers[order], flow.is_first[order], flow.is_last[order])


_MOST_THREAD_ID = (1 << 31) - 1
"""Linux numbers no thread higher, and viewers keep 32 bits."""
_APART = {Role.DEVICE_ANNOTATION: "annotations", Role.SYNC: "synchronisation"}
_HOST = (Role.OP, Role.ANNOTATION, Role.CALL, Role.PYTHON)
_DEVICE = (Role.DEVICE_WORK, *_APART)


class Lanes(Struct, frozen=True, eq=False):
    """The lanes of a rank.

    Args:
        lanes: threads first, then others, then streams.
        of_event: the lane of each event that was given.
    """

    lanes: list[Lane]
    of_event: Ints


def lanes_of(events: pl.DataFrame, lanes: pl.DataFrame) -> Lanes:
    """The lanes of some events of a rank."""
    group, kind = pl.lit(0), pl.lit(1)
    for number, role in enumerate(_APART, 1):
        group = pl.when(_is(role)).then(number).otherwise(group)
    kind = pl.when(_is(*_HOST)).then(0).when(_is(*_DEVICE)).then(2).otherwise(1)
    keyed = events.select("lane", group.cast(pl.Int64).alias("group"), kind.cast(pl.Int64).alias("kind"))
    key = keyed.get_column("lane").to_numpy() * (len(_APART) + 1) + keyed.get_column("group").to_numpy()
    kinds = keyed.group_by("lane").agg(
        (pl.col("kind") == 0).any().alias("is_host"), (pl.col("kind") == 2).any().alias("is_device")
    )
    distinct, of_event = np.unique(key, return_inverse=True)
    shown = (
        pl.DataFrame(
            {"lane": distinct // (len(_APART) + 1), "group": distinct % (len(_APART) + 1)},
            schema={"lane": pl.Int64, "group": pl.Int64},
        )
        .join(kinds, on="lane", how="left", maintain_order="left")
        .join(lanes, on="lane", how="left", maintain_order="left")
        .with_row_index("row")
        .sort(pl.col("is_device"), ~pl.col("is_host"), "lane", "group")
    )
    position = np.empty(len(distinct), dtype=np.int64)
    position[shown.get_column("row").to_numpy()] = np.arange(len(distinct))
    return Lanes(_lanes(shown), position[of_event.reshape(-1)])


def _is(*roles: Role) -> pl.Expr:
    return as_text("category").is_in(categories_of(*roles)).fill_null(value=False)


def _lanes(shown: pl.DataFrame) -> list[Lane]:
    apart, used, found = list(_APART.values()), set[int](), []
    for row in shown.iter_rows(named=True):
        device = row["process_labels"] if row["is_device"] else None
        number = row["tid"] if row["tid"] is not None else row["tid_text"]
        name = " ".join(part for part in (device, (row["thread_name"] or "").strip() or f"{number}") if part)
        if row["group"]:
            name = f"{name}: {apart[row['group'] - 1]}"
        is_thread = row["is_host"] and not row["is_device"] and row["tid"] is not None
        thread_id = row["tid"] if is_thread and 0 < row["tid"] <= _MOST_THREAD_ID else None
        if thread_id in used:
            thread_id = None
        elif thread_id is not None:
            used.add(thread_id)
        found.append(Lane(name, thread_id))
    return found


class RankContext(Struct, frozen=True, eq=False):
    """Data from other stages about a rank.

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
    """Convert a rank to a process; if all of its events are shown, including those without time or of unknown form."""
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
    """Arguments from the file, then from linking and other stages; an Execution Trace is read if available."""
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
