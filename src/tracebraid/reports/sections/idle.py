"""Idle time: why devices are idle, and what the host did meanwhile."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.idle import HostActivity, IdleCause
from tracebraid.model.report.parts import Chart, ChartKind, Note, Part, Section
from tracebraid.model.report.run_results import RunResults
from tracebraid.reports.sections.asked import answer_table, frame_of, missing
from tracebraid.reports.sections.queues import queue_parts
from tracebraid.reports.units import duration, percent

__all__ = ["idle"]

_FORMULA = (
    "Time in which nothing computes, communicates or is copied on the device, between the first and the last event of "
    "the device or in the steps, by what kept the next work from starting: of the launch that came late what the host "
    "did meanwhile. Summed over devices and ranks (analysis idle_causes)."
)
_COLUMNS = ("cause", "host_activity", "size", "idle_ns", "count", "after_sync_ns")


def idle(results: RunResults) -> Section | None:
    """The section; None where neither idle time nor queues were asked."""
    if results.answers.get("idle_causes") is None and results.answers.get("queue_lengths") is None:
        return None
    parts: list[Part] = [
        *missing(results, "idle_causes", "Idle time"),
        *_causes(results),
        *queue_parts(results),
    ]
    lead = "A device is idle when its next work was not launched in time, or waits for another stream."
    return Section("idle-time", "Idle devices and queues", parts, lead) if parts else None


def _causes(results: RunResults) -> list[Part]:
    causes = frame_of(results, "idle_causes")
    if causes is None:
        answer = results.answers.get("idle_causes")
        return (
            [Note("No device is idle between its events.")] if answer and not answer.is_unanswerable else []
        )
    whole = causes.filter(pl.col("step").is_null())
    rows = causes if whole.is_empty() else whole
    keys = ("cause", "host_activity", "size")
    summed = (
        rows.group_by(keys)
        .agg(pl.col("idle_ns", "count", "after_sync_ns").sum())
        .sort("idle_ns", *keys, descending=[True, False, False, False])
    )
    bars, total = _bars(summed), int(summed.get_column("idle_ns").sum())
    first = bars.row(0, named=True)
    share = percent((first["micro"] + first["macro"]) / total) if total else percent(0)
    summary = f"Devices are idle for {duration(total)} in all; {share} of it: {first['label']}."
    series = [
        {"column": "macro", "name": "long gaps", "colour": "idle"},
        {"column": "micro", "name": "gaps of the size of a launch", "colour": "host"},
    ]
    options = {"unit": "ns", "title": "idle time", "series": series}
    table = answer_table(results, "idle_causes", "Why devices are idle", _COLUMNS, summed.select(_COLUMNS))
    title = "Why devices are idle"
    return [
        Chart("idle-causes", ChartKind.STACKED_BARS, title, summary, {"bars": bars}, options, _FORMULA, table)
    ]


def _bars(summed: pl.DataFrame) -> pl.DataFrame:
    """Idle time by cause and by what the host did, in short and in long gaps."""
    sizes = [
        pl.col("idle_ns").filter(pl.col("size") == size).sum().alias(size) for size in ("micro", "macro")
    ]
    grouped = summed.group_by("cause", "host_activity", maintain_order=True).agg(sizes)
    ordered = grouped.sort(pl.col("micro") + pl.col("macro"), descending=True, maintain_order=True)
    labels = [_label(cause, host) for cause, host in ordered.select("cause", "host_activity").iter_rows()]
    return ordered.select(pl.Series("label", labels, dtype=pl.String), "micro", "macro")


def _label(cause: str, host: str | None) -> str:
    causes = {code.value: code_name(code) for code in IdleCause}
    activities = {code.value: code_name(code) for code in HostActivity}
    said = causes.get(cause, cause)
    return said if host is None else f"{said}: {activities.get(host, host)}"
