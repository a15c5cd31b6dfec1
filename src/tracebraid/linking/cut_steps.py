"""A Kineto trace cut to some of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import InputError
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.quantities import numbers_text
from tracebraid.model.step import step_events
from tracebraid.model.timeline import Timeline

_Ints = NDArray[np.int64]
_NUMBER = r"#(\d{1,18})$"


def cut_to_steps(timeline: Timeline, launches: pl.DataFrame, steps: Sequence[range]) -> Timeline:
    """The timeline of some of the profiler's steps.

    It has the events that run while one of these steps does on the host, the device work that these launch, the calls
    and ops that launch device work of that time, and the arrows with an end in that time; events are numbered again, in
    their order. What has no time (counters, odd events, facts of the process) stays whole. A finding says so.
    """
    marks = step_events(timeline).with_columns(
        pl.col("step").cast(pl.String).str.extract(_NUMBER).cast(pl.Int64).alias("number")
    )
    number = marks.get_column("number")
    asked = [value is not None and any(value in some for some in steps) for value in number]
    chosen = marks.filter(pl.Series(asked, dtype=pl.Boolean))
    if chosen.is_empty():
        have = numbers_text(number.drop_nulls())
        problem = f"it has none of the steps that were asked for; it has {have}"
        raise InputError(timeline.path, problem, "Name some of these, or pack all steps")
    spans = chosen.sort("start_ns").select("start_ns", "end_ns")
    ids = _kept_events(timeline.events, launches, spans)
    tables = {name: _cut(frame, ids) for name, frame in timeline.tables.items()}
    tables["flows"] = _kept_flows(timeline.flows, spans)
    details = {
        "steps": numbers_text(chosen.get_column("number")),
        "all": marks.height,
        "events": timeline.events.height,
    }
    finding = Finding(FindingCode.STEPS_CHOSEN, timeline.path, count=chosen.height, details=details)
    return replace(timeline, tables=tables, findings=(*timeline.findings, finding))


def _kept_events(events: pl.DataFrame, launches: pl.DataFrame, spans: pl.DataFrame) -> _Ints:
    """The ids of the events that are kept, in order."""
    start = events.get_column("ts_ns").to_numpy()
    end = start + events.get_column("dur_ns").to_numpy()
    during = np.zeros(len(start), dtype=np.bool_)
    for first, last in spans.iter_rows():
        during |= (start < last) & ((end > first) | (start >= first))
    ids = pl.Series("event_id", events.get_column("event_id").to_numpy()[during], dtype=pl.Int64)
    partners = launches.filter(
        pl.col("event_id").is_in(ids.implode()) | pl.col("call_event").is_in(ids.implode())
    )
    columns = [partners.get_column(name) for name in ("event_id", "call_event", "op_event")]
    kept: _Ints = np.unique(np.concatenate([ids, *(column.drop_nulls() for column in columns)]))
    return kept


def _kept_flows(flows: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Arrows with an end while a step runs, with their other ends."""
    during = pl.lit(value=False)
    for first, last in spans.iter_rows():
        during = during | pl.col("ts_ns").is_between(first, last, closed="left")
    arrow = ["flow_id", "category"]
    return flows.join(flows.filter(during).select(arrow).unique(), on=arrow, how="semi", nulls_equal=True)


def _cut(frame: pl.DataFrame, ids: _Ints) -> pl.DataFrame:
    """The rows of these events, under their new ids; all rows of a table without events."""
    if "event_id" not in frame.columns:
        return frame
    kept = frame.filter(pl.col("event_id").is_in(pl.Series(ids).implode()))
    renumbered = np.searchsorted(ids, kept.get_column("event_id").to_numpy())
    return kept.with_columns(pl.Series("event_id", renumbered, dtype=pl.Int64))
