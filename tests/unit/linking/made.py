"""Timelines and linked traces made by hand, small and in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tests.builders import Json, et_text, kineto_text, process_node, thread_node, write
from tracebraid import link
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import EVENTS
from tracebraid.model.timeline import Timeline


class Host(NamedTuple):
    """A host event in ns; its name finds it again."""

    name: str
    start: int
    end: int
    category: str = "cpu_op"
    lane: int = 0


def host_timeline(events: Sequence[Host]) -> Timeline:
    """A timeline of host events alone, in the order given."""
    rows = [(i, e.name, e.category, e.lane, e.start, e.end - e.start) for i, e in enumerate(events)]
    frame = pl.DataFrame(rows, schema=EVENTS.polars_schema(), orient="row")
    return Timeline("made", 0, None, 0, {}, {"events": frame}, pl.DataFrame())


def linked_of(
    events: Sequence[Json],
    nodes: Sequence[Json] | None = None,
    header: Json | None = None,
    schema: str = "1.1.1-chakra.0.0.4",
) -> LinkedTrace:
    """Write both traces as files, read them, and link them by ids; without `nodes` there is no Execution Trace."""
    with tempfile.TemporaryDirectory() as folder:
        kineto = write(Path(folder) / "kineto_trace_0.json", kineto_text(list(events), header))
        et = write(Path(folder) / "torch_et_0.json", et_text(list(nodes), schema)) if nodes else None
        return link(et, kineto, matching="exact")


def et_of(*nodes: Json, threads: int = 1) -> list[Json]:
    """The nodes under a process root (id 1) and the roots of threads 1, 2, ... (ids 1001, 1002, ...)."""
    roots = [thread_node(1000 + tid, tid) for tid in range(1, threads + 1)]
    return [*roots, *nodes, process_node()]


def event_ids(linked: LinkedTrace) -> dict[str, int]:
    """The event of each name; tests give each event a name of its own where they ask for it."""
    return dict(linked.timeline.events.select(pl.col("name").cast(pl.String), "event_id").iter_rows())


def row_of(frame: pl.DataFrame, **key: Any) -> dict[str, Any]:
    """The one row with these values."""
    found = frame.filter(*(pl.col(name) == value for name, value in key.items()))
    assert found.height == 1, f"{found.height} rows with {key}"
    return found.to_dicts()[0]


def launch_of(linked: LinkedTrace, kernel_name: str) -> dict[str, Any]:
    """The row of `device_links` of a kernel, with the names of its call and op instead of their ids."""
    names = {event: name for name, event in event_ids(linked).items()}
    row = row_of(linked.device_links, event_id=event_ids(linked)[kernel_name])
    return {
        "call": names.get(row["call_event"]),
        "op": names.get(row["op_event"]),
        "node": row["node_id"],
        "method": row["method"],
        "reason": row["reason"],
    }
