"""What a message takes from one rank to another: latency of the links on its way, and its size over the bandwidth.

The model is ASTRA-sim's analytical one that knows no congestion (its `congestion_unaware` backend): the size is
serialised once, however many links the message goes over, and no message slows another down.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.chakra.network import Dimension, Network, Topology

__all__ = ["hops", "link_ns", "message_ns"]

_Ints = NDArray[np.int64]

_SWITCH_HOPS = 2
"""To the switch and from it."""


def hops(dimension: Dimension, src: _Ints, dst: _Ints, ranks: int) -> _Ints:
    """The links between positions of a dimension.

    Args:
        dimension: the dimension.
        src: positions that send.
        dst: positions that receive.
        ranks: of the dimension.
    """
    if dimension.topology is Topology.SWITCH:
        return np.full(len(src), _SWITCH_HOPS, dtype=np.int64)
    if dimension.topology is Topology.FULLY_CONNECTED:
        return np.ones(len(src), dtype=np.int64)
    clockwise = (dst - src) % ranks
    shorter: _Ints = np.minimum(clockwise, ranks - clockwise)
    return shorter


def link_ns(dimension: Dimension, links: _Ints | int, size_bytes: _Ints | int) -> _Ints:
    """What messages take in a dimension: links x latency + size / bandwidth, in whole ns as ASTRA-sim cuts it.

    Args:
        dimension: the dimension.
        links: that each goes over.
        size_bytes: of each.
    """
    taken = np.asarray(links) * dimension.latency_ns
    taken = taken + np.asarray(size_bytes) / dimension.bandwidth_bytes_per_ns
    return np.atleast_1d(taken).astype(np.int64)


def message_ns(network: Network, src: _Ints, dst: _Ints, size_bytes: _Ints, world: int) -> _Ints:
    """What single messages between ranks take: over the first dimension in which the two differ, as in ASTRA-sim.

    Args:
        network: with dimensions.
        src: the ranks that send.
        dst: the ranks that receive.
        size_bytes: of each message.
        world: ranks of the job.
    """
    taken = np.zeros(len(src), dtype=np.int64)
    is_open = np.ones(len(src), dtype=np.bool_)
    stride = 1
    for dimension in network.dimensions:
        ranks = dimension.ranks or world
        start, end = src // stride % ranks, dst // stride % ranks
        here = is_open & (start != end)
        links = hops(dimension, start[here], end[here], ranks)
        taken[here] = link_ns(dimension, links, size_bytes[here])
        is_open &= ~here
        stride *= ranks
    return taken
