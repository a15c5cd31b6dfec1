"""What waits for what: dependencies of all kinds, each going forward in one order of all moments."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.linking.dependencies.blocking import blocking_calls, blocking_copies
from tracebraid.linking.dependencies.edges import ASSERTED, END_TO_START, START_TO_START, edges, no_edges
from tracebraid.linking.dependencies.event_waits import event_waits
from tracebraid.linking.dependencies.issue_times import issued_work
from tracebraid.linking.dependencies.moments import Moments, moments_of
from tracebraid.linking.dependencies.stream_order import stream_order
from tracebraid.linking.dependencies.syncs import recorded_syncs
from tracebraid.linking.dependencies.thread_order import thread_order
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.schema import DEPENDENCIES
from tracebraid.model.stage import Stage
from tracebraid.model.timeline import Timeline

__all__ = ["Dependencies", "find_dependencies"]


@dataclass(frozen=True)
class Dependencies:
    """The table `dependencies`, and the dependencies that evidence names and time contradicts."""

    table: pl.DataFrame
    findings: tuple[Finding, ...]


def find_dependencies(
    timeline: Timeline, tree: pl.DataFrame, device_links: pl.DataFrame, forward_backward: pl.DataFrame
) -> Dependencies:
    """Find the dependencies of each kind, and keep those that go forward in time.

    All moments (starts and ends) stand in one order, in which every event starts before it ends; only dependencies
    that go forward in it are kept. So there is no cycle, whatever the kinds find.
    """
    moments = moments_of(timeline)
    issued = Stage(lambda: issued_work(timeline, device_links))
    of_kinds = [
        _launches(timeline, device_links),
        stream_order(timeline, moments),
        event_waits(timeline, issued),
        recorded_syncs(timeline, issued),
        blocking_calls(timeline, issued, moments),
        blocking_copies(timeline, device_links),
        thread_order(timeline, tree, forward_backward, moments),
        _forward_backward(forward_backward),
    ]
    if all(of_kind.is_empty() for of_kind in of_kinds):
        return Dependencies(DEPENDENCIES.empty(), ())
    found = pl.concat(of_kinds)
    before = moments.positions(found.get_column("before_event"), found.get_column("before_moment"))
    after = moments.positions(found.get_column("after_event"), found.get_column("after_moment"))
    forward = pl.Series((before < after) & (before >= 0))
    return Dependencies(
        _table(found.filter(forward), moments), _contradicted(found.filter(~forward), timeline)
    )


def _table(kept: pl.DataFrame, moments: Moments) -> pl.DataFrame:
    before = moments.times(kept.get_column("before_event"), kept.get_column("before_moment"))
    after = moments.times(kept.get_column("after_event"), kept.get_column("after_moment"))
    pair = ["before_event", "before_moment", "after_event", "after_moment"]
    return (
        kept.with_columns(pl.Series("slack_ns", after - before))
        .unique([*pair, "kind"], keep="first", maintain_order=True)
        .sort("after_event", "after_moment", "kind", "before_event", "before_moment")
        .pipe(DEPENDENCIES.conform)
    )


def _contradicted(against: pl.DataFrame, timeline: Timeline) -> tuple[Finding, ...]:
    asserted = against.filter(ASSERTED)
    findings = []
    for kind in sorted(asserted.get_column("kind").unique()):
        rows = asserted.filter(pl.col("kind") == kind).sort("after_event", "before_event")
        first, second = rows.select("before_event", "after_event").row(0)
        where = f"events {first} and {second}, ..."
        findings.append(
            Finding.of(FindingCode.DEPENDENCY_BACKWARD, timeline.path, where, rows.height, kind=kind)
        )
    return tuple(findings)


def _launches(timeline: Timeline, device_links: pl.DataFrame) -> pl.DataFrame:
    """From the start of a call to the start of the work that it launched: a call may return after that."""
    if device_links.is_empty():
        return no_edges()
    pairs = (
        device_links.select(
            pl.col("event_id").alias("after_event"), pl.col("call_event").alias("before_event")
        )
        .filter(pl.col("before_event").is_not_null())
        .join(
            timeline.device_work.select(pl.col("event_id").alias("after_event"), "correlation"),
            on="after_event",
        )
    )
    return edges(pairs, "launch", START_TO_START, pl.format("correlation {}", "correlation"))


def _forward_backward(forward_backward: pl.DataFrame) -> pl.DataFrame:
    if forward_backward.is_empty():
        return no_edges()
    pairs = forward_backward.rename({"forward_event": "before_event", "backward_event": "after_event"})
    text = pl.format("sequence number {}", "sequence_number")
    return edges(pairs, "forward_backward", END_TO_START, text)
