"""Do the two traces of a rank know each other: ids, windows, names?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.coverage import Coverage
from tracebraid.model.execution_trace import MISSING_PARENT, ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.timeline import Timeline

__all__ = ["et_findings", "identity_findings"]

_HARDLY = 0.5

_BEFORE_START = "## process_group:init ##"


def identity_findings(linked: LinkedTrace) -> list[Finding]:
    """Why the traces of a rank do not link, where they do not; and what is on one side only."""
    et, timeline = linked.et, linked.timeline
    found = _unfinished(timeline) + _launches(linked)
    if et is None:
        return found
    found += _never_written(et)
    in_kineto, in_et = _ids_of_timeline(timeline), _ids_of_et(et)
    if in_kineto.is_empty() and not linked.coverage.host_ops.linked:
        return [*found, _without_ids(timeline)]
    if in_et.is_empty():
        return [*found, Finding("et-without-ids", "all rf_ids are 0", et.path)]
    if not in_kineto.is_empty() and not in_et.is_in(in_kineto.implode()).any():
        return [*found, Finding("no-overlap", _apart(in_et, in_kineto), et.path)]
    half = _half_linked(linked.coverage, in_et, in_kineto, et)
    if not half and max(linked.coverage.host_ops.share, linked.coverage.et_nodes.share) < _HARDLY:
        text = f"the two traces hardly overlap: {linked.coverage.host_ops.linked:,} ops are in both"
        half = [Finding("hardly-overlap", text, et.path)]
    return found + half


def _without_ids(timeline: Timeline) -> Finding:
    ids = timeline.host_ops.get_column("record_function_id")
    if ids.is_empty():
        return Finding("no-overlap", "there is no host op in the Kineto trace", timeline.path)
    if ids.null_count() == len(ids):
        text = "host ops have no argument `Record function id`, and External id proves nothing"
        return Finding("too-old-for-ids", text, timeline.path)
    text = "no host op carries a record-function id, and External id proves nothing"
    return Finding("no-record-function-ids", text, timeline.path)


def et_findings(et: ExecutionTrace) -> list[Finding]:
    """What an Execution Trace shows on its own."""
    found = _never_written(et)
    return found + (
        [Finding("et-without-ids", "all rf_ids are 0", et.path)] if _ids_of_et(et).is_empty() else []
    )


def _half_linked(
    coverage: Coverage, in_et: pl.Series, in_kineto: pl.Series, et: ExecutionTrace
) -> list[Finding]:
    """Ops that both traces have by their ids, and that are not linked."""
    in_both = int(in_et.unique().is_in(in_kineto.unique().implode()).sum())
    missed = in_both - coverage.host_ops.linked
    if missed <= 0:
        return []
    text = f"of {in_both:,} ids that both traces have, these are not linked: their names differ, or several have one id"
    return [Finding("not-linked", text, et.path, count=missed)]


def _apart(in_et: pl.Series, in_kineto: pl.Series) -> str:
    return (
        "the two traces do not overlap: record-function ids "
        f"{_span(in_et)} here, {_span(in_kineto)} in the Kineto trace"
    )


def _span(ids: pl.Series) -> str:
    return f"{ids.min()!r} to {ids.max()!r}"


def _ids_of_timeline(timeline: Timeline) -> pl.Series:
    key = pl.col("record_function_id")
    return timeline.host_ops.filter(key > 0).get_column("record_function_id")


def _ids_of_et(et: ExecutionTrace) -> pl.Series:
    nodes = et.op_nodes.filter(pl.col("name").cast(pl.String) != _BEFORE_START)
    return nodes.filter(pl.col("rf_id") > 0).get_column("rf_id")


def _never_written(et: ExecutionTrace) -> list[Finding]:
    marked = et.extra_attrs.filter(pl.col("key").cast(pl.String) == MISSING_PARENT).get_column("node_id")
    if marked.is_empty():
        return []
    text = "operators that were open at the stop, or raised, were never written; what ran inside hangs higher"
    return [Finding("parent-never-written", text, et.path, f"node {marked.item(0)}, ...", len(marked))]


def _unfinished(timeline: Timeline) -> list[Finding]:
    open_ops = timeline.host_ops.filter(pl.col("finished") == False)  # noqa: E712
    if open_ops.is_empty():
        return []
    names = timeline.events.filter(pl.col("event_id").is_in(open_ops.get_column("event_id").implode()))
    shown = ", ".join(names.get_column("name").cast(pl.String).unique(maintain_order=True).head(3).to_list())
    text = f"operators were still open when the profiler stopped: {shown}"
    return [Finding("op-unfinished", text, timeline.path, count=open_ops.height)]


def _launches(linked: LinkedTrace) -> list[Finding]:
    events = linked.coverage.gpu_events
    missing = events.total - events.linked
    if not missing:
        return []
    reasons = linked.launches.filter(pl.col("op_event").is_null()).get_column("reason").cast(pl.String)
    why = reasons.drop_nulls().mode().sort().head(1).to_list()
    text = f"of {events.total:,} device events, these have no operator{f': {why[0]}' if why else ''}"
    outside = bool(why) and "outside of any op" in why[0]
    return [
        Finding("launch-outside" if outside else "launch-unknown", text, linked.timeline.path, count=missing)
    ]
