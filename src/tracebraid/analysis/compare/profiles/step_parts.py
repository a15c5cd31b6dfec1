"""What fills each step: which op computes, which collective and copy is exposed, and why the device is idle?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host.host_rows import host_rows
from tracebraid.analysis.host.thread_timelines import thread_timelines
from tracebraid.analysis.time.idle.codes import in_codes
from tracebraid.analysis.time.idle.idle_parts import contexts_of_parts, idle_parts
from tracebraid.analysis.time.intervals import Cover, cover_of, owned
from tracebraid.analysis.time.work_events import HOST, work_events
from tracebraid.model.answers import DiffPart
from tracebraid.model.device_kind import COMMUNICATION, COMPUTE, MEMORY
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.nearest import nearest_rows

__all__ = ["main_device", "step_parts"]

_Ints = NDArray[np.int64]
_SCHEMA = {
    "window": pl.Int64,
    "part": pl.String,
    "row": pl.Int64,
    "cause": pl.String,
    "host_activity": pl.String,
    "ns": pl.Int64,
}
_KEY = ["window", "part", "row", "cause", "host_activity"]


def main_device(linked: LinkedTrace) -> str | None:
    """The device that works most; `cpu` where there is no device work, None where there is nothing."""
    work = work_events(linked).group_by("device").agg(pl.col("dur_ns").sum())
    if work.is_empty():
        return None
    ordered = work.sort(-pl.col("dur_ns"), pl.col("device").str.len_chars(), "device")
    return str(ordered.item(0, "device"))


def step_parts(linked: LinkedTrace, annotation: str, windows: pl.DataFrame, per_step: bool) -> pl.DataFrame:
    """The parts of each window on its main device; they add up to the window's length, to the nanosecond.

    Columns: window, part (`DiffPart`), row (of `host_tree`: the op that computes, communicates or copies; null:
    unknown, or idle), cause and host_activity (of idle time), ns. A moment of the device counts as compute where
    something computes, else as communication, else as memory; where two kernels do so at once it counts for that which
    began first. On the host it counts for the innermost op. What none explains is `rest`.

    Args:
        linked: one rank.
        annotation: what marks a step.
        windows: `start_ns`, `end_ns`, disjoint or not.
        per_step: whether the windows are steps, or one is the whole trace.
    """
    device = main_device(linked)
    begin, end = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    found = [pl.DataFrame(schema=_SCHEMA)]
    if device is not None:
        work = _host_segments(linked) if device == HOST else _device_work(linked, device)
        hides = Cover(*(np.empty(0, dtype=np.int64) for _ in range(3)))
        starts = ends = np.empty(0, dtype=np.int64)
        for kind, part in _PARTS.items():
            of_kind = work.filter(pl.col("kind") == kind).sort("ts_ns", "row", nulls_last=True)
            found.append(_owned_parts(of_kind, hides, (begin, end), part))
            starts = np.r_[starts, of_kind.get_column("ts_ns").to_numpy()]
            ends = np.r_[ends, of_kind.get_column("end_ns").to_numpy()]
            hides = cover_of(starts, ends)
        found.append(_idle(linked, annotation, device, per_step))
    parts = pl.concat(found)
    rest = (
        pl.DataFrame({"window": np.arange(len(begin)), "span": end - begin})
        .join(parts.group_by("window").agg(pl.col("ns").sum()), on="window", how="left")
        .select("window", (pl.col("span") - pl.col("ns").fill_null(0)).alias("ns"))
        .filter(pl.col("ns") != 0)
        .select(
            pl.lit(None, dtype=dtype).alias(name) if name not in ("window", "ns") else name
            for name, dtype in _SCHEMA.items()
        )
        .with_columns(pl.lit(DiffPart.REST.value).alias("part"))
    )
    return pl.concat([parts, rest]).group_by(_KEY, maintain_order=True).agg(pl.col("ns").sum())


_PARTS = {
    COMPUTE: DiffPart.COMPUTE,
    COMMUNICATION: DiffPart.EXPOSED_COMMUNICATION,
    MEMORY: DiffPart.EXPOSED_MEMORY,
}
"""In the order in which a moment counts for them."""


def _device_work(linked: LinkedTrace, device: str) -> pl.DataFrame:
    events = work_events(linked).filter(pl.col("device") == device)
    host = host_rows(linked)
    rows = host.rows(events.get_column("op_event").fill_null(-1).to_numpy())
    return events.select(
        "kind", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"), pl.Series("row", rows)
    ).with_columns(pl.when(pl.col("row") >= 0).then("row").alias("row"))


def _host_segments(linked: LinkedTrace) -> pl.DataFrame:
    """From when to when each thread computes or communicates, and in which innermost op."""
    events = work_events(linked)
    host = host_rows(linked)
    frames = []
    for kind in (COMPUTE, COMMUNICATION):
        wanted = np.zeros(len(host.event_id), dtype=np.bool_)
        rows = host.rows(events.filter(pl.col("kind") == kind).get_column("event_id").to_numpy())
        wanted[rows[rows >= 0]] = True
        owner = np.r_[nearest_rows(host.parent, wanted), -1]
        for timeline in thread_timelines(linked).values():
            of_moment = owner[timeline.rows]
            inside = of_moment >= 0
            inside[-1:] = False
            at = np.flatnonzero(inside)
            frames.append(
                pl.DataFrame(
                    {
                        "ts_ns": timeline.moments[at],
                        "end_ns": timeline.moments[at + 1 if len(at) else at],
                        "row": of_moment[at],
                    }
                ).select(pl.lit(kind).alias("kind"), "ts_ns", "end_ns", "row")
            )
    schema = {"kind": pl.String, "ts_ns": pl.Int64, "end_ns": pl.Int64, "row": pl.Int64}
    return pl.concat([pl.DataFrame(schema=schema), *frames])


def _owned_parts(
    work: pl.DataFrame, hides: Cover, windows: tuple[_Ints, _Ints], part: DiffPart
) -> pl.DataFrame:
    """Of each window what each row has alone, less what is hidden.

    Args:
        work: in the order of starts.
        hides: moments that count for something else.
        windows: starts and ends.
        part: what it is called.
    """
    first, last = owned(*(work.get_column(name).to_numpy() for name in ("ts_ns", "end_ns")))
    some = np.flatnonzero(last > first)
    first, last = first[some], last[some]
    begin, end = windows
    # The parts are disjoint and in order: those in a window are a stretch of them.
    low = np.searchsorted(last, begin, side="right")
    count = np.maximum(np.searchsorted(first, end, side="left") - low, 0)
    window = np.repeat(np.arange(len(begin)), count)
    index = low[window] + np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count)
    starts, ends = np.maximum(first[index], begin[window]), np.minimum(last[index], end[window])
    ns = ends - starts - hides.within(starts, ends)
    row = work.get_column("row").gather(some[index])
    return (
        pl.DataFrame({"window": window, "row": row, "ns": ns}, schema_overrides={"window": pl.Int64})
        .group_by("window", "row", maintain_order=True)
        .agg(pl.col("ns").sum())
        .filter(pl.col("ns") > 0)
        .with_columns(pl.lit(part.value).alias("part"), *_no_text("cause", "host_activity"))
        .select(list(_SCHEMA))
    )


def _idle(linked: LinkedTrace, annotation: str, device: str, per_step: bool) -> pl.DataFrame:
    parts = idle_parts(linked, annotation, per_step)
    contexts = contexts_of_parts(linked, annotation, per_step).select("index", "activity", "dur_ns")
    of_part = parts.select("device", "window", "cause")[contexts.get_column("index").to_numpy()]
    return (
        pl.concat([contexts, of_part], how="horizontal")
        .filter(pl.col("device") == device)
        .group_by("window", "cause", "activity", maintain_order=True)
        .agg(pl.col("dur_ns").sum().alias("ns"))
        .with_columns(in_codes())
        .with_columns(
            pl.lit(DiffPart.IDLE.value).alias("part"),
            pl.lit(None, dtype=pl.Int64).alias("row"),
            pl.col("cause", "host_activity").cast(pl.String),
            pl.col("window").cast(pl.Int64),
        )
        .select(list(_SCHEMA))
    )


def _no_text(*names: str) -> list[pl.Expr]:
    return [pl.lit(None, dtype=pl.String).alias(name) for name in names]
