"""Networks and collective algorithms that Chakra's traces are run on, in the words of ASTRA-sim's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tracebraid.model.chakra.codes import CollectiveCommType

__all__ = ["Algorithm", "CollectiveSettings", "Dimension", "Lanes", "Network", "Topology"]


class Topology(Enum):
    """How ranks are linked: what a message from one to another goes over."""

    RING = "ring"
    """Each rank to its two neighbours: as many links as it is away, the shorter way round."""
    SWITCH = "switch"
    """All ranks to a switch: two links."""
    FULLY_CONNECTED = "fully-connected"
    """Each rank to each other: one link."""


class Algorithm(Enum):
    """How a collective is done, by the names of ASTRA-sim's system files."""

    RING = "ring"
    DIRECT = "direct"
    HALVING_DOUBLING = "halvingDoubling"


class Lanes(Enum):
    """What of a rank can run at once."""

    ASTRA_SIM = "astra-sim"
    """One lane of the host, one of compute, one of communication, as ASTRA-sim has them; receives take none."""
    STREAMS = "streams"
    """One lane for each stream and for each thread that the nodes name."""
    UNLIMITED = "unlimited"
    """Nodes wait for their dependencies alone."""


@dataclass(frozen=True)
class Dimension:
    """One dimension of a network.

    Args:
        topology: how its ranks are linked.
        bandwidth_bytes_per_ns: of a link, in one direction.
        latency_ns: of a link.
        ranks: how many ranks it has; None: all of the job.
    """

    topology: Topology
    bandwidth_bytes_per_ns: float
    latency_ns: float
    ranks: int | None = None


@dataclass(frozen=True)
class Network:
    """What messages go over.

    Args:
        name: what the user calls it.
        dimensions: the innermost first; none: communication takes the time that the files say.
    """

    name: str
    dimensions: tuple[Dimension, ...]

    @property
    def is_measured(self) -> bool:
        """Whether communication takes the time that the files say."""
        return not self.dimensions


@dataclass(frozen=True)
class CollectiveSettings:
    """How collectives are done: what ASTRA-sim reads from its system file, with the values of its ring example.

    Args:
        chunks: parts that a collective is cut into (`preferred-dataset-splits`).
        active_chunks: of these, how many are under way at once in a dimension (`active-chunks-per-dimension`).
        endpoint_delay_ns: before each message (`endpoint-delay`).
        memory_bytes_per_ns: what reductions read and write with (`local-mem-bw`, GB/s).
        algorithms: for each dimension, of each kind of collective (`all-reduce-implementation`, ...); a kind that is
            missing uses the ring.
    """

    chunks: int = 4
    active_chunks: int = 1
    endpoint_delay_ns: int = 10
    memory_bytes_per_ns: float = 1600.0
    algorithms: Mapping[CollectiveCommType, tuple[Algorithm, ...]] = field(default_factory=dict)

    def algorithm(self, kind: CollectiveCommType, dimension: int) -> Algorithm:
        """The algorithm of a kind of collective in a dimension."""
        named = self.algorithms.get(kind, ())
        return named[min(dimension, len(named) - 1)] if named else Algorithm.RING
