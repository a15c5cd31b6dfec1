"""The rows of HTA's DataFrame: which event of the trace each one is, and which node that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from tracebraid.errors import ArgumentError
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import NS_PER_US
from tracebraid.model.schema import EVENTS, HOST_OPS, KINETO_TABLES, LANES, PROCESS_GROUPS
from tracebraid.model.timeline import Timeline

__all__ = ["host_rows", "nodes_of_rows", "timeline_of_rows"]

_KEY = ("external_id", "name")
_NO_ID = -1


def host_rows(frame: Any, symbols: Sequence[str]) -> pl.DataFrame:
    """The host ops and annotations among the rows of HTA's DataFrame, in the order of the file.

    Args:
        frame: the DataFrame, with the columns `cat`, `name` (as text, or as numbers of symbols) and `external_id`.
        symbols: the texts of HTA's symbol table, by number.

    Returns:
        `row`: the index in the DataFrame; `category`, `name`, `external_id` (-1: none).

    Raises:
        ArgumentError: a column is missing.
    """
    missing = [name for name in ("cat", "name", "external_id") if name not in frame.columns]
    if missing:
        raise ArgumentError(
            f"the trace's DataFrame has no column {', '.join(missing)}; "
            "load it with HTA's default ParserConfig, which keeps them"
        )
    category = _texts(frame["cat"], symbols)
    rows = np.flatnonzero(category.is_in(categories_of(Role.OP, Role.ANNOTATION)).fill_null(False).to_numpy())
    if "index" in frame.columns:  # HTA puts device events first where it leaves out a step
        rows = rows[np.argsort(frame["index"].to_numpy()[rows], kind="stable")]
    chosen = frame.iloc[rows]
    return pl.DataFrame(
        {
            "row": rows,
            "category": category[rows],
            "name": _texts(chosen["name"], symbols),
            "external_id": _integers(chosen["external_id"]).fill_null(_NO_ID),
        }
    )


def nodes_of_rows(rows: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """The node of each of `host_rows`, through the same op in the linked trace.

    A row is the event with its External id and name; where several have the same (or none has an id), they are the
    same in the order of the file, provided that HTA left none of them out.

    Returns:
        `row` and `node_id`, for the rows that have a node.
    """
    timeline = linked.timeline
    ops = timeline.host_ops.select("event_id", pl.col("external_id").fill_null(_NO_ID))
    named = timeline.events.select("event_id", as_text("name"))
    events = ops.join(named, on="event_id").sort("event_id")
    same = _numbered(rows).join(_numbered(events), on=[*_KEY, "number", "count"])
    links = linked.host_links.select("event_id", "node_id").drop_nulls()
    return same.join(links, on="event_id").select("row", "node_id")


def timeline_of_rows(frame: Any, rows: pl.DataFrame, rank: int) -> Timeline:
    """The host ops of HTA's DataFrame as a timeline, for want of the file: each of `host_rows` is an event."""
    chosen = frame.iloc[rows.get_column("row").to_numpy()]
    threads = pl.DataFrame({key: chosen[key].astype(str).tolist() for key in ("pid", "tid")})
    lanes = threads.unique(maintain_order=True).with_row_index("lane")
    times = {
        name: pl.Series((chosen[name].to_numpy() * NS_PER_US).round().astype(np.int64))
        for name in ("ts", "dur")
    }
    events = rows.select("name", "category").with_columns(
        event_id=pl.int_range(pl.len()),
        lane=threads.join(lanes, on=["pid", "tid"], maintain_order="left").get_column("lane"),
        ts_ns=times["ts"],
        dur_ns=times["dur"].clip(0),  # HTA's rounding makes negative ones
    )
    has_rf = "record_function_id" in chosen.columns  # HTA has it where it is set to parse all arguments
    ops = events.select("event_id", rows.get_column("external_id")).with_columns(
        record_function_id=_integers(chosen["record_function_id"]) if has_rf else None
    )
    filled = {
        EVENTS.name: events,
        HOST_OPS.name: ops,
        LANES.name: lanes.select("lane", pid_text="pid", tid_text="tid"),
    }
    tables = {
        table.name: table.conform(filled[table.name], fill_missing=True)
        if table.name in filled
        else table.empty()
        for table in KINETO_TABLES
    }
    return Timeline("HTA's DataFrame", rank, None, 0, {}, tables, PROCESS_GROUPS.empty())


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(number=pl.int_range(pl.len()).over(_KEY), count=pl.len().over(_KEY))


def _texts(column: Any, symbols: Sequence[str]) -> pl.Series:
    values = column.to_numpy()
    if values.dtype.kind not in "iu":
        return pl.Series(column.astype(str).tolist(), dtype=pl.String)
    known = (values >= 0) & (values < len(symbols))
    texts = pl.Series([*symbols, None], dtype=pl.String)
    found: pl.Series = texts[np.where(known, values, len(symbols))]
    return found


def _integers(column: Any) -> pl.Series:
    values = column.to_numpy()
    series = pl.Series(values if values.dtype.kind in "iuf" else values.tolist(), strict=False)
    integers: pl.Series = series.cast(pl.Int64, strict=False)
    return integers
