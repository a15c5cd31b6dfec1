"""Why a device is idle, in a few lines."""

from __future__ import annotations

import polars as pl
from rich.table import Table

from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers import HostActivity, IdleCause
from tracebraid.reports.names import distinct_names
from tracebraid.reports.terminal import table_of
from tracebraid.reports.text import cell, printable
from tracebraid.reports.units import duration, percent

__all__ = ["idle_tables"]

_LABEL_WIDTH = 72
"""Characters of what the host did that are shown."""


def idle_tables(causes: pl.DataFrame, blame: pl.DataFrame, top: int) -> list[Table]:
    """The top causes of idle time over the whole trace, a table for each device.

    Args:
        causes: the answer, see `model.answers.IDLE_CAUSES`.
        blame: the answer, see `model.answers.IDLE_BLAME`.
        top: causes to show.
    """
    overall = causes.filter(pl.col("step").is_null(), pl.col("idle_ns") > 0)
    devices = overall.get_column("device").unique(maintain_order=True).to_list()
    return [_table(overall, blame, device, top) for device in devices]


def _table(causes: pl.DataFrame, blame: pl.DataFrame, device: str, top: int) -> Table:
    found = (
        causes.filter(pl.col("device") == device)
        .group_by("cause", "host_activity", maintain_order=True)
        .agg(pl.col("idle_ns").sum())
        .sort("idle_ns", descending=True, maintain_order=True)
    )
    total_ns = found.get_column("idle_ns").sum()
    mostly = _mostly(blame.filter(pl.col("device") == device))
    title = "Why no op runs" if device == "cpu" else f"Why device {cell(device)} is idle"
    table = table_of(title, [("idle", "right"), ("share", "right"), ("why", "left"), ("mostly in", "left")])
    shown = found.head(top)
    labels = [printable(mostly.get(activity, "")) for activity in shown.get_column("host_activity").to_list()]
    for row, label in zip(shown.iter_rows(named=True), distinct_names(labels, _LABEL_WIDTH), strict=True):
        activity = row["host_activity"]
        table.add_row(
            duration(row["idle_ns"]),
            percent(row["idle_ns"] / total_ns),
            _why(row["cause"], activity, device),
            cell(label) if activity else "",
        )
    rest = found.height - top
    if rest > 0:
        table.caption = f"{rest} more; tracebraid analyze idle_causes shows all, idle_blame the ops and lines"
    return table


def _why(cause: str, activity: str | None, device: str) -> str:
    if activity is None:
        return code_name(IdleCause(cause))
    did = code_name(HostActivity(activity))
    return f"host {did}" if device == "cpu" else f"{code_name(IdleCause(cause))}: {did}"


def _mostly(blame: pl.DataFrame) -> dict[str, str]:
    """For each activity of the host the Python line, else the op or annotation, in which most of its time lies."""
    label = pl.coalesce("frame", "top_op", "annotation", "next_op")
    found = (
        blame.filter(pl.col("step").is_null())
        .select("host_activity", label.alias("label"), "idle_ns")
        .drop_nulls("label")
        .group_by("host_activity", "label", maintain_order=True)
        .agg(pl.col("idle_ns").sum())
        .sort("idle_ns", descending=True, maintain_order=True)
        .unique("host_activity", keep="first", maintain_order=True)
    )
    return dict(found.select("host_activity", "label").iter_rows())
