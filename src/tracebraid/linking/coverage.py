"""The ledger of what was linked, counted from the link tables."""

from __future__ import annotations

import polars as pl

from tracebraid.model.coverage import Count, Coverage, Orphans
from tracebraid.model.expressions import as_text
from tracebraid.model.reason import OrphanKind, OrphanReason
from tracebraid.model.timeline import Timeline

__all__ = ["count_coverage"]


def count_coverage(
    timeline: Timeline,
    host_links: pl.DataFrame,
    node_links: pl.DataFrame,
    device_links: pl.DataFrame,
    has_et: bool,
) -> Coverage:
    """Count links by method and orphans by reason.

    Roots of the process and of threads are not expected to link, nor is what lies in iterations that were not matched.
    """
    reason = as_text("reason").fill_null("")
    in_scope = reason != OrphanReason.OTHER_ITERATION.value
    nodes = node_links.filter(reason != OrphanReason.ROOT.value)
    expected = nodes.filter(in_scope)
    node_count = expected.filter(pl.col("event_id").is_not_null()).height
    durations = device_links.join(timeline.events.select("event_id", "dur_ns"), on="event_id")
    attributed = durations.filter(pl.col("op_event").is_not_null())
    orphans = [
        *(_orphans(OrphanKind.HOST_OP, host_links.filter(pl.col("node_id").is_null())) if has_et else []),
        *_orphans(OrphanKind.ET_NODE, nodes.filter(pl.col("event_id").is_null())),
        *_orphans(OrphanKind.GPU_EVENT, device_links.filter(pl.col("op_event").is_null())),
    ]
    return Coverage(
        host_ops=_count(host_links.filter(in_scope)),
        et_nodes=Count(expected.height, node_count, {}),
        gpu_events=_count(device_links),
        gpu_time_ns=(int(durations.get_column("dur_ns").sum()), int(attributed.get_column("dur_ns").sum())),
        orphans=tuple(
            sorted(orphans, key=lambda orphan: (-orphan.count, orphan.kind.value, orphan.reason.value))
        ),
        has_et=has_et,
    )


def _count(links: pl.DataFrame) -> Count:
    methods = links.get_column("method").cast(pl.String).drop_nulls().value_counts(sort=True)
    by_method = dict(sorted(methods.iter_rows()))
    return Count(links.height, sum(by_method.values()), by_method)


def _orphans(kind: OrphanKind, links: pl.DataFrame) -> list[Orphans]:
    counts = links.get_column("reason").cast(pl.String).value_counts()
    return [Orphans(kind, OrphanReason(reason), count) for reason, count in counts.iter_rows()]
