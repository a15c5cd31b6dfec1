"""Tables as Parquet: the same bytes in any process, and the same rows back, in their order."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tracebraid.model.schema import EVENTS, LANES
from tracebraid.store.parquet import decoded, encoded

HASHES = """
import hashlib, sys, polars as pl, tracebraid
from tracebraid.store.parquet import encoded
others = pl.Series(["zz", "cpu_op", "aten::mul", "aten::add", "unheard of"], dtype=pl.Categorical)
tables = tracebraid.open(sys.argv[1])[0].timeline.tables
for name, frame in tables.items():
    print(name, hashlib.sha256(encoded(name, frame)).hexdigest())
"""


@pytest.mark.full
def test_bytes_do_not_depend_on_what_else_a_process_has_read(demo: Path) -> None:
    tables = tracebraid.open(demo)[0].timeline.tables
    ours = {name: hashlib.sha256(encoded(name, frame)).hexdigest() for name, frame in tables.items()}
    done = subprocess.run([sys.executable, "-c", HASHES, demo], capture_output=True, text=True, check=True)
    assert dict(line.split() for line in done.stdout.splitlines()) == ours


def test_bytes_do_not_depend_on_how_a_table_lies_in_memory(demo: Path) -> None:
    events = tracebraid.open(demo)[0].timeline.events
    pieces = pl.concat([events.slice(start, 1000) for start in range(0, events.height, 1000)], rechunk=False)
    assert encoded("events", pieces) == encoded("events", events)


def test_events_lie_sorted_by_their_start_and_come_back_as_they_were(demo: Path) -> None:
    events = tracebraid.open(demo)[0].timeline.events
    content = encoded("events", events)
    assert pl.read_parquet(content).get_column("ts_ns").is_sorted()
    assert not events.get_column("ts_ns").is_sorted()
    assert decoded("events", EVENTS, content).equals(events)


@pytest.mark.parametrize("ids", [[5, 3, 9], [-1, 0, 1], [0, 0, 1]])
def test_events_with_other_ids_than_their_rows_come_back_too(demo: Path, ids: list[int]) -> None:
    events = tracebraid.open(demo)[0].timeline.events.head(3).with_columns(pl.Series("event_id", ids))
    found = decoded("events", EVENTS, encoded("events", events))
    assert found.equals(events.sort("event_id"))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1", b"{}" * 100])
def test_what_is_no_parquet_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decoded("events", EVENTS, content)


def test_another_table_is_an_error(demo: Path) -> None:
    content = encoded("events", tracebraid.open(demo)[0].timeline.events)
    with pytest.raises(ValueError, match="columns"):
        decoded("lanes", LANES, content)
