"""The codes of Chakra's protobuf schema, with its own names and numbers, and those of our export."""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = ["AloneReason", "CollectiveCommType", "Detail", "Dialect", "MissingRanks", "NodeType"]


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
    """Work of devices; what the host does between two launches is a delay."""
    MERGED = "merged"
    """One compute lane for each rank, in the order of our own schedule: what ran at once is not counted twice."""


class MissingRanks(Enum):
    """What becomes of ranks of the world that have no trace."""

    REFUSE = "refuse"
    """Nothing is written."""
    SHRINK = "shrink"
    """The world is that of the ranks that are there; groups lose those that are missing."""
    REPLICATE = "replicate"
    """Each missing rank does what a rank that is there does, in the groups of its own."""


class Dialect(Enum):
    """Which types of communication the nodes may have."""

    CHAKRA = "chakra"
    """All that Chakra's schema has."""
    ASTRA_SIM = "astra-sim"
    """Those that ASTRA-sim runs; the others become such as move the same bytes."""


class AloneReason(str, Enum):
    """Why communication is simulated on its rank alone, where it lasts as long as it was measured."""

    ONE_RANK = "one rank"
    """Its group has a single rank, or only one of its ranks is simulated."""
    PEER_MISSING = "peer missing"
    """The other end of a send or a receive is not simulated, or did not record it."""
    MEMBERS_MISSING = "members missing"
    """Not all simulated ranks of its group recorded it: windows differ, or members could not be matched."""
    DOUBTFUL = "doubtful"
    """Its members were matched, and another match is as likely."""
    TYPES_DIFFER = "types differ"
    """Ranks disagree on what it is."""
    UNKNOWN_TYPE = "unknown type"
    """The traces do not say what it is."""
    ORDER = "order"
    """It contradicts the order of other communication: ranks that wait for each other would wait for ever."""
