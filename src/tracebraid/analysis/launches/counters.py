"""What do the hardware counters say of each kernel, and which op launched it?"""

from __future__ import annotations

import json

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.analysis.launches.callers import with_callers
from tracebraid.analysis.launches.launched_work import launched_work, with_steps
from tracebraid.model.answers import COUNTERS, CounterMethod
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["counters"]

_RANGES = "cuda_profiler_range"
_UNKNOWN_KERNEL = "__missing__"
"""What Kineto calls a kernel whose name CUPTI did not give."""
_CONFIDENCE = {CounterMethod.NAME.value: 1.0, CounterMethod.POSITION.value: 0.8}


def counters(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Counters of each range that CUPTI profiled, with the op that launched its kernel: `model.answers.COUNTERS`.

    Rows stand in the order of the ranges, and in that of the counters' names.

    CUPTI gives ranges no correlation and no true times, only their order. The n-th range is the n-th launch of a
    kernel where there are as many of both (HTA's rule; of any API that launches kernels, HTA knows one). Where the
    trace has as many kernels, and all names that the ranges have are theirs, the method is `name`; else `position`.
    Where the numbers differ, which launch a range belongs to is unknown, and its counters stand alone.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    ranges = _ranges(linked)
    if ranges.is_empty():
        return COUNTERS.empty()
    values = linked.timeline.tables["extra_args"].select(
        pl.col("event_id").alias("range_event"),
        as_text("key").alias("counter"),
        pl.col("value").str.strip_chars('"').cast(pl.Float64, strict=False).alias("value"),
    )
    found = (
        _matched(linked, annotation, ranges)
        .pipe(_with_op_stacks, linked)
        .with_row_index("position")
        .join(values, on="range_event")
        .sort("position", "counter")
        .with_columns(
            pl.when(pl.col("value").is_finite()).then("value").alias("value"),
            pl.col("method").replace_strict(_CONFIDENCE, return_dtype=pl.Float64).alias("confidence"),
        )
    )
    return answer(COUNTERS, found, linked, annotation)


def _ranges(linked: LinkedTrace) -> pl.DataFrame:
    """The profiled ranges in their order: range_event, kernel (null where the name is unknown)."""
    return (
        linked.timeline.events.filter(as_text("category") == _RANGES)
        .sort("ts_ns", "event_id")
        .select(
            pl.col("event_id").alias("range_event"),
            pl.when(as_text("name") != _UNKNOWN_KERNEL).then(as_text("name")).alias("kernel"),
        )
    )


def _matched(linked: LinkedTrace, annotation: str, ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges with the call that launched their kernel, its step and its callers; null where that is unknown."""
    kernels = launched_work(linked, annotation).join(
        linked.timeline.events.filter(as_text("category") == "kernel"), on="event_id", how="semi"
    )
    kernels = kernels.filter(pl.col("call_event").is_not_null()).sort("called_ns", "ts_ns", "event_id")
    calls = _launches(linked)
    method: str | None = None
    if kernels.height == ranges.height and _agree(ranges, kernels):
        method = CounterMethod.NAME.value
        launched = kernels.select("call_event", pl.col("called_ns").alias("ts_ns"), "name")
    elif calls.height == ranges.height:
        method = CounterMethod.POSITION.value
        launched = calls.with_columns(pl.lit(None, dtype=pl.String).alias("name"))
    else:
        schema = {"call_event": pl.Int64, "ts_ns": pl.Int64, "name": pl.String}
        launched = pl.DataFrame({name: [None] * ranges.height for name in schema}, schema=schema)
    found = pl.concat([ranges, launched], how="horizontal").with_columns(
        pl.coalesce("kernel", "name").alias("kernel"), pl.lit(method, dtype=pl.String).alias("method")
    )
    with_step = with_steps(found, linked, annotation)
    return with_callers(with_step, linked, annotation)


def _agree(ranges: pl.DataFrame, kernels: pl.DataFrame) -> bool:
    pairs = pl.DataFrame({"range": ranges.get_column("kernel"), "kernel": kernels.get_column("name")})
    return bool(
        pairs.select((pl.col("range").is_null() | (pl.col("range") == pl.col("kernel"))).all()).item()
    )


def _launches(linked: LinkedTrace) -> pl.DataFrame:
    """Calls that launch a kernel, in the order of their starts; those inside another are the same launch.

    Their effect is not in the trace: CUPTI's counters displace the device's events.
    """
    calls = linked.timeline.of_role(Role.CALL).filter(call_does(as_text("name"), CallAction.LAUNCH_KERNEL))
    parents = linked.host_tree.select("event_id", "parent_event").filter(
        pl.col("parent_event").is_in(calls.get_column("event_id").implode())
    )
    return (
        calls.join(parents, on="event_id", how="anti")
        .sort("ts_ns", "event_id")
        .select(pl.col("event_id").alias("call_event"), "ts_ns")
    )


def _with_op_stacks(found: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Add `op_stack`: the names of all ops that enclose the call, outermost first, as JSON."""
    stacks = _stacks(found.get_column("op_event").drop_nulls().unique().to_list(), linked)
    texts = pl.DataFrame(
        {"op_event": list(stacks), "op_stack": list(stacks.values())},
        schema={"op_event": pl.Int64, "op_stack": pl.String},
    )
    return found.join(texts, on="op_event", how="left", maintain_order="left")


def _stacks(ops: list[int], linked: LinkedTrace) -> dict[int, str]:
    """Text by op. Walks up from each op that launched a profiled kernel: profiled runs are short."""
    walk = host_ops(linked)
    names = dict(
        linked.timeline.events.filter(as_text("category").is_in(categories_of(Role.OP)))
        .select("event_id", as_text("name"))
        .iter_rows()
    )
    found = {}
    for op in ops:
        row = int(np.searchsorted(walk.event_id, op))
        stack: list[str] = []
        while True:
            name = names.get(int(walk.event_id[row]))
            if name is not None:
                stack.append(name)
            if walk.enclosing[row] == row:
                break
            row = int(walk.enclosing[row])
        found[op] = json.dumps(stack[::-1])
    return found
