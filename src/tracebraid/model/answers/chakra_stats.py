"""What `.et` files hold, in numbers."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = ["CHAKRA_COMMUNICATION_STATS", "CHAKRA_NODE_STATS", "CHAKRA_RANK_STATS"]

_INT, _NAME, _TEXT = Kind.INT, Kind.NAME, Kind.TEXT
_RANK = Column("rank", _INT, "the rank, by the number of its file; null: all ranks together")

CHAKRA_RANK_STATS = Table(
    "chakra_rank_stats",
    "One row per rank, and one for all: sums, and of depth, chain and width the largest.",
    (
        _RANK,
        Column("nodes", _INT, "nodes"),
        Column("data_deps", _INT, "data dependencies"),
        Column("ctrl_deps", _INT, "control dependencies"),
        Column("never_run", _INT, "nodes of circles, and those that wait for them"),
        Column("host_us", _INT, "durations of nodes of the host, summed"),
        Column("compute_us", _INT, "durations of nodes that compute on a device, summed"),
        Column("communication_us", _INT, "durations that communication has in the file, summed"),
        Column("communication_bytes", _INT, "`comm_size` of collectives, sends and receives, summed"),
        Column("depth", _INT, "nodes of the longest chain of nodes that wait for each other"),
        Column(
            "chain_us",
            _INT,
            "the longest such chain by durations: what the rank takes at least, however many lanes there are",
        ),
        Column("widest", _INT, "most nodes at the same depth: about as many can be ready at once"),
    ),
)

CHAKRA_NODE_STATS = Table(
    "chakra_node_stats",
    "One row per rank, type and kind of nodes, and likewise of all ranks together.",
    (
        _RANK,
        Column("type", _NAME, "Chakra's `NodeType`"),
        Column("kind", _NAME, "what they stand for, as the file says; null: it does not"),
        Column("nodes", _INT, "nodes"),
        Column("duration_us", _INT, "their `duration_micros`, summed"),
        Column("duration_ns", _INT, "their exact durations, summed; null: the file does not say"),
    ),
)

CHAKRA_COMMUNICATION_STATS = Table(
    "chakra_communication_stats",
    "One row per rank, kind of communication and process group, and likewise of all ranks together.",
    (
        _RANK,
        Column("type", _NAME, "Chakra's `CollectiveCommType`, or `COMM_SEND_NODE` or `COMM_RECV_NODE`"),
        Column("collective", _NAME, "what the trace calls it; null: the file does not say"),
        Column("pg_name", _TEXT, "the process group; null: all ranks, or a send or receive"),
        Column("nodes", _INT, "nodes"),
        Column("size_bytes", _INT, "their `comm_size`, summed"),
    ),
)
