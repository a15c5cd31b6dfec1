"""What a run of Chakra's traces gives: times of ranks, steps, collectives, what the end waited for, who never met."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "CHAKRA_RUNS",
    "CHAKRA_RUN_CHAIN",
    "CHAKRA_RUN_COLLECTIVES",
    "CHAKRA_RUN_RANKS",
    "CHAKRA_RUN_STEPS",
    "CHAKRA_RUN_WAITS",
    "ChainPart",
    "Waiting",
]

_INT, _FLOAT, _BOOL, _NAME, _TEXT = Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.NAME, Kind.TEXT

_NETWORK = Column("network", _TEXT, "the network, as it was asked for")


class ChainPart(Enum):
    """What the end of a run waited for."""

    COMPUTE = "compute"
    HOST = "host"
    COLLECTIVE = "collective"
    """From the arrival of its last member to its end."""
    MESSAGE = "message"
    """From the start of a send to the end of the send or of its receive."""
    OTHER = "other"
    """Loads, stores, and nodes that take no time."""


class Waiting(Enum):
    """Why a node never ended."""

    MEMBER_MISSING = "member_missing"
    """A collective to which another rank did not come."""
    MEMBERS_DISAGREE = "members_disagree"
    """Members that met have collectives of other kinds or sizes."""
    SEND_MISSING = "send_missing"
    """A receive whose send was not issued."""


CHAKRA_RUNS = Table(
    "chakra_runs",
    "One row per network, in the order in which they were asked for.",
    (
        _NETWORK,
        Column(
            "is_finished", _BOOL, "whether all nodes ran; else ranks wait for each other: `chakra_run_waits`"
        ),
        Column("end_ns", _INT, "when the last rank ended, or came to a halt"),
        Column("compute_ns", _INT, "time in which a node of compute runs, mean of ranks"),
        Column(
            "exposed_communication_ns",
            _INT,
            "time of communication beside which none computes, mean of ranks",
        ),
        Column("speedup", _FLOAT, "end_ns of the first network / end_ns; null: one of them did not finish"),
        Column("nodes", _INT, "nodes that ran"),
    ),
)

CHAKRA_RUN_RANKS = Table(
    "chakra_run_ranks",
    "One row per network and rank: what it did with its time.",
    (
        _NETWORK,
        Column("rank", _INT, "the rank"),
        Column("end_ns", _INT, "when its last node ended"),
        Column("nodes", _INT, "nodes that ran"),
        Column("compute_ns", _INT, "time in which a node of compute runs on the device"),
        Column("host_ns", _INT, "time in which a node of the host runs"),
        Column("communication_ns", _INT, "time in which it is in communication, with waiting"),
        Column("exposed_communication_ns", _INT, "of that, time in which no node of compute runs"),
        Column("waiting_ns", _INT, "of communication, time until the last member or the message came"),
        Column("idle_ns", _INT, "time until end_ns in which no node runs"),
        Column(
            "not_computing_ns",
            _INT,
            "end_ns less the durations of compute: what ASTRA-sim calls exposed communication",
        ),
    ),
)

CHAKRA_RUN_STEPS = Table(
    "chakra_run_steps",
    "One row per network, step that nodes name, and rank; the rows of all ranks first.",
    (
        _NETWORK,
        Column("step", _TEXT, "the step"),
        Column("rank", _INT, "the rank; null: all ranks"),
        Column("start_ns", _INT, "when its first node started"),
        Column("end_ns", _INT, "when its last node ended"),
        Column(
            "duration_ns", _INT, "from the end of the step before to its own; of the first from its start"
        ),
    ),
)

CHAKRA_RUN_COLLECTIVES = Table(
    "chakra_run_collectives",
    "One row per network and kind of communication; the longest transfer first.",
    (
        _NETWORK,
        Column("kind", _NAME, "Chakra's `CollectiveCommType`, or `SEND`, or `RECEIVE`"),
        Column("count", _INT, "collectives, or messages, that took place"),
        Column("nodes", _INT, "nodes of all ranks that took part"),
        Column("size_bytes", _INT, "comm_size of these nodes together"),
        Column("waiting_ns", _INT, "time of these nodes until the last member or the message came"),
        Column("transfer_ns", _INT, "time of these nodes behind that"),
    ),
)

CHAKRA_RUN_CHAIN = Table(
    "chakra_run_chain",
    "One row per network, part and name: what the end of the run waited for, from 0 on without gaps; longest first.",
    (
        _NETWORK,
        Column("part", _NAME, "what it is (`ChainPart`)"),
        Column("name", _TEXT, "name of the nodes; of collectives their kind"),
        Column("nodes", _INT, "how many nodes"),
        Column("duration_ns", _INT, "their time in the chain; all rows of a network add up to its end_ns"),
        Column("share", _FLOAT, "duration_ns / end_ns of the network"),
        Column("ranks", Kind.INTS, "the ranks that they are on, ascending"),
    ),
)

CHAKRA_RUN_WAITS = Table(
    "chakra_run_waits",
    "One row per network and node that waits and never ended, and rank that it waits for.",
    (
        _NETWORK,
        Column("rank", _INT, "the rank that waits"),
        Column("node_id", _INT, "the node that waits"),
        Column("name", _TEXT, "its name"),
        Column("why", _NAME, "why it waits (`Waiting`)"),
        Column("what", _TEXT, "what it is: kind, size, group; or rank, tag and size"),
        Column("other_rank", _INT, "the rank that it waits for"),
        Column(
            "other_node_id", _INT, "the node which that rank waits at, or disagrees with; null: it has ended"
        ),
        Column("other_name", _TEXT, "its name; null: the rank has ended"),
        Column("other_what", _TEXT, "what it is; null: the rank has ended"),
    ),
)
