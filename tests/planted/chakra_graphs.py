"""Dependency graphs of a rank, made by hand: threads of ops one behind the other, works of streams, edges between."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph import EdgeKind, EdgeList, Point, RankGraph
from tracebraid.model.schema.links import ACTIVITIES

_Ints = NDArray[np.int64]

START, END = Point.START, Point.END
_HOST_KINDS = ("op", "call", "communication", "annotation", "python")


@dataclass
class Made:
    """A rank: activities by name, each thread a chain of those that were added to it in their order.

    Example: `made = Made(); made.host("a", 0, 10); made.work("k", 20, 30); made.edge(EdgeKind.LAUNCH, "a", "k", 15)`.
    """

    rows: list[dict[str, object]] = field(default_factory=list)
    number: dict[str, int] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    edges: list[tuple[str, Point, str, Point, int, EdgeKind]] = field(default_factory=list)

    def host(
        self, name: str, start: int, end: int, thread: int = 0, kind: str = "op", **more: object
    ) -> None:
        """What a thread does; `waits=True`: it only waits, for what edges to its end say."""
        if more.pop("waits", False):
            self.waiting.add(name)
        self._add(name, kind, start, end, lane=thread, **more)

    def work(
        self, name: str, start: int, end: int, stream: int = 7, kind: str = "kernel", **more: object
    ) -> None:
        """What a device does."""
        self._add(name, kind, start, end, lane=100 + stream, stream=stream, **more)
        own_ns = int(more.get("own_ns", end - start))  # type: ignore[call-overload]
        self.edges.append((name, START, name, END, own_ns, EdgeKind.DEVICE))

    def edge(
        self,
        kind: EdgeKind,
        before: str,
        after: str,
        work_ns: int = 0,
        points: tuple[Point, Point] | None = None,
    ) -> None:
        """An edge; without points those that its kind has; the activity of a thread is named `thread 0`."""
        first, second = points or _POINTS[kind]
        self.edges.append((before, first, after, second, work_ns, kind))

    def graph(self) -> RankGraph:
        """The graph."""
        rows, number = [*self.rows], {**self.number}
        edges = []
        for lane in sorted({row["lane"] for row in rows if row.get("stream") is None}):  # type: ignore[type-var]
            number[f"thread {lane}"] = len(rows)
            edges += self._thread(rows, lane)
        for before, first, after, second, work_ns, kind in self.edges:
            edges.append(
                (2 * number[before] + first, 2 * number[after] + second, work_ns, kind, number[after])
            )
        frame = pl.DataFrame([{"rank": 0, "event_id": None, **row} for row in rows], infer_schema_length=None)
        frame = frame.with_columns(op_event=pl.when(pl.col("kind") == "op").then("event_id"))
        frame = frame.with_columns(op=pl.when(pl.col("kind") == "op").then("name"))
        activities = ACTIVITIES.conform(frame, fill_missing=True)
        times = activities.select("start_ns", "end_ns").to_numpy().reshape(-1).astype(np.int64)
        parts = [np.array(part, dtype=np.int64) for part in zip(*edges, strict=True)]
        return RankGraph(0, activities, times, _edges(*parts))

    def _add(self, name: str, kind: str, start: int, end: int, **more: object) -> None:
        more.pop("own_ns", None)
        self.number[name] = len(self.rows)
        self.rows.append(
            {"name": name, "kind": kind, "event_id": len(self.rows), "start_ns": start, "end_ns": end, **more}
        )

    def _thread(self, rows: list[dict[str, object]], lane: object) -> list[tuple[int, int, int, int, int]]:
        own = [
            (number, row)
            for number, row in enumerate(rows)
            if row["lane"] == lane and row["kind"] in _HOST_KINDS
        ]
        own = [(number, row) for number, row in own if row.get("stream") is None]
        thread = len(rows)
        begin, end = min(row["start_ns"] for _, row in own), max(row["end_ns"] for _, row in own)  # type: ignore[type-var]
        rows.append(
            {"name": f"thread {lane}", "kind": "thread", "lane": lane, "start_ns": begin, "end_ns": end}
        )
        found, last, last_ns = [], 2 * thread, begin
        for number, row in own:
            start_ns, end_ns = row["start_ns"], row["end_ns"]
            found.append((last, 2 * number, start_ns - last_ns, EdgeKind.HOST, thread))  # type: ignore[operator]
            lasts = 0 if row["name"] in self.waiting else end_ns - start_ns  # type: ignore[operator]
            found.append((2 * number, 2 * number + 1, lasts, EdgeKind.HOST, number))
            last, last_ns = 2 * number + 1, end_ns
        found.append((last, 2 * thread + 1, 0, EdgeKind.HOST, thread))
        return found  # type: ignore[return-value]


def _edges(before: _Ints, after: _Ints, work_ns: _Ints, kind: _Ints, activity: _Ints) -> EdgeList:
    return EdgeList(before, after, work_ns, kind.astype(np.uint8), activity)


_POINTS = {
    EdgeKind.LAUNCH: (START, START),
    EdgeKind.STREAM_ORDER: (END, START),
    EdgeKind.STREAM_OVERLAP: (START, START),
    EdgeKind.STREAM_END: (END, END),
    EdgeKind.EVENT_WAIT: (END, START),
    EdgeKind.SYNC: (END, END),
    EdgeKind.THREAD: (END, START),
    EdgeKind.FORWARD_BACKWARD: (END, START),
    EdgeKind.COMMUNICATION_WAIT: (END, END),
    EdgeKind.QUEUE: (START, END),
}
