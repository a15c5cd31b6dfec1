"""Links real traces for tests, and says what was linked."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path

import polars as pl

from tests.builders import Json
from tracebraid import link
from tracebraid.model.linked_trace import LinkedTrace

ADDED = ("ts", "inclusive_dur", "exclusive_dur", "inter_thread_dep", "sync_dep")


def load(path: Path) -> Json:
    return json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)


@cache
def pair(folder: Path, rank: int = 0, match: str = "auto") -> LinkedTrace:
    et, kineto = folder / f"torch_et_{rank}.json.gz", folder / f"kineto_trace_{rank}.json.gz"
    return link(et, kineto, matching=match)


def names_of(linked: LinkedTrace) -> dict[int, str]:
    return dict(linked.timeline.events.select("event_id", pl.col("name").cast(pl.String)).iter_rows())


def node_names_of(linked: LinkedTrace) -> dict[int, str]:
    assert linked.et is not None
    return dict(linked.et.nodes.select("node_id", pl.col("name").cast(pl.String)).iter_rows())


def reasons(linked: LinkedTrace, kind: str) -> Counter[str]:
    return Counter({one.reason: one.count for one in linked.coverage.orphans if one.kind == kind})


def intervals(linked: LinkedTrace) -> pl.DataFrame:
    """Each attributed device event with its call's start and its op's interval, from the events alone."""
    events = linked.timeline.events
    call = events.select(
        pl.col("event_id").alias("call_event"),
        pl.col("ts_ns").alias("call_ts"),
        pl.col("lane").alias("call_lane"),
    )
    op = events.select(
        pl.col("event_id").alias("op_event"),
        pl.col("ts_ns").alias("op_ts"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("op_end"),
        pl.col("lane").alias("op_lane"),
    )
    return (
        linked.device_links.filter(pl.col("call_event").is_not_null() & pl.col("op_event").is_not_null())
        .join(call, on="call_event")
        .join(op, on="op_event")
        .join(events.select("event_id", "ts_ns"), on="event_id")
    )
