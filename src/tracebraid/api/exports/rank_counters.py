"""The counters of a rank's timeline: what analyses answer over time, as series."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from tracebraid.analysis.device.stream_names import stream_names
from tracebraid.analysis.launches.copies.copy_bandwidth_series import copy_bandwidth_series
from tracebraid.analysis.launches.queues.queue_series import queue_series
from tracebraid.analysis.memory.memory_timeline import memory_timeline
from tracebraid.exporters.perfetto.content import Counter, Unit
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["Align", "rank_counters"]

Align: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]
"""Moves `ts_ns` from a rank's own clock to the clock of the reference."""


@dataclass(frozen=True)
class _Series:
    """Counters in a table: one for each value of some columns.

    Args:
        name: the name, with a field for each of these columns.
        by: these columns.
        value: the column of values.
        unit: what it counts.
    """

    name: str
    by: Sequence[str]
    value: str
    unit: Unit


_QUEUE = _Series("queue, device {} stream {}", ("device", "stream"), "length", Unit.COUNT)
_ALLOCATED = _Series("memory allocated, device {}", ("device",), "allocated_bytes", Unit.BYTES)
_RESERVED = _Series("memory reserved, device {}", ("device",), "reserved_bytes", Unit.BYTES)
_COPIES = _Series("{1}, device {0}", ("device", "name"), "bytes_per_s", Unit.BYTES_PER_S)
_OCCUPANCY = _Series(
    "occupancy, device {} stream {}", ("device", "stream"), "occupancy_percent", Unit.PERCENT
)
_COLLECTIVES = _Series("bus bandwidth of collectives", (), "bytes_per_s", Unit.BYTES_PER_S)


def rank_counters(linked: LinkedTrace, annotation: str, align: Align, rates: pl.DataFrame) -> list[Counter]:
    """Queues by stream, memory by device, bandwidth of copies and collectives, and occupancy by stream.

    Args:
        linked: one rank.
        annotation: what marks a step.
        align: moves times to aligned clocks.
        rates: the rank's rows of `collective_rates`, which are on aligned clocks.
    """
    memory = align(memory_timeline(linked, annotation))
    tables = (
        (_QUEUE, align(queue_series(linked, annotation))),
        (_ALLOCATED, memory),
        (_RESERVED, memory),
        (_COPIES, align(copy_bandwidth_series(linked, annotation))),
        (_COLLECTIVES, rates),
        (_OCCUPANCY, align(_occupancy(linked))),
    )
    return [counter for series, table in tables for counter in _counters(series, table)]


def _counters(series: _Series, table: pl.DataFrame) -> Iterator[Counter]:
    rows = table.filter(pl.col(series.value).is_not_null())
    parts = rows.partition_by(series.by, maintain_order=True) if series.by else [rows]
    for part in parts:
        if part.is_empty():
            continue
        # Of changes at one moment the last row holds; a stable sort keeps it the last.
        part = part.sort("ts_ns", maintain_order=True)
        name = series.name.format(*(part.item(0, column) for column in series.by))
        values = part.get_column(series.value).to_numpy()
        yield Counter(name, series.unit, part.get_column("ts_ns").to_numpy(), values)


def _occupancy(linked: LinkedTrace) -> pl.DataFrame:
    """What Kineto estimates of each kernel, from its start to its end: `device`, `stream`, `ts_ns`, the value."""
    timeline = linked.timeline
    work = timeline.device_work.select("event_id", "device", "occupancy_percent").drop_nulls(
        "occupancy_percent"
    )
    of_event = timeline.events[work.get_column("event_id")].select("lane", "ts_ns", "dur_ns")
    stream = stream_names(linked).gather(of_event.get_column("lane")).alias("stream")
    known = work.hstack([*of_event.get_columns(), stream]).with_columns(pl.col("device").fill_null(-1))
    end = pl.col("ts_ns") + pl.col("dur_ns")
    zero = pl.lit(0.0).alias("occupancy_percent")
    # At the moment at which a kernel ends and the next starts, the start stands behind.
    ends = known.select("device", "stream", end.alias("ts_ns"), zero)
    starts = known.select("device", "stream", "ts_ns", "occupancy_percent")
    return pl.concat([ends, starts]).sort("device", "stream", "ts_ns", maintain_order=True)
