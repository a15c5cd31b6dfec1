"""What an answer rests on, beside nodes and networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracebraid.model.chakra.chakra_run import ChakraRunNote
from tracebraid.model.chakra.codes import CollectiveCommType, NodeType
from tracebraid.model.chakra.network import Lanes, Network
from tracebraid.simulation.chakra.meetings import ALL_RANKS
from tracebraid.simulation.chakra.ranks_nodes import RankNodes

__all__ = ["notes_of"]

_IN_ASTRA_SIM = (
    *(CollectiveCommType.ALL_REDUCE, CollectiveCommType.ALL_GATHER, CollectiveCommType.REDUCE_SCATTER),
    *(CollectiveCommType.ALL_TO_ALL, CollectiveCommType.BROADCAST),
)


def notes_of(nodes: RankNodes, networks: Sequence[Network], lanes: Lanes) -> tuple[ChakraRunNote, ...]:
    """What an answer rests on.

    Args:
        nodes: of all ranks.
        networks: that they ran on.
        lanes: what of a rank can run at once.
    """
    kind, collective = nodes.ints("type"), nodes.ints("comm_type")
    is_collective = kind == NodeType.COMM_COLL_NODE
    communicates = kind >= NodeType.COMM_SEND_NODE
    is_modelled = any(not network.is_measured for network in networks)
    is_astra = lanes is Lanes.ASTRA_SIM
    measured = np.maximum(nodes.ints("duration_ns", 0), nodes.ints("duration_micros", 0))
    is_work = (kind == NodeType.COMP_NODE) & (nodes.ints("duration_ns") >= 0)
    broadcasts = is_collective & (collective == CollectiveCommType.BROADCAST)
    others = is_collective & ~np.isin(collective, _IN_ASTRA_SIM)
    holds = {
        ChakraRunNote.MICROSECONDS: is_astra and bool(is_work.any()),
        ChakraRunNote.SHARED_LANE: is_astra and _has_streams(nodes),
        ChakraRunNote.BROADCAST_REPLAYED: is_astra and is_modelled and bool(broadcasts.any()),
        ChakraRunNote.LIKE_OTHERS: is_modelled and bool((others | (broadcasts & (not is_astra))).any()),
        ChakraRunNote.NO_TIME: any(network.is_measured for network in networks)
        and bool((measured[communicates] <= 0).any()),
        ChakraRunNote.SINGLE_RANK: len(nodes.paths) == 1,
        ChakraRunNote.NO_COLLECTIVES: not communicates.any(),
        ChakraRunNote.UNNUMBERED_GROUP: is_astra and is_modelled and _mixes_groups(nodes),
        ChakraRunNote.MEMORY: bool(np.isin(kind, (NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)).any()),
    }
    return tuple(note for note, is_so in holds.items() if is_so)


def _mixes_groups(nodes: RankNodes) -> bool:
    """Whether some collectives name a group and others do not."""
    collectives = nodes.table.filter(pl.col("type") == int(NodeType.COMM_COLL_NODE))
    is_unnamed = collectives.get_column("pg_name").cast(pl.String).fill_null("").is_in(ALL_RANKS)
    return bool(is_unnamed.any()) and not is_unnamed.all()


def _has_streams(nodes: RankNodes) -> bool:
    """Whether work of a rank is on several streams."""
    work = nodes.table.filter(pl.col("type") == int(NodeType.COMP_NODE))
    return bool((work.group_by("rank").agg(pl.col("stream").drop_nulls().n_unique())["stream"] > 1).any())
