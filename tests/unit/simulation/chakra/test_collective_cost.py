"""What collectives take: the cycle counts that ASTRA-sim gave for each alone, on its analytical networks.

They were recorded with the system file of its 4-NPU ring example, other chunks and algorithms as the table says, on
AstraSim_Analytical_Congestion_Unaware; `python -m benchmarks.chakra_run` measures them anew.
"""

from __future__ import annotations

import json
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.network import Algorithm, CollectiveSettings, Dimension, Network, Topology
from tracebraid.simulation.chakra.collective_cost import Collective, cost_of

BYTES_PER_NS = 2**30 / 1e9
"""Of a bandwidth of 1 in ASTRA-sim's network files."""
TOPOLOGIES = {
    "Ring": Topology.RING,
    "Switch": Topology.SWITCH,
    "FullyConnected": Topology.FULLY_CONNECTED,
}
KINDS = ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL")
GROUP_ENDPOINT_NS = 25
"""Endpoint delay of the recorded runs with groups, which ASTRA-sim does not use there."""


def even_ns(asked: Collective, network: Network, how: CollectiveSettings) -> NDArray[np.int64]:
    """What it takes, for each member, where all come at once."""
    return cost_of(asked, network, how).even_ns


@cache
def recorded() -> dict[str, Any]:
    """The recorded cycle counts."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("astra_sim_cycles.json").read_text())
    return found


def dimension(
    topology: str, bandwidth: float = 50, latency: float = 500, ranks: int | None = None
) -> Dimension:
    return Dimension(TOPOLOGIES[topology], bandwidth * BYTES_PER_NS, latency, ranks)


def settings(algorithm: str, **others: int) -> CollectiveSettings:
    same = {CollectiveCommType[kind]: (Algorithm(algorithm),) for kind in KINDS}
    return CollectiveSettings(algorithms=same, **others)


def collective(kind: str, size_bytes: int, ranks: int) -> Collective:
    return Collective(CollectiveCommType[kind], size_bytes, tuple(range(ranks)), ranks)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("algorithm", [algorithm.value for algorithm in Algorithm])
def test_all_ranks_take_what_astra_sim_counts(topology: str, algorithm: str) -> None:
    network = Network("", (dimension(topology),))
    checked = 0
    for kind in KINDS:
        for ranks, size_bytes, cycles in recorded()["all_ranks"].get(f"{topology} {algorithm} {kind}", []):
            taken = even_ns(collective(kind, size_bytes, ranks), network, settings(algorithm))
            assert taken.tolist() == [cycles] * ranks, (kind, ranks, size_bytes)
            checked += 1
    assert checked >= 60


def test_several_dimensions_take_what_astra_sim_counts() -> None:
    for topologies, ranks, bandwidths, latencies, algorithm, chunks, active, kind, size, cycles in recorded()[
        "dimensions"
    ]:
        network = Network("", tuple(map(dimension, topologies, bandwidths, latencies, ranks)))
        asked = settings(algorithm, chunks=chunks, active_chunks=active)
        taken = even_ns(collective(kind, size, prod(ranks)), network, asked)
        assert taken.max() == cycles, (topologies, ranks, algorithm, chunks, active, kind, size)


def test_groups_take_what_astra_sim_counts_on_each_member() -> None:
    for topology, algorithm, groups, kind, size_bytes, cycles in recorded()["groups"]:
        taken = np.zeros(len(cycles), dtype=np.int64)
        asked = settings(algorithm, endpoint_delay_ns=GROUP_ENDPOINT_NS)
        for members in groups:
            one = Collective(CollectiveCommType[kind], size_bytes, tuple(members), len(cycles))
            taken[members] = even_ns(one, Network("", (dimension(topology),)), asked)
        assert taken.tolist() == cycles, (topology, algorithm, groups, kind, size_bytes)


def test_a_single_member_has_nobody_to_talk_to() -> None:
    alone = Collective(CollectiveCommType.ALL_REDUCE, 1 << 20, (3,), 8)
    assert even_ns(alone, Network("", (dimension("Ring"),)), CollectiveSettings()).tolist() == [1]


@pytest.mark.parametrize("kind", list(CollectiveCommType))
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_more_bandwidth_is_never_slower(kind: CollectiveCommType, topology: str) -> None:
    taken = [
        even_ns(
            collective(kind.name, 1 << 22, 8),
            Network("", (dimension(topology, bandwidth),)),
            CollectiveSettings(),
        ).max()
        for bandwidth in (1, 10, 100, 1000)
    ]
    assert taken == sorted(taken, reverse=True)
    assert taken[-1] < taken[0]


@pytest.mark.parametrize(("kind", "ranks"), [("ALL_TO_ALL", 4), ("ALL_REDUCE", 6)])
def test_halving_doubling_says_what_it_cannot_do(kind: str, ranks: int) -> None:
    with pytest.raises(ArgumentError, match="halvingDoubling"):
        even_ns(
            collective(kind, 4096, ranks), Network("", (dimension("Switch"),)), settings("halvingDoubling")
        )
