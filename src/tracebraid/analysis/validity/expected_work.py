"""Which calls of the host should have had work on a device, and which of them have none?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["expected_work"]

_LAUNCHING = ["cuda_runtime", "cuda_driver"]
"""Categories of the calls of which names say so: CUDA and ROCm, which write both."""

_USUAL_SHARE = 0.9
"""Share of an API's calls in the other steps that have work, from which on its calls are expected to have it."""
_LOST_SHARE = 0.5
"""Below this part of that share, its calls in a step are said to lack it: copies and fills of no bytes have none."""


def expected_work(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Calls that should have work: event_id, ts_ns, dur_ns, step, has_work.

    A call that launches a kernel or a graph should, unless it is recorded into a graph, or another call inside it or
    around it has the work. A call of any other API should where nearly all its calls in the other steps have it,
    and few in this.
    """
    calls = _of_launching_apis(linked)
    if calls.is_empty():
        return calls.select(
            "event_id", "ts_ns", "dur_ns", pl.lit(None, dtype=pl.String).alias("step"), "has_work"
        )
    calls = step_of_moments(calls, step_windows(linked, annotation))
    launches = calls.filter("launches")
    kernels = _not_explained(_not_recorded(launches, linked), calls)
    others = _unlike_other_steps(calls.filter(~pl.col("launches")))
    return pl.concat([kernels, others]).select("event_id", "ts_ns", "dur_ns", "step", "has_work")


def _of_launching_apis(linked: LinkedTrace) -> pl.DataFrame:
    """Calls of the APIs that launch by their name, or of which some call has work: with `launches` and `has_work`."""
    with_work = linked.launches.get_column("call_event").drop_nulls().unique()
    calls = (
        linked.timeline.of_role(Role.CALL)
        .select("event_id", "name", "category", "lane", "ts_ns", "dur_ns")
        .with_columns(pl.col("event_id").is_in(with_work.implode()).alias("has_work"))
    )
    name = as_text("name")
    named = call_does(name, CallAction.LAUNCH_KERNEL) | call_does(name, CallAction.LAUNCH_GRAPH)
    apis = (
        calls.group_by("name", "category")
        .agg(pl.col("has_work").any().alias("works"))
        .with_columns(
            (named.fill_null(value=False) & as_text("category").is_in(_LAUNCHING)).alias("launches")
        )
        .filter(pl.col("works") | pl.col("launches"))
    )
    return calls.join(
        apis.select("name", "category", "launches"), on=["name", "category"], maintain_order="left"
    )


def _not_recorded(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Without the calls that have no work because a stream was being captured into a graph when they were made."""
    if calls.get_column("has_work").all():
        return calls
    name = as_text("name")
    made = linked.timeline.of_role(Role.CALL).select("ts_ns", name)
    begins = call_does(name, CallAction.BEGIN_CAPTURE)
    marks = made.filter(begins | call_does(name, CallAction.END_CAPTURE))
    if marks.is_empty():
        # Stands for the end of a capture that is not in the trace.
        marks = made.filter(call_does(name, CallAction.MAKE_GRAPH))
    if marks.is_empty():
        return calls
    depth = pl.when(begins).then(1).otherwise(-1).cum_sum()
    captures = marks.sort("ts_ns").select("ts_ns", depth.alias("open"))
    # A trace that begins within a capture has one end more than begins.
    before = max(0, -int(captures.get_column("open").min() or 0))  # type: ignore[arg-type]
    return (
        calls.sort("ts_ns")
        .join_asof(captures.with_columns(pl.col("open") + before), on="ts_ns", strategy="backward")
        .filter(pl.col("has_work") | (pl.col("open").fill_null(before) <= 0))
        .drop("open")
    )


def _not_explained(launches: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Without the launches whose work another call has: that around them, or that inside them."""
    if launches.get_column("has_work").all():
        return launches
    working = (
        calls.filter("has_work")
        .select(
            "lane",
            "ts_ns",
            pl.col("ts_ns").alias("other_ts"),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("other_end"),
        )
        .sort("ts_ns")
    )
    end = pl.col("ts_ns") + pl.col("dur_ns")
    before, after = (
        launches.sort("ts_ns").join_asof(
            working, on="ts_ns", by="lane", strategy=strategy, check_sortedness=False
        )
        for strategy in ("backward", "forward")
    )
    enclosing = before.filter(pl.col("other_end") >= end)
    enclosed = after.filter(pl.col("other_end") <= end)
    explained = pl.concat([enclosing.select("event_id"), enclosed.select("event_id")])
    return launches.filter(
        pl.col("has_work") | ~pl.col("event_id").is_in(explained.get_column("event_id").implode())
    )


def _unlike_other_steps(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls of the steps in which an API has less work than in the others."""
    by_step = calls.group_by("name", "step").agg(
        pl.len().alias("calls"), pl.col("has_work").sum().alias("working")
    )
    others = [pl.col(c).sum().over("name") - pl.col(c) for c in ("working", "calls")]
    usual = others[0] / others[1]
    lost = by_step.filter(
        pl.col("step").is_not_null()
        & (others[1] > 0)
        & (usual >= _USUAL_SHARE)
        & (pl.col("working") < _LOST_SHARE * usual * pl.col("calls"))
    )
    return calls.join(lost.select("name", "step"), on=["name", "step"], how="semi")
