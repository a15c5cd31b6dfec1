"""Calls that launched work which is not in the trace."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.analysis.device import device_events, event_columns
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.category import Role
from tracebraid.model.collectives import text_of_ranks, type_of
from tracebraid.model.device_peaks import COMMUNICATION
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does
from tracebraid.model.quantities import NS_PER_S

_USUAL_SHARE = 0.9
"""Share of an API's calls in the other steps that have work, from which on its calls are expected to have it."""
_LOST_SHARE = 0.5
"""Below this part of that share, its calls in a step are said to lack it: copies and fills of no bytes have none."""


def expected_work(linked: LinkedTrace) -> pl.DataFrame:
    """Calls that should have work: event_id, ts_ns, dur_ns, step, has_work.

    A call that launches a kernel or a graph should, unless it is recorded into a graph, or another call inside it or
    around it has the work. A call of any other API should where nearly all its calls in the other steps have it,
    and few in this.
    """
    return linked.derived(_expected_work)


def _expected_work(linked: LinkedTrace) -> pl.DataFrame:
    calls = _of_launching_apis(linked)
    if calls.is_empty():
        return calls.select(
            "event_id", "ts_ns", "dur_ns", pl.lit(None, dtype=pl.String).alias("step"), "has_work"
        )
    calls = step_of_moments(calls, step_windows(linked))
    launches = calls.filter("launches")
    kernels = _not_explained(_not_recorded(launches, linked), calls)
    others = _unlike_other_steps(calls.filter(~pl.col("launches")))
    return pl.concat([kernels, others]).select("event_id", "ts_ns", "dur_ns", "step", "has_work")


