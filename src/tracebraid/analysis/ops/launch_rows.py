"""Where on the host was each device event launched, and in which step?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device_events import device_events, device_events_by_step
from tracebraid.analysis.host_parents import host_names, host_parents
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["host_times", "launched"]


def launched(linked: LinkedTrace, per_step: bool, annotation: str) -> pl.DataFrame:
    """`device_events` with `row` and `step`.

    The row of `host_tree` is that of the launching call, else of the op that launched the event; -1: no launch is
    known.

    Args:
        linked: one rank.
        per_step: whether `step` is that of the launch; else it is null.
        annotation: what marks a step.
    """
    if per_step:
        events = device_events_by_step(linked, annotation)
    else:
        events = device_events(linked).with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    launcher = pl.coalesce("call_event", "op_event").alias("launcher")
    rows = pl.DataFrame({"launcher": host_parents(linked).event_id}).with_row_index("row")
    return (
        events.with_columns(launcher)
        .join(
            rows.with_columns(pl.col("row").cast(pl.Int64)), on="launcher", how="left", maintain_order="left"
        )
        .with_columns(pl.col("row").fill_null(-1))
    )


def host_times(linked: LinkedTrace, per_step: bool, annotation: str) -> pl.DataFrame:
    """The host events in the order of `host_tree`: step, in which each started, ts_ns, inclusive_ns, exclusive_ns.

    Args:
        linked: one rank.
        per_step: whether steps are told apart; else `step` is null.
        annotation: what marks a step.
    """
    names = host_names(linked).select("ts_ns")
    times = names.with_columns(linked.host_tree.select("inclusive_ns", "exclusive_ns").get_columns())
    if per_step:
        return step_of_moments(times, step_windows(linked, annotation))
    return times.with_columns(pl.lit(None, dtype=pl.String).alias("step"))
