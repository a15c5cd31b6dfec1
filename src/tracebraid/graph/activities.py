"""The activities of a rank: host events, threads, and work of devices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.event_columns import event_columns
from tracebraid.analysis.host.host_rows import HostRows, events_of_rows, host_rows
from tracebraid.analysis.host.surroundings import surroundings
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.graph.activity_columns import with_descriptions
from tracebraid.graph.hosts.backend_ranges import backend_ranges
from tracebraid.model.category import Role, categories_of
from tracebraid.model.device_kind import COMMUNICATION, MEMORY
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema.graph import ACTIVITIES

__all__ = ["RankActivities", "rank_activities"]

_Ints = NDArray[np.int64]

_KIND_BY_ROLE = {
    Role.OP: ActivityKind.OP,
    Role.ANNOTATION: ActivityKind.ANNOTATION,
    Role.CALL: ActivityKind.CALL,
    Role.PYTHON: ActivityKind.PYTHON,
}


@dataclass(frozen=True, eq=False)
class RankActivities:
    """The activities of a rank, in this order: host events, a row for each of `host`; threads; device work.

    Args:
        table: `ACTIVITIES`, on the rank's own clock.
        host: the host events.
        lanes: the threads, in the order of their activities.
        device_events: the events of device work, in the order of their activities.
        of_event: the activity of each event of the timeline; -1: it has none.
        findings: what was noticed, such as an Execution Trace that cannot be read.
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


def rank_activities(linked: LinkedTrace, annotation: str) -> RankActivities:
    """The activities of a rank.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    host = host_rows(linked)
    lanes = np.unique(host.lane)
    on_host = _on_host(linked, host, annotation)
    on_device = _on_device(linked, annotation)
    threads = _threads(linked, host, lanes)
    table = pl.concat(
        ACTIVITIES.conform(part.with_columns(rank=pl.lit(linked.rank)), fill_missing=True)
        for part in (on_host, threads, on_device)
    )
    table, findings = with_descriptions(table, linked, annotation)
    event = table.get_column("event_id")
    of_event = np.full(linked.timeline.events.height, -1, dtype=np.int64)
    known = event.is_not_null().to_numpy()
    of_event[event.drop_nulls().to_numpy()] = np.flatnonzero(known)
    works = on_device.get_column("event_id").to_numpy()
    return RankActivities(table, host, lanes, works, of_event, findings)


def _on_host(linked: LinkedTrace, host: HostRows, annotation: str) -> pl.DataFrame:
    events = pl.Series("event_id", host.event_id)
    name, category, start = event_columns(
        linked.timeline, events, name="name", category="category", start_ns="ts_ns"
    )
    kinds = {category: kind.value for role, kind in _KIND_BY_ROLE.items() for category in categories_of(role)}
    ops = events_of_rows(linked, surroundings(linked, annotation).op[:-1]).alias("op_event")
    steps = step_of_moments(start.alias("ts_ns").to_frame(), step_windows(linked, annotation))
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


def _on_device(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    work = device_events_by_step(linked, annotation)
    streams = linked.timeline.lanes.select("lane", pl.col("tid").alias("stream"))
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
