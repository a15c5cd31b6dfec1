"""Nodes as ASTRA-sim runs them: no division of 0 by 0 in its roofline."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tests.unit.exporters.chakra.node_lists import Listed, rank_of
from tracebraid.exporters.chakra.astra_sim_nodes import for_astra_sim


def test_what_moves_bytes_alone_has_a_flop() -> None:
    rank = rank_of([Listed(name) for name in "abcd"])
    costs = [pl.Series("num_ops", [None, 0, 7, None]), pl.Series("tensor_size", [64, 64, 64, None])]
    found = for_astra_sim(replace(rank, nodes=rank.nodes.with_columns(costs)))
    assert found.nodes.get_column("num_ops").to_list() == [1, 1, 7, None]
    assert found.nodes.schema == rank.nodes.schema
