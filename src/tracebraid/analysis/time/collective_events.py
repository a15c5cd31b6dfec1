"""What each collective of a rank communicates: which operation, process group, type and size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from tracebraid.analysis.event_columns import event_columns, fetched, rows_of_events
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.analysis.time.message_sizes import MOST_ELEMENTS, elements_of, itemsize_of
from tracebraid.analysis.time.work_events import HOST, work_events
from tracebraid.model.category import Role
from tracebraid.model.device_kind import COMMUNICATION
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["collective_events", "host_ranges"]

_BACKEND_RANGE = r"^\w+:[^:]"
"""Names that backends give to the range in which they communicate: `gloo:all_reduce`; ops have `::`."""

_HOST_RANGE = r"^(?:gloo|mpi):[^:]"
"""Of these, ranges of backends that communicate on the host."""

_BETWEEN_TWO = "(?i)send|recv"
"""Names of communication between two ranks."""

_NEVER_NS = -(2**63)

_DESCRIBED = {
    "event_id": pl.Int64(),
    "device": pl.String(),
    "lane": pl.Int64(),
    "ts_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "stream": pl.String(),
    "name": pl.String(),
    "process_group": pl.String(),
    "description": pl.String(),
    "dtype": pl.String(),
    "message_bytes": pl.Int64(),
    "asks": pl.Boolean(),
    "kernel": pl.String(),
    "op_event": pl.Int64(),
    "source": pl.Int64(),
    "first_bytes": pl.Int64(),
    "counts": pl.Boolean(),
}
"""The columns of `collective_events`: most traces of one process have no rows of it, and cost nothing then."""


def collective_events(linked: LinkedTrace) -> pl.DataFrame:
    """The communicating `work_events`, in the order of starts: what each communicates.

    Columns: event_id, device, lane, ts_ns, end_ns, stream (its number, or the thread's), name, process_group,
    description, dtype, message_bytes, asks (whether it is a host op that only asks a backend to communicate), counts
    (whether it is a collective of its own: false for ops that ask where the backend's ranges are in the trace),
    kernel (the event's own name), op_event, source (the event with the collective's arguments; null: none),
    first_bytes (of the op's first input, by its shapes).

    Arguments are those of the event itself, else those of the innermost op around its launch that has any. Where
    there are none: the name is that of the op, else of the kernel; type and size are those of the op's first input;
    the process group is the only one of the file. A host op within another of its thread that communicates is left
    out: the outer has its time. A backend's range of a send or receive within another such is not: that one is under
    way, not its caller.
    """
    return linked.derived(_collective_events)


def host_ranges(linked: LinkedTrace) -> pl.DataFrame:
    """The ranges in which the host itself communicates (gloo, MPI), in a trace that has device work; else none.

    Their columns are those of `collective_events`, which has them where there is no device work.
    """
    return linked.derived(_host_ranges)


def _host_ranges(linked: LinkedTrace) -> pl.DataFrame:
    if not linked.timeline.has_device:
        return pl.DataFrame(schema=_DESCRIBED)
    host = linked.timeline.of_role(Role.OP, Role.ANNOTATION).with_columns(as_text("name"))
    ranges = host.filter(pl.col("name").str.contains(_HOST_RANGE))
    return _described(
        ranges.select(
            "event_id",
            "name",
            pl.lit(COMMUNICATION).alias("kind"),
            pl.lit(HOST).alias("device"),
            "lane",
            "ts_ns",
            "dur_ns",
            pl.col("event_id").alias("op_event"),
        ),
        linked,
    )


def _collective_events(linked: LinkedTrace) -> pl.DataFrame:
    return _described(work_events(linked).filter(pl.col("kind") == COMMUNICATION), linked)


def _described(events: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Communicating events with what they communicate."""
    if events.is_empty():
        return pl.DataFrame(schema=_DESCRIBED)
    events = _outermost(events).sort("ts_ns", "event_id")
    lanes = linked.timeline.lanes.select(
        "lane", pl.coalesce(as_text("tid"), pl.col("tid_text"), pl.lit("unknown")).alias("stream")
    )
    groups = linked.timeline.process_groups
    only = groups.select("pg_name", "pg_desc").row(0) if groups.height == 1 else (None, None)
    group, description = (pl.lit(text, dtype=pl.String) for text in only)
    in_group = pl.col("pg_name").is_not_null()
    asks = (pl.col("device") == HOST) & ~pl.col("name").str.contains(_BACKEND_RANGE)
    return (
        _with_arguments(events, linked)
        .join(lanes, on="lane", how="left", maintain_order="left")
        .select(
            "event_id",
            "device",
            "lane",
            "ts_ns",
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
            "stream",
            pl.coalesce("collective_name", "op_name", "name").alias("name"),
            pl.when(in_group).then("pg_name").otherwise(group).alias("process_group"),
            pl.when(in_group).then("pg_desc").otherwise(description).alias("description"),
            "dtype",
            "message_bytes",
            asks.alias("asks"),
            pl.col("name").alias("kernel"),
            "op_event",
            pl.when(pl.col("source") >= 0).then("source").alias("source"),
            "first_bytes",
        )
        .pipe(_with_counts)
    )


def _with_counts(events: pl.DataFrame) -> pl.DataFrame:
    """With `counts`: a collective of which the op that asks and the backend's range are both there is one.

    An op that asks counts if no backend has a range in its process group; one that sends to or receives from a single
    rank, if no backend has such a range. Unknown groups may be any.
    """
    single = pl.col("name").str.contains(_BETWEEN_TWO).alias("single")
    backends = (
        events.filter((pl.col("device") == HOST) & ~pl.col("asks")).select("process_group", single).unique()
    )
    any_group = pl.col("process_group").is_null()
    asking = events.filter("asks").select("event_id", pl.col("process_group").alias("asked"), single)
    ranged = asking.join(backends, on="single").filter(
        any_group | pl.col("asked").is_null() | (pl.col("asked") == pl.col("process_group"))
    )
    return events.with_columns(
        (~pl.col("event_id").is_in(ranged.get_column("event_id").implode())).alias("counts")
    )


def _outermost(events: pl.DataFrame) -> pl.DataFrame:
    """Without the host's ops that run wholly within another one of their thread, but for sends and receives at once."""
    end = pl.col("ts_ns") + pl.col("dur_ns")
    name = as_text("name")
    at_once = name.str.contains(_HOST_RANGE) & name.str.contains(_BETWEEN_TWO)
    callers_end = pl.when(~at_once).then(end).otherwise(pl.lit(_NEVER_NS))
    before = pl.when(at_once).then(_before(callers_end)).otherwise(_before(end))
    ordered = events.sort(pl.col("ts_ns"), end, pl.col("event_id"), descending=[False, True, False])
    return ordered.filter((pl.col("device") != HOST) | ~(end <= before).fill_null(value=False))


def _before(end: pl.Expr) -> pl.Expr:
    """The last end of all rows of the lane above each."""
    return end.cum_max().shift(1).over("lane")


def _with_arguments(events: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """The events with collective_name, pg_name, pg_desc, dtype, message_bytes and op_name; null where unknown."""
    timeline = linked.timeline
    given = timeline.collectives.select(
        pl.col("event_id").alias("source"),
        as_text("collective_name", "pg_name", "pg_desc", "dtype"),
        pl.max_horizontal("in_msg_nelems", "out_msg_nelems").alias("elements"),
    )
    op = events.get_column("op_event")
    rows = rows_of_events(timeline.host_ops.get_column("event_id"), op)
    arguments = fetched(timeline.host_ops.select("input_dims", "input_types"), rows)
    found = (
        events.with_columns(
            _source(events, linked),
            *arguments.get_columns(),
            *event_columns(timeline, op, op_name="name"),
        )
        .with_columns(as_text("input_dims", "input_types", "op_name"))
        .join(given, on="source", how="left", maintain_order="left")
        .with_columns(pl.col("input_types").str.json_path_match("$[0]").alias("first_type"))
    )
    is_type = _mapped(found.get_column("first_type"), itemsize_of).is_not_null()
    found = found.with_columns(pl.coalesce("dtype", pl.when(is_type).then("first_type")))
    by_shapes = _mapped(found.get_column("input_dims"), elements_of)
    itemsize = _mapped(found.get_column("dtype"), itemsize_of)
    elements = pl.coalesce("elements", by_shapes)
    possible = elements.is_between(0, MOST_ELEMENTS)
    return found.with_columns(
        pl.when(possible).then(elements * itemsize).alias("message_bytes"),
        (by_shapes * itemsize).alias("first_bytes"),
    )


def _source(events: pl.DataFrame, linked: LinkedTrace) -> pl.Series:
    """The event whose collective arguments are those of each event; -1: none."""
    with_arguments = linked.timeline.collectives.get_column("event_id").to_numpy()
    event = events.get_column("event_id").to_numpy()
    tree = host_ops(linked)
    op = events.get_column("op_event").fill_null(-1).to_numpy()
    known = np.isin(op, tree.event_id)
    nearest = np.full(len(event), -1, dtype=np.int64)
    if len(with_arguments) and known.any():
        rows = tree.nearest(np.isin(tree.event_id, with_arguments))[tree.rows(op[known])]
        nearest[known] = np.where(rows < 0, -1, tree.event_id[rows])
    return pl.Series("source", np.where(np.isin(event, with_arguments), event, nearest))


def _mapped(texts: pl.Series, function: Callable[[str], int | None]) -> pl.Series:
    """A function of each text, each asked for once."""
    found = {text: function(text) for text in texts.drop_nulls().unique().to_list()}
    mapped: pl.Series = texts.replace_strict(found, default=None, return_dtype=pl.Int64)
    return mapped
