"""Moments of a table as they are shown; blocks of equal data are equal whenever they are made."""

from __future__ import annotations

import base64

import polars as pl

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.report.parts import DataTable
from tracebraid.reports.page.data_block import data_block
from tracebraid.reports.relative_moments import relative_moments

SCHEMA = Table("made", "Made.", (Column("rank", Kind.INT, "rank"), Column("ts_ns", Kind.INT, "at")))


def test_moments_count_from_their_rank_others_from_the_first() -> None:
    frame = pl.DataFrame({"rank": [0, 1, 2], "ts_ns": [105, 1007, 12], "dur_ns": [5, 6, 7]})
    table = DataTable("t", "T", frame, SCHEMA, start_ns=10, starts={0: 100, 1: 1000})
    found = relative_moments(table)
    assert found.get_column("ts_ns").to_list() == [5, 7, 2]
    assert found.get_column("dur_ns").to_list() == [5, 6, 7]


def test_a_block_holds_no_time_of_its_making() -> None:
    block = base64.b64decode(data_block(pl.DataFrame({"a": [1, 2]})))
    assert block[4:8] == bytes(4)
