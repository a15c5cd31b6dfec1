"""The activities of a rank: host events, threads, and work of devices."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.analysis.device import (
    device_events,
    device_events_by_step,
    event_columns,
    fetched,
    rows_of_events,
    stream_names,
)
from tracebraid.analysis.host.host_rows import (
    NO_ROW,
    HostRows,
    events_of_rows,
    host_rows,
    host_work,
    modules_of_rows,
    names_of_rows,
    surroundings,
    user_frames,
    user_lines,
)
from tracebraid.analysis.kernels.kernels import device_work
from tracebraid.analysis.time.step_windows import step_of_moments, windows_apart
from tracebraid.errors import InputError
from tracebraid.graph.hosts.backend_ranges import backend_ranges
from tracebraid.model.category import Role, categories_of
from tracebraid.model.device_peaks import COMMUNICATION, MEMORY
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import ActivityKind
from tracebraid.model.kernel_family import family_of_op
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema.links import ACTIVITIES

_NAME_TYPE = pl.Categorical()


def with_descriptions(table: pl.DataFrame, linked: LinkedTrace) -> tuple[pl.DataFrame, tuple[Finding, ...]]:
    """Build the activities of a rank with family, module, shapes, node and bytes, and findings."""
    event, op = table.get_column("event_id"), table.get_column("op_event")
    host_ops, work = linked.timeline.host_ops, linked.timeline.device_work
    nodes, findings = _nodes(linked, op)
    context, rows = surroundings(linked), _host_row(table.height, linked)
    known_rows = pl.Series(rows).set(pl.Series(rows) < 0, None)
    described = table.with_columns(
        _families(table, linked),
        modules_of_rows(linked, context.module[rows]).alias("module"),
        names_of_rows(linked, context.annotation[rows]).alias("annotation"),
        user_frames(linked).gather(known_rows).alias("frames"),
        user_lines(linked).gather(known_rows),
        *_host_work(table, linked),
        _of_events(host_ops, op, "input_dims").alias("shapes"),
        nodes,
        _of_events(work, event, "size_bytes"),
    )
    return described, findings


def _of_events(table: pl.DataFrame, events: pl.Series, column: str) -> pl.Series:
    rows = rows_of_events(table.get_column("event_id"), events)
    values: pl.Series = fetched(table.select(column), rows).to_series()
    return values


def _families(table: pl.DataFrame, linked: LinkedTrace) -> pl.Series:
    """Family of device work by its kernel, of ops by their kernels; each name is classified once."""
    of_work = device_work(linked).get_column("family").cast(_NAME_TYPE)
    host = table.head(table.height - len(of_work))
    is_op = host.get_column("kind").cast(pl.String) == ActivityKind.OP.value
    names = host.get_column("name").set(~is_op, None)
    distinct = names.unique().drop_nulls()
    decided = [family_of_op(name) for name in distinct.cast(pl.String).to_list()]
    of_name = pl.Series([family and family.value for family in decided], dtype=pl.String).cast(_NAME_TYPE)
    of_host = names.replace_strict(distinct, of_name, default=None, return_dtype=_NAME_TYPE)
    families: pl.Series = pl.concat([of_host, of_work]).alias("family")
    return families


def _host_row(count: int, linked: LinkedTrace) -> NDArray[np.int64]:
    """The row of `host_tree` of each activity; of device work that of the call that launched it; -1: none."""
    host = host_rows(linked)
    found = np.full(count, NO_ROW, dtype=np.int64)
    found[: len(host.event_id)] = np.arange(len(host.event_id))
    launch = device_events(linked).select(pl.coalesce("call_event", "op_event").fill_null(-1)).to_series()
    if len(launch):
        found[count - len(launch) :] = host.rows(launch.to_numpy())
    return found


def _host_work(table: pl.DataFrame, linked: LinkedTrace) -> list[pl.Series]:
    found = host_work(linked)
    return [found.extend_constant(None, table.height - len(found)).alias("host_work")]


def _nodes(linked: LinkedTrace, op: pl.Series) -> tuple[pl.Series, tuple[Finding, ...]]:
    """The nodes of ops; null without an Execution Trace that can be read and fits: the graph needs none."""
    nothing = pl.select(pl.repeat(None, len(op), dtype=pl.Int64).alias("node_id")).to_series()
    if not linked.has_et:
        return nothing, ()
    try:
        links = linked.host_links
    except InputError as error:
        unread = Finding.of(FindingCode.GRAPH_WITHOUT_NODES, error.path, error.where, problem=error.problem)
        return nothing, (unread,)
    return _of_events(links.sort("event_id"), op, "node_id"), ()


_Ints = NDArray[np.int64]

_KIND_BY_ROLE = {
    Role.OP: ActivityKind.OP,
    Role.ANNOTATION: ActivityKind.ANNOTATION,
    Role.CALL: ActivityKind.CALL,
    Role.PYTHON: ActivityKind.PYTHON,
}


class RankActivities(Struct, frozen=True, eq=False):
    """The activities of a rank, in this order: host events, a row for each of `host`; threads; device work.

    Args:
        table: `ACTIVITIES`, on the rank's own clock.
        host: the host events.
        lanes: the threads, in the order of their activities.
        device_events: the events of device work, in the order of their activities.
        of_event: the activity of each event of the timeline; -1: it has none.
        findings: findings, such as an unreadable Execution Trace.
    """

    table: pl.DataFrame
    host: HostRows
    lanes: _Ints
    device_events: _Ints
    of_event: _Ints
    findings: tuple[Finding, ...] = ()

    @property
    def first_thread(self) -> int:
        """The activity of the first thread."""
        return len(self.host.event_id)

    @property
    def first_device(self) -> int:
        """The first activity on a device."""
        return len(self.host.event_id) + len(self.lanes)


def rank_activities(linked: LinkedTrace) -> RankActivities:
    """The activities of a rank."""
    host = host_rows(linked)
    lanes = np.unique(host.lane)
    on_host = _on_host(linked, host)
    on_device = _on_device(linked)
    threads = _threads(linked, host, lanes)
    table = pl.concat(
        ACTIVITIES.conform(part.with_columns(rank=pl.lit(linked.rank)), fill_missing=True)
        for part in (on_host, threads, on_device)
    )
    table, findings = with_descriptions(table, linked)
    event = table.get_column("event_id")
    of_event = np.full(linked.timeline.events.height, -1, dtype=np.int64)
    known = event.is_not_null().to_numpy()
    of_event[event.drop_nulls().to_numpy()] = np.flatnonzero(known)
    works = on_device.get_column("event_id").to_numpy()
    return RankActivities(table, host, lanes, works, of_event, findings)


def _on_host(linked: LinkedTrace, host: HostRows) -> pl.DataFrame:
    events = pl.Series("event_id", host.event_id)
    name, category, start = event_columns(
        linked.timeline, events, name="name", category="category", start_ns="ts_ns"
    )
    kinds = {category: kind.value for role, kind in _KIND_BY_ROLE.items() for category in categories_of(role)}
    ops = events_of_rows(linked, surroundings(linked).op[:-1]).alias("op_event")
    steps = step_of_moments(start.alias("ts_ns").to_frame(), windows_apart(linked))
    return pl.DataFrame(
        {
            "event_id": events,
            "name": name,
            "category": category,
            "op_event": ops,
            "op": event_columns(linked.timeline, ops, op="name")[0],
            "lane": host.lane,
            "step": steps.get_column("step"),
            "start_ns": start,
            "end_ns": host.end_ns,
        }
    ).with_columns(_host_kinds(linked, kinds))


def _host_kinds(linked: LinkedTrace, by_category: dict[str, str]) -> pl.Expr:
    """The kinds of host events: those in which a backend communicates are that, whatever their category."""
    communicates = pl.col("event_id").is_in(backend_ranges(linked).get_column("event_id").implode())
    by_role = as_text("category").replace_strict(by_category, default=None, return_dtype=pl.String)
    return (
        pl.when(communicates).then(pl.lit(ActivityKind.COMMUNICATION.value)).otherwise(by_role).alias("kind")
    )


def _threads(linked: LinkedTrace, host: HostRows, lanes: _Ints) -> pl.DataFrame:
    rows = np.searchsorted(lanes, host.lane)
    first, last = np.full(len(lanes), np.iinfo(np.int64).max), np.full(len(lanes), np.iinfo(np.int64).min)
    np.minimum.at(first, rows, host.start_ns)
    np.maximum.at(last, rows, host.end_ns)
    names = linked.timeline.lanes.select("lane", "thread_name")
    return (
        pl.DataFrame({"lane": lanes, "start_ns": first, "end_ns": last})
        .join(names, on="lane", how="left", maintain_order="left")
        .select(
            pl.lit(ActivityKind.THREAD.value).alias("kind"),
            pl.coalesce("thread_name", pl.lit("thread")).alias("name"),
            "lane",
            "start_ns",
            "end_ns",
        )
    )


def _on_device(linked: LinkedTrace) -> pl.DataFrame:
    work = device_events_by_step(linked)
    # What runs on a device has a stream, also where that is a text: without, it would count as the host's.
    streams = linked.timeline.lanes.select(
        "lane", pl.coalesce(stream_names(linked).cast(pl.Int64, strict=False), "lane").alias("stream")
    )
    op = work.get_column("op_event")
    return work.join(streams, on="lane", how="left", maintain_order="left").select(
        "event_id",
        pl.col("kind")
        .replace_strict(
            {COMMUNICATION: ActivityKind.COMMUNICATION.value, MEMORY: ActivityKind.COPY.value},
            default=ActivityKind.KERNEL.value,
        )
        .alias("kind"),
        "name",
        "op_event",
        *event_columns(linked.timeline, op, op="name"),
        "lane",
        "stream",
        "step",
        pl.col("ts_ns").alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
    )
