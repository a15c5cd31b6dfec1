"""How a detector's evidence is finished: the step, op, shapes and call site of each occurrence, and the schema."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.event_columns import fetched, rows_of_events
from tracebraid.analysis.host.call_sites import call_sites
from tracebraid.analysis.host.host_rows import events_of_rows, host_rows, names_of_rows
from tracebraid.analysis.host.surroundings import surroundings
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers import EVIDENCE
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["evidence_of"]


def evidence_of(linked: LinkedTrace, annotation: str, found: pl.DataFrame) -> pl.DataFrame:
    """Rows of `EVIDENCE` from a detector's occurrences, in the order of starts; those that save nothing are left out.

    Args:
        linked: one rank.
        annotation: what marks a step.
        found: `start_ns`, `end_ns`, `saving_ns`, cut to the interval's length; `event_id`, null where none shows it. If
            they are there: `host_event`, whose op and call site are those of the occurrence (by default `event_id`);
            `op` and `subject`, as text. Without `op` it is the innermost op around the host event, or the annotation.
    """
    long = pl.col("end_ns") - pl.col("start_ns")
    found = found.with_columns(
        pl.min_horizontal("saving_ns", long), pl.col("event_id").cast(pl.Int64)
    ).filter(pl.col("saving_ns") > 0)
    if found.is_empty():
        return EVIDENCE.empty()
    found = found.sort("start_ns", "end_ns", "event_id", maintain_order=True)
    for name, value in (("host_event", pl.col("event_id")), ("subject", pl.lit(None, dtype=pl.String))):
        if name not in found.columns:
            found = found.with_columns(value.alias(name))
    op_event, names = _ops(linked, annotation, found.get_column("host_event"))
    step = step_of_moments(
        found.select(pl.col("start_ns").alias("ts_ns")), step_windows(linked, annotation)
    ).get_column("step")
    found = found.with_columns(
        step,
        pl.col("op") if "op" in found.columns else names.alias("op"),
        _of_host(linked, "host_ops", "input_dims", op_event).alias("shapes"),
        _call_sites(linked, found.get_column("host_event")).alias("call_site"),
    )
    return answer(EVIDENCE, found, linked, annotation)


def _ops(linked: LinkedTrace, annotation: str, events: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Of each host event the innermost op around it, itself included, and its name, or else the annotation's."""
    rows = host_rows(linked).rows(events.fill_null(-1).to_numpy())
    context = surroundings(linked, annotation)
    op = context.op[rows]
    names, ranges = (names_of_rows(linked, of).cast(pl.String) for of in (op, context.annotation[rows]))
    return events_of_rows(linked, op), names.zip_with(names.is_not_null(), ranges)


def _of_host(linked: LinkedTrace, table: str, column: str, events: pl.Series) -> pl.Series:
    known = linked.timeline.tables[table]
    rows = rows_of_events(known.get_column("event_id"), events)
    values: pl.Series = fetched(known.select(as_text(column)), rows).to_series()
    return values


def _call_sites(linked: LinkedTrace, events: pl.Series) -> pl.Series:
    sites = call_sites(linked)
    rows = rows_of_events(sites.get_column("event_id"), events)
    found: pl.Series = fetched(sites.select(as_text("call_site")), rows).to_series()
    return found
