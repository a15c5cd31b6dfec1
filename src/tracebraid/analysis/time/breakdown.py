"""Where does the time go: compute, communication, memory, or nothing at all?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.time.intervals import Cover, cover_of
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.answers import BREAKDOWN
from tracebraid.model.answers.columns import DOUBTFUL, RANK
from tracebraid.model.device_kind import COMMUNICATION, COMPUTE, MEMORY
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["breakdown"]


def breakdown(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The temporal breakdown of one rank, over all and for each step: `model.answers.BREAKDOWN`.

    With P, C and M the moments in which some event of kind compute, communication or memory runs, on any stream:
    compute = |P|, communication = |C|, memory = |M|, overlap = |P & C|, exposed communication = |C - P|,
    exposed memory = |M - P - C|, idle = span - |P | C | M|. Over all, the span reaches from the device's first
    event to its last; for a step, it is the annotation's time on the host.

    A trace without device work is broken down by its host ops, as device `cpu`: C is ops of a communication
    library, P all other ops; idle is when no op runs on any thread.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    windows = step_windows(linked, annotation)
    events = work_events(linked)
    rows = [
        row
        for device in sorted(
            events.get_column("device").unique().to_list(), key=lambda name: (len(name), name)
        )
        for row in _rows(device, events.filter(pl.col("device") == device), windows)
    ]
    if not rows:
        return BREAKDOWN.empty()
    names = [name for name in BREAKDOWN.polars_schema() if name not in (RANK.name, DOUBTFUL.name)]
    found = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    return answer(
        BREAKDOWN, found.sort(pl.col("step").is_not_null(), maintain_order=True), linked, annotation
    )


def _rows(device: str, events: pl.DataFrame, windows: pl.DataFrame) -> list[tuple[object, ...]]:
    ends = events.select((pl.col("ts_ns") + pl.col("dur_ns")).alias("end")).get_column("end").to_numpy()
    first, last = int(events.get_column("ts_ns").to_numpy().min()), int(ends.max())
    begin = np.r_[first, windows.get_column("start_ns").to_numpy()].astype(np.int64)
    end = np.r_[last, windows.get_column("end_ns").to_numpy()].astype(np.int64)
    kinds = [COMPUTE, COMMUNICATION, MEMORY]
    compute, communication, memory = (_cover(events, kind).within(begin, end) for kind in kinds)
    working = _cover(events, COMPUTE, COMMUNICATION).within(begin, end)
    busy = _cover(events, *kinds).within(begin, end)
    span = end - begin
    columns = [
        begin,
        span,
        compute,
        communication,
        memory,
        compute + communication - working,
        working - compute,
        busy - working,
        span - busy,
    ]
    names = [None, *windows.get_column("step").to_list()]
    return [(names[i], device, *(int(column[i]) for column in columns)) for i in range(len(names))]


def _cover(events: pl.DataFrame, *kinds: str) -> Cover:
    some = events.filter(pl.col("kind").is_in(kinds))
    starts = some.get_column("ts_ns").to_numpy()
    return cover_of(starts, starts + some.get_column("dur_ns").to_numpy())
