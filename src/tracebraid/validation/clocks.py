"""Do the ranks' clocks agree? A collective ends on no rank before all ranks have begun it."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.timeline import Timeline
from tracebraid.model.units import NS_PER_MS

__all__ = ["collective_clock_findings", "collectives_of"]

_GLOO = r"^gloo:"
_WAITS_FOR_ALL = r"(?i)all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier"
_TOLERANCE_NS = 100_000
"""Events are taken before and after the real exchange; a device's times are converted to the host's clock."""


def collectives_of(timeline: Timeline) -> pl.DataFrame:
    """The collectives that wait for all ranks, numbered within their group and name: key, start_ns, end_ns.

    NCCL's kernels where there is a device; gloo's operators else.
    """
    text = as_text("name")
    kernels = (
        timeline.of_role(Role.DEVICE_WORK)
        .join(timeline.collectives.select("event_id", "collective_name", "pg_name"), on="event_id")
        .filter(as_text("collective_name").str.contains(_WAITS_FOR_ALL))
        .select(
            pl.concat_str(
                as_text("pg_name"),
                pl.lit("/"),
                as_text("collective_name"),
            ).alias("key"),
            "ts_ns",
            "dur_ns",
            "event_id",
        )
    )
    gloo = (
        timeline.of_role(Role.OP, Role.ANNOTATION)
        .filter(text.str.contains(_GLOO) & text.str.contains(_WAITS_FOR_ALL))
        .join(timeline.host_ops.filter(pl.col("finished").fill_null(True)).select("event_id"), on="event_id")
        .select(text.alias("key"), "ts_ns", "dur_ns", "event_id")
    )
    if timeline.process_groups.height > 1:
        gloo = gloo.clear()
    ordered = pl.concat([kernels.drop_nulls("key"), gloo]).sort("ts_ns", "event_id")
    return ordered.select(
        "key",
        pl.int_range(pl.len()).over("key").alias("number"),
        pl.col("ts_ns").alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
    )


def collective_clock_findings(collectives: Mapping[int, pl.DataFrame], path: str) -> list[Finding]:
    """A finding where a collective ended on one rank before another rank had begun it.

    Args:
        collectives: `collectives_of` each rank. Names whose number of collectives differs between ranks are left
            out: they cannot be matched by order.
        path: the folder.
    """
    ranks = {rank: frame for rank, frame in collectives.items() if not frame.is_empty()}
    if len(ranks) < 2:
        return []
    every = pl.concat([frame.with_columns(pl.lit(rank).alias("rank")) for rank, frame in ranks.items()])
    counts = every.group_by("key", "rank").agg(pl.len().alias("count"))
    same = counts.group_by("key").agg(pl.col("count").n_unique().alias("kinds"), pl.len().alias("on"))
    matched = every.join(same.filter((pl.col("kinds") == 1) & (pl.col("on") == len(ranks))), on="key")
    if matched.is_empty():
        return []
    worst = (
        matched.group_by("key", "number")
        .agg(
            (pl.col("start_ns").max() - pl.col("end_ns").min()).alias("gap_ns"),
            pl.col("rank").sort_by("start_ns").last().alias("late"),
            pl.col("rank").sort_by("end_ns").first().alias("early"),
        )
        .sort("gap_ns", "key", "number", descending=[True, False, False])
        .row(0, named=True)
    )
    if worst["gap_ns"] <= _TOLERANCE_NS:
        return []
    details = {
        "gap_ms": worst["gap_ns"] / NS_PER_MS,
        "collective": worst["key"],
        "number": worst["number"],
        "early": worst["early"],
        "late": worst["late"],
    }
    return [Finding(FindingCode.CLOCKS_DIFFER, path, details=details)]
