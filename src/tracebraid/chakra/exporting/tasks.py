"""Work of a rank as tasks between moments, and tasks as nodes."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from tracebraid.chakra.codes import Detail, NodeType
from tracebraid.chakra.schema import CHAKRA_NODES
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, RankGraph
from tracebraid.model.quantities import NS_PER_US

_Ints = NDArray[np.int64]
NONE = -1
"""Stands for no activity, row or thread."""


class TaskKind(IntEnum):
    """Kind of a task."""

    HOST = 0
    """A thread works."""
    HOST_DELAY = 1
    """A thread continues later than all its dependencies."""
    DEVICE = 2
    """Work of a device."""
    DEVICE_DELAY = 3
    """Work of a device starts later than all that it waits for."""
    COMMUNICATION = 4


class Tasks(Struct, frozen=True, eq=False):
    """Work, each from a point to a later one; each array has one entry per task.

    Args:
        start: the point at which it starts.
        end: the point at which it ends.
        kind: `TaskKind`.
        activity: its row of `ACTIVITIES`.
        row: row of `CHAKRA_COMMUNICATION`; -1: it is no communication.
        lane: a number for each thread, and for each part of a stream in which every work waits for the one before it;
            -1: of neither.
    """

    start: _Ints
    end: _Ints
    kind: _Ints
    activity: _Ints
    row: _Ints
    lane: _Ints

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, rows: NDArray[np.bool_] | _Ints) -> Tasks:
        """Some of them."""
        return Tasks(*(column[rows] for column in astuple(self)))

    @staticmethod
    def of(
        span: tuple[_Ints, _Ints],
        kind: TaskKind,
        activity: _Ints,
        row: _Ints | None = None,
        lane: _Ints | None = None,
    ) -> Tasks:
        """Tasks of one kind, from the first points to the second."""
        none = np.full(len(activity), NONE, dtype=np.int64)
        of_kind = np.full(len(activity), int(kind), dtype=np.int64)
        return Tasks(*span, of_kind, activity, none if row is None else row, none if lane is None else lane)

    @staticmethod
    def joined(parts: list[Tasks]) -> Tasks:
        """Concatenate lists of tasks."""
        return Tasks(*map(np.concatenate, zip(*map(astuple, parts), strict=True)))


class Waits(Struct, frozen=True, eq=False):
    """Points that are not before others.

    Args:
        before: the point that is waited for.
        after: the point that waits.
    """

    before: _Ints
    after: _Ints

    def __len__(self) -> int:
        return len(self.before)

    @staticmethod
    def joined(parts: list[Waits]) -> Waits:
        """Concatenate several lists."""
        return Waits(
            np.concatenate([part.before for part in parts]), np.concatenate([part.after for part in parts])
        )


class Communication(Struct, frozen=True, eq=False):
    """The rows of communication that a rank's graph has.

    Args:
        row: rows of `CHAKRA_COMMUNICATION`, in the order in which they are issued.
        activity: the activity of each.
    """

    row: _Ints
    activity: _Ints


class Issued(Struct, frozen=True, eq=False):
    """Communication that is issued in order.

    Args:
        tasks: the communication.
        waits: what keeps its order.
        times_ns: of the points at which it is issued.
        unordered: rows that could not wait for the one before them: these began after they had ended.
    """

    tasks: Tasks
    waits: Waits
    times_ns: _Ints
    unordered: int


def communication_rows(graph: RankGraph, communication: pl.DataFrame) -> Communication:
    """The communication that is in the graph."""
    events = graph.activities.select("event_id").with_row_index("activity").drop_nulls()
    found = (
        communication.select("event_id", "order")
        .with_row_index("row")
        .join(events, on="event_id", how="inner")
        .sort("order", "row")
        .select(pl.col("row").cast(pl.Int64), pl.col("activity").cast(pl.Int64))
    )
    return Communication(found.get_column("row").to_numpy(), found.get_column("activity").to_numpy())


def issued(
    rows: Communication, spans: tuple[_Ints, _Ints], times_ns: _Ints, lane: _Ints, moved_ns: _Ints
) -> Issued:
    """Each row from the point at which it is issued to its end: not before the row ahead of it is.

    A simulator that does one communication of a rank at a time begins those first that are ready first, and of several
    that are ready the one with the lowest number: so ranks begin in one order, and never wait for each other in a
    circle. None waits for the end of the one ahead of it for that: they may run at once.
    """
    start, end = spans
    at_ns, unordered = _issue_times(times_ns[start] - moved_ns, times_ns[end])
    point = len(times_ns) + np.arange(len(start))
    follows = np.flatnonzero(at_ns[1:] >= at_ns[:-1]) + 1
    # What is issued before it could begin waits until then with its end.
    waiting = np.where(at_ns < times_ns[start], end, point)
    waits = Waits(np.r_[start, point[follows - 1]], np.r_[waiting, point[follows]])
    tasks = Tasks.of((point, end), TaskKind.COMMUNICATION, rows.activity, rows.row, lane)
    return Issued(tasks, waits, at_ns, unordered)


def _issue_times(starts_ns: _Ints, ends_ns: _Ints) -> tuple[_Ints, int]:
    """Issue time of each: when it and all ahead of it had begun, or its own start if it had ended by then."""
    latest = np.iinfo(np.int64).min
    found, unordered = starts_ns.copy(), 0
    for index, (start_ns, end_ns) in enumerate(zip(starts_ns.tolist(), ends_ns.tolist(), strict=True)):
        if latest > end_ns:
            unordered += 1
            continue
        latest = max(latest, start_ns)
        found[index] = latest
    return found, unordered


_MARKS = (ActivityKind.ANNOTATION.value, ActivityKind.OP.value)


def step_marks(graph: RankGraph) -> pl.DataFrame:
    """A row for each step: `step`, `activity`, `start_ns`, `end_ns`, by their starts."""
    rows = graph.activities.select("kind", "name", "step", "start_ns", "end_ns").with_row_index("activity")
    steps = rows.get_column("step").unique().drop_nulls().cast(pl.String)
    marks = rows.filter(as_text("name").is_in(steps.implode()), as_text("kind").is_in(_MARKS))
    return (
        marks.select(as_text("name").alias("step"), pl.col("activity").cast(pl.Int64), "start_ns", "end_ns")
        .sort("start_ns", "end_ns", maintain_order=True)
        .unique("step", keep="first", maintain_order=True)
    )


def step_at(marks: pl.DataFrame, times_ns: NDArray[np.int64]) -> pl.Series:
    """The name of the step that each time lies in: from its start up to its end; null: in none."""
    if marks.is_empty():
        return pl.select(pl.repeat(None, len(times_ns), dtype=pl.String)).to_series()
    start_ns, end_ns = (marks.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    row = np.searchsorted(start_ns, times_ns, side="right") - 1
    inside = pl.Series((row >= 0) & (times_ns < end_ns[row]))
    names = marks.get_column("step").gather(np.maximum(row, 0))
    found: pl.Series = pl.select(pl.when(inside).then(names)).to_series()
    return found


DELAY = "delay"
"""Kind of nodes with unknown work, and of host time that is not subdivided."""
_OF_COMMUNICATION = ("comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name", "collective")
_OF_EVENT = ("op", "et_node_id", "event_id", "shapes", "module")
_OF_ACTIVITY = ("name", "kind", "op", "node_id", "event_id", "shapes", "module", "step", "stream", "lane")
_ON_HOST = (TaskKind.HOST, TaskKind.HOST_DELAY)
_DELAYS = (TaskKind.HOST_DELAY, TaskKind.DEVICE_DELAY)


def node_columns(
    graph: RankGraph,
    tasks: Tasks,
    spans_ns: tuple[_Ints, _Ints],
    communication: pl.DataFrame,
    detail: Detail,
) -> pl.DataFrame:
    """`CHAKRA_NODES`, a row for each task; nodes are numbered in the order of tasks."""
    start_ns, end_ns = spans_ns
    activity = pl.Series(tasks.activity)
    rows = graph.activities.select(_OF_ACTIVITY)[activity].rename({"node_id": "et_node_id", "kind": "_kind"})
    rows = rows.hstack(_of_communication(tasks, communication)).with_columns(
        pl.Series("_task", tasks.kind),
        node_id=pl.Series(np.arange(len(tasks))),
        duration_ns=pl.coalesce("lasts_ns", pl.Series(end_ns - start_ns)),
        start_time_micros=pl.Series((start_ns - (start_ns.min() if len(start_ns) else 0)) // 1000),
    )
    on_host = pl.Series(np.isin(tasks.kind, _ON_HOST))
    in_window = step_at(step_marks(graph), start_ns)
    rows = rows.with_columns(step=pl.when(on_host).then(in_window).otherwise(as_text("step")))
    lasts_ns, lane = rows.get_column("duration_ns").to_numpy(), _rounding_lanes(tasks)
    micros = pl.Series("duration_micros", rounded_micros(lasts_ns, lane))
    return CHAKRA_NODES.conform(rows.select(_described(detail)).with_columns(micros), fill_missing=True)


def _rounding_lanes(tasks: Tasks) -> _Ints:
    """Work of a thread or stream, its delays and its communication: each of them adds up for itself."""
    kind = np.select([np.isin(tasks.kind, _DELAYS), tasks.kind == TaskKind.COMMUNICATION], [1, 2], default=0)
    lanes: _Ints = 3 * tasks.lane + kind
    return lanes


def _of_communication(tasks: Tasks, communication: pl.DataFrame) -> pl.DataFrame:
    """The columns of communication for each task; null if it is none."""
    lasts_ns = pl.coalesce("lasts_ns", "transfer_ns").alias("lasts_ns")
    chosen = communication.select(*_OF_COMMUNICATION, "type", lasts_ns)
    if chosen.is_empty():
        return chosen.clear(len(tasks))
    is_communication = pl.Series(tasks.row != NONE)
    rows = chosen[pl.Series(np.maximum(tasks.row, 0))]
    return rows.select(pl.when(is_communication).then(pl.col(name)).alias(name) for name in rows.columns)


def _described(detail: Detail) -> list[pl.Expr]:
    task = pl.col("_task")
    host = task == int(TaskKind.HOST)
    on_host = task.is_in([int(kind) for kind in _ON_HOST])
    is_delay = task.is_in([int(kind) for kind in _DELAYS])
    if detail is Detail.DEVICE:
        is_delay |= host
    of_event = [pl.when(~is_delay).then(pl.col(name)).alias(name) for name in _OF_EVENT]
    return [
        pl.col("node_id", "start_time_micros", "duration_ns", "step", *_OF_COMMUNICATION),
        pl.when(is_delay).then(pl.lit(DELAY)).otherwise(as_text("name")).alias("name"),
        pl.when(is_delay).then(pl.lit(DELAY)).otherwise(as_text("_kind")).alias("kind"),
        pl.coalesce(as_text("type"), pl.lit(NodeType.COMP_NODE.name)).alias("type"),
        on_host.alias("is_cpu_op"),
        *of_event,
        pl.when(~on_host).then("stream").alias("stream"),
        pl.when(on_host).then("lane").alias("thread"),
    ]


def rounded_micros(duration_ns: _Ints, lane: _Ints) -> _Ints:
    """Each duration in us, so that the sum along a lane, up to any node, is within 0.5 us of the exact one.

    Rounded one by one, all kernels below 0.5 us would vanish. A chain that goes over several lanes is within 0.5 us for
    each: delays that are numbered as a lane of their own let both the work of a chain and all of it be right.
    """
    order = np.argsort(lane, kind="stable")
    # Only what is below a microsecond is summed up: sums of whole durations could pass int64.
    whole_us, rest_ns = np.divmod(duration_ns[order], NS_PER_US)
    lane, ended = lane[order], np.cumsum(rest_ns)
    starts = np.flatnonzero(np.r_[True, lane[1:] != lane[:-1]][: len(lane)])
    before = np.repeat(ended[starts] - rest_ns[starts], np.diff(np.r_[starts, len(lane)]))
    ended_us = (ended - before + NS_PER_US // 2) // NS_PER_US
    passed_us = np.r_[0, ended_us[:-1]][: len(lane)]
    passed_us[starts] = 0
    micros = np.empty(len(lane), dtype=np.int64)
    micros[order] = whole_us + ended_us - passed_us
    return micros
