"""The codes of Chakra's protobuf schema, with its own names and numbers, and those of our export."""

from __future__ import annotations

from enum import Enum, IntEnum


class NodeType(IntEnum):
    """Chakra's `NodeType`."""

    INVALID_NODE = 0
    METADATA_NODE = 1
    MEM_LOAD_NODE = 2
    MEM_STORE_NODE = 3
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7


class CollectiveCommType(IntEnum):
    """Chakra's `CollectiveCommType`."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


class Detail(Enum):
    """How much of a rank becomes nodes."""

    FULL = "full"
    """Work of the host by op, Python's gaps, and all work of devices."""
    DEVICE = "device"
    """Work of devices; host time between two launches is a delay."""
    MERGED = "merged"
    """One compute lane for each rank, in scheduled order, so that concurrent work is not counted twice."""


class MissingRanks(Enum):
    """Handling of ranks of the world that have no trace."""

    REFUSE = "refuse"
    """Nothing is written."""
    SHRINK = "shrink"
    """The world shrinks to the ranks with traces; groups lose the missing ones."""
    REPLICATE = "replicate"
    """Each missing rank replicates one with a trace, in groups of its own."""


class Dialect(Enum):
    """Types of communication that nodes may have."""

    CHAKRA = "chakra"
    """All that Chakra's schema has."""
    ASTRA_SIM = "astra-sim"
    """Types that ASTRA-sim supports; others are replaced by ones that move the same bytes."""
