"""A critical path as a Chrome trace: Perfetto and chrome://tracing show its segments, and arrows between them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from tracebraid.files import write_whole
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import CriticalPath

_OF_NO_RANK = -1
"""The process of collectives of several ranks, in which no rank has a share of its own."""
_CATEGORY = "critical_path"
_ARGS = ("step", "order", "family", "op", "module", "node_id", "shapes", "residual", "on_path")
_EVENTS_PER_CHUNK = 10_000
_NS_PER_US = 1_000


def write_path_overlay(path: CriticalPath, target: str | Path) -> int:
    """Write a critical path as a Chrome trace, which Perfetto shows with its arrows.

    Args:
        path: the path.
        target: a new file; compressed if its name ends in `.gz`.

    Returns:
        Its size in bytes.

    Raises:
        OutputError: it exists, or cannot be written.
    """
    return write_whole(Path(target), overlay_chunks(path), overwrite=False)


def overlay_chunks(path: CriticalPath) -> Iterator[bytes]:
    """The overlay, in chunks of bytes: a process for each rank, in it a lane for each of its threads and streams.

    The times are those of the path, relative to `baseTimeNanoseconds` as Kineto writes them; an arrow leads from each
    segment to the next of its step. Equal paths give equal bytes.
    """
    segments = path.segments
    base_ns = int(segments.get_column("start_ns").min() or 0) if segments.height else 0  # type: ignore[arg-type]
    lanes = _lanes(segments)
    header = {"schemaVersion": 1, "displayTimeUnit": "ns", "baseTimeNanoseconds": base_ns}
    yield msgspec.json.encode(header)[:-1] + b',"traceEvents":[\n'
    buffer: list[bytes] = []
    between = b""
    for event in chain(_names(lanes), _events(segments, lanes, base_ns)):
        buffer.append(msgspec.json.encode(event))
        if len(buffer) == _EVENTS_PER_CHUNK:
            yield between + b",\n".join(buffer)
            buffer, between = [], b",\n"
    if buffer:
        yield between + b",\n".join(buffer)
    yield b"\n]}\n"


def _lanes(segments: pl.DataFrame) -> pl.DataFrame:
    """Each rank's lanes, numbered from 1: threads before streams."""
    key = pl.col("rank").fill_null(_OF_NO_RANK).alias("pid")
    lanes = segments.select(key, "lane", as_text("thread"), "stream").unique(["pid", "lane"], keep="first")
    label = pl.coalesce(
        pl.format("stream {}", "stream"),
        "thread",
        pl.when(pl.col("lane").is_null()).then(pl.lit("collectives")),
    )
    ordered = lanes.with_columns(label.fill_null("thread").alias("label")).sort(
        "pid", pl.col("stream").is_not_null(), "lane", nulls_last=True
    )
    return ordered.with_columns(tid=pl.int_range(1, pl.len() + 1).over("pid"))


def _names(lanes: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for pid in lanes.get_column("pid").unique(maintain_order=True).to_list():
        name = "collectives" if pid == _OF_NO_RANK else f"rank {pid}"
        yield _metadata("process_name", pid, 0, {"name": f"critical path, {name}"})
        yield _metadata("process_sort_index", pid, 0, {"sort_index": pid})
    for pid, tid, label in lanes.select("pid", "tid", "label").iter_rows():
        yield _metadata("thread_name", pid, tid, {"name": label})
        yield _metadata("thread_sort_index", pid, tid, {"sort_index": tid})


def _metadata(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "ts": 0, "pid": pid, "tid": tid, "args": args}


def _events(segments: pl.DataFrame, lanes: pl.DataFrame, base_ns: int) -> Iterator[dict[str, Any]]:
    """Each segment, and the arrow to the one behind it in its step."""
    placed = (
        segments.with_columns(
            pl.col("rank").fill_null(_OF_NO_RANK).alias("pid"), as_text("kind", "name", *_TEXTS)
        )
        .join(
            lanes.select("pid", "lane", "tid"),
            on=["pid", "lane"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .with_columns(pl.col("start_ns") - base_ns)
    )
    arrow = 0
    last: dict[str, Any] | None = None
    for row in placed.iter_rows(named=True):
        yield _segment(row)
        if last is not None and last["step"] == row["step"]:
            arrow += 1
            yield _arrow("s", arrow, last, last["start_ns"])
            yield _arrow("f", arrow, row, row["start_ns"])
        last = row


_TEXTS = ("step", "family", "op", "module", "shapes", "residual")


def _segment(row: dict[str, Any]) -> dict[str, Any]:
    args = {name: row[name] for name in _ARGS if row[name] is not None}
    what = row["kind"] if row["residual"] is None else f"{row['kind']}: {row['residual']}"
    return {
        "ph": "X",
        "cat": _CATEGORY,
        "name": f"{what}: {row['name'] or ''}",
        "pid": row["pid"],
        "tid": row["tid"],
        "ts": row["start_ns"] / _NS_PER_US,
        "dur": row["duration_ns"] / _NS_PER_US,
        "args": {"kind": row["kind"], **args},
    }


def _arrow(phase: str, number: int, row: dict[str, Any], start_ns: int) -> dict[str, Any]:
    """A point of an arrow; it belongs to the segment that is open at its time."""
    binding = {"bp": "e"} if phase == "f" else {}
    return {
        "ph": phase,
        "id": number,
        "cat": _CATEGORY,
        "name": "next",
        "pid": row["pid"],
        "tid": row["tid"],
        "ts": start_ns / _NS_PER_US,
        **binding,
    }
