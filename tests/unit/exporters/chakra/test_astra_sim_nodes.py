"""Nodes as ASTRA-sim runs them: collectives in the order of its lane, no division of 0 by 0 in its roofline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from tests.unit.exporters.chakra.node_lists import Listed, rank_of
from tracebraid.exporters.chakra.astra_sim_nodes import for_astra_sim
from tracebraid.model.chakra.chakra_rank import NodeDeps


def test_what_moves_bytes_alone_has_a_flop() -> None:
    rank = rank_of([Listed(name) for name in "abcd"])
    costs = [pl.Series("num_ops", [None, 0, 7, None]), pl.Series("tensor_size", [64, 64, 64, None])]
    found = for_astra_sim(replace(rank, nodes=rank.nodes.with_columns(costs)))
    assert found.nodes.get_column("num_ops").to_list() == [1, 1, 7, None]
    assert found.nodes.schema == rank.nodes.schema


def test_each_collective_waits_for_the_one_before_it() -> None:
    """Of two that are ready at once, ASTRA-sim may issue another first than on the other ranks."""
    rank = rank_of([Listed(name) for name in "abcd"])
    kinds = pl.Series("type", ["COMM_COLL_NODE", "COMP_NODE", "COMM_COLL_NODE", "COMM_COLL_NODE"])
    deps = NodeDeps.of_pairs(np.array([0, 1]), np.array([1, 2]), np.arange(4))
    found = for_astra_sim(replace(rank, nodes=rank.nodes.with_columns(kinds), data_deps=deps)).data_deps
    pairs = set(zip(found.node_id.tolist(), found.rows().tolist(), strict=True))
    assert pairs == {(0, 1), (1, 2), (0, 2), (2, 3)}
