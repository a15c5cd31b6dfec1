"""A rank's nodes several times: each lane goes on behind itself, nothing else is held up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.unit.exporters.chakra.node_lists import Listed, names_of_pairs, rank_of
from tracebraid.errors import ArgumentError
from tracebraid.exporters.chakra.repeating import repeated
from tracebraid.model.chakra.chakra_rank import ChakraRank

NODES = [
    Listed("host", step="S#1"),
    Listed("first", "host", stream=7, step="S#1"),
    Listed("second", "first", stream=7, step="S#1"),
    Listed("other", "host", stream=8, step="S#1"),
    Listed("send", "second", kind="COMM_SEND_NODE", tag=3),
    Listed("receive", "second", kind="COMM_RECV_NODE", tag=4),
]


def with_times(rank: ChakraRank, count: int) -> ChakraRank:
    """Names that say the time: `host 0`, `host 1`, ..."""
    names = [f"{name} {row // count}" for row, name in enumerate(rank.nodes.get_column("name").to_list())]
    return replace(rank, nodes=rank.nodes.with_columns(pl.Series("name", names)))


def test_each_lane_begins_again_behind_what_it_did_before() -> None:
    rank = repeated(rank_of(NODES), 3)
    pairs = names_of_pairs(with_times(rank, len(NODES)))
    own = {
        ("host", "first"),
        ("first", "second"),
        ("host", "other"),
        ("second", "send"),
        ("second", "receive"),
    }
    again = {
        ("host", "host"),
        ("second", "first"),
        ("other", "other"),
        *((before, after) for before in ("send", "receive") for after in ("send", "receive")),
    }
    expected = {(f"{before} {time}", f"{after} {time}") for before, after in own for time in range(3)}
    expected |= {(f"{before} {time}", f"{after} {time + 1}") for before, after in again for time in range(2)}
    assert pairs == expected


def test_steps_tags_and_starts_are_told_apart() -> None:
    rank = repeated(rank_of(NODES), 2)
    nodes = rank.nodes
    assert nodes.get_column("node_id").to_list() == list(range(12))
    assert nodes.get_column("step").drop_nulls().unique(maintain_order=True).to_list() == ["S#1", "S#1 (2)"]
    assert nodes.get_column("comm_tag").drop_nulls().to_list() == [6, 8, 7, 9]
    assert nodes.get_column("start_time_micros").to_list() == [10 * row for row in range(12)]
    assert dict(rank.attributes) == {"repeat": 2}
    assert nodes.schema == rank_of(NODES).nodes.schema


def test_it_is_the_same_however_often() -> None:
    long, short = repeated(rank_of(NODES), 5), repeated(rank_of(NODES), 4)
    assert long.nodes.height == 5 * len(NODES)
    end = int(short.data_deps.first[-1])
    assert np.array_equal(long.data_deps.node_id[:end], short.data_deps.node_id)


def test_once_is_what_was_given() -> None:
    rank = rank_of(NODES)
    assert repeated(rank, 1) is rank


def test_no_time_and_too_many_tags_are_refused() -> None:
    with pytest.raises(ArgumentError, match="give 1 or more"):
        repeated(rank_of(NODES), 0)
    with pytest.raises(ArgumentError, match="repeat it less often"):
        repeated(rank_of([Listed("send", kind="COMM_SEND_NODE", tag=2**30)]), 2)
