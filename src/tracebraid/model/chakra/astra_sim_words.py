"""The words and the unit of ASTRA-sim's network and system files."""

from __future__ import annotations

from tracebraid.model.chakra.codes import CollectiveCommType
from tracebraid.model.chakra.network import Topology

__all__ = ["GIB_S", "IMPLEMENTATIONS", "LEAST_RANKS", "TOPOLOGIES"]

GIB_S = 2**30 / 10**9
"""Bytes in a ns of a bandwidth of 1 in its network files, whose unit is GiB/s although they call it GB/s."""
LEAST_RANKS = 2
"""It refuses a network dimension of a single rank."""
TOPOLOGIES = {
    "Ring": Topology.RING,
    "Switch": Topology.SWITCH,
    "FullyConnected": Topology.FULLY_CONNECTED,
}
IMPLEMENTATIONS = {
    "all-reduce-implementation": CollectiveCommType.ALL_REDUCE,
    "all-gather-implementation": CollectiveCommType.ALL_GATHER,
    "reduce-scatter-implementation": CollectiveCommType.REDUCE_SCATTER,
    "all-to-all-implementation": CollectiveCommType.ALL_TO_ALL,
}
"""Members of its system file: the algorithm of each collective."""