def _of_launching_apis(linked: LinkedTrace) -> pl.DataFrame:
    """Calls of the APIs that launch by their name, or of which some call has work: with `launches` and `has_work`.

    Of any runtime or driver: CUDA, ROCm, Level Zero, ... . A call without correlation is not known to lack its work,
    but where there is no work at all.
    """
    with_work = linked.launches.get_column("call_event").drop_nulls().unique()
    carried = linked.timeline.host_calls.filter(pl.col("correlation") > 0)
    linked_calls = carried.get_column("event_id")
    none = pl.lit(not linked.timeline.has_device)
    calls = (
        linked.timeline.of_role(Role.CALL)
        .select("event_id", "name", "category", "lane", "ts_ns", "dur_ns")
        .with_columns(
            pl.col("event_id").is_in(with_work.implode()).alias("has_work"),
            pl.col("event_id").is_in(linked_calls.implode()).alias("is_linked"),
        )
    )
    name = as_text("name")
    named = call_does(name, CallAction.LAUNCH_KERNEL) | call_does(name, CallAction.LAUNCH_GRAPH)
    apis = (
        calls.group_by("name", "category")
        .agg(pl.col("has_work").any().alias("works"), pl.col("is_linked").any())
        .with_columns(
            (named.fill_null(value=False) & (pl.col("is_linked") | none)).alias("launches"),
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


LEAST_WAIT_NS = 5 * NS_PER_S
"""Minimum wait of a hang: ranks stop recording at different moments, and what is in flight then is lost too."""
TIMES_LONGEST = 10
"""Minimum ratio to the longest other communication of the rank, which may have waited for a late rank."""
_ISSUES = r"^(?:c10d::|record_param_comms$|nccl:)"

_UNENDED = pl.Schema(
    {
        "rank": pl.Int64(),
        "event_id": pl.Int64(),
        "step": pl.String(),
        "type": pl.String(),
        "process_group": pl.String(),
        "description": pl.String(),
        "group_ranks": pl.String(),
        "sequence": pl.Int64(),
        "source": pl.Int64(),
        "destination": pl.Int64(),
        "issued_ns": pl.Int64(),
        "waited_ns": pl.Int64(),
    }
)


def unended(linked: LinkedTrace) -> pl.DataFrame:
    """Communication of a rank whose launch has no work although the recording went on for long; in order of issue.

    CUPTI and its like record a kernel when it has ended, so that one that hangs is not in the trace.
    """
    return linked.derived(_unended)


def _unended(linked: LinkedTrace) -> pl.DataFrame:
    span = linked.timeline.span_ns
    calls = expected_work(linked).filter(~pl.col("has_work"))
    if span is None or calls.is_empty():
        return _UNENDED.to_frame()
    known = _communication(linked)
    longest = known.get_column("dur_ns").max()
    least = max(LEAST_WAIT_NS, TIMES_LONGEST * (longest if isinstance(longest, int) else 0))
    late = calls.filter(pl.col("ts_ns") <= span[1] - least)
    if late.is_empty():
        return _UNENDED.to_frame()
    found = _issued_by(late, linked)
    began = known.group_by("process_group").agg(pl.col("launched_ns").max().alias("last_ns"))
    found = found.join(began, on="process_group", how="left", nulls_equal=True, maintain_order="left")
    found = found.filter(pl.col("last_ns").is_null() | (pl.col("last_ns") < pl.col("issued_ns")))
    steps = step_of_moments(found.select(pl.col("issued_ns").alias("ts_ns")), step_windows(linked))
    return found.with_columns(
        steps.get_column("step").cast(pl.String),
        pl.lit(linked.rank, dtype=pl.Int64).alias("rank"),
        (span[1] - pl.col("issued_ns")).alias("waited_ns"),
    ).select([pl.col(name).cast(dtype) for name, dtype in _UNENDED.items()])


def _issued_by(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """The innermost communication op around each call, with the arguments that the trace has of it; each op once."""
    timeline = linked.timeline
    given = timeline.collectives
    lanes = event_columns(timeline, calls.get_column("event_id"), lane="lane")
    ops = (
        timeline.of_role(Role.OP)
        .select(
            "event_id", "lane", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"), as_text("name")
        )
        .filter(
            pl.col("name").str.contains(_ISSUES)
            | pl.col("event_id").is_in(given.get_column("event_id").implode())
        )
        .sort("ts_ns")
    )
    inside = (
        calls.select("ts_ns")
        .hstack(lanes)
        .sort("ts_ns")
        .join_asof(
            ops.with_columns(pl.col("ts_ns").alias("issued_ns")),
            on="ts_ns",
            by="lane",
            strategy="backward",
            check_sortedness=False,
        )
        .filter(pl.col("end_ns") >= pl.col("ts_ns"))
        .unique("event_id", keep="first", maintain_order=True)
        .select("event_id", "name", "issued_ns")
        .join(given, on="event_id", how="left", maintain_order="left")
    )
    named = as_text("collective_name", "name")
    listed = {name: list(ranks) for name, ranks in _listed(linked)}
    kinds = [type_of(own or "") or type_of(name) for own, name in inside.select(named).iter_rows()]
    ranks = [
        text_of_ranks(own or listed.get(group))
        for own, group in inside.select("pg_ranks", as_text("pg_name")).iter_rows()
    ]
    return inside.select(
        "event_id",
        "issued_ns",
        "sequence",
        pl.Series("type", kinds, dtype=pl.String),
        as_text("pg_name").alias("process_group"),
        as_text("pg_desc").alias("description"),
        pl.Series("group_ranks", ranks, dtype=pl.String),
        pl.when(pl.col("src_rank") >= 0).then("src_rank").alias("source"),
        pl.when(pl.col("dst_rank") >= 0).then("dst_rank").alias("destination"),
    ).filter(pl.col("type").is_not_null())


def _listed(linked: LinkedTrace) -> Iterator[tuple[str, list[int]]]:
    for name, ranks in linked.timeline.process_groups.select("pg_name", "ranks").iter_rows():
        if name is not None and ranks:
            yield name, ranks


def _communication(linked: LinkedTrace) -> pl.DataFrame:
    """Communication of the rank's devices: process_group, launched_ns (null: unknown) and dur_ns."""
    timeline = linked.timeline
    groups = timeline.collectives.select("event_id", as_text("pg_name").alias("process_group"))
    work = device_events(linked).filter(pl.col("kind") == COMMUNICATION)
    launched = event_columns(timeline, work.get_column("call_event"), launched_ns="ts_ns")
    return (
        work.hstack(launched)
        .join(groups, on="event_id", how="left", maintain_order="left")
        .select("process_group", "launched_ns", "dur_ns")
    )
