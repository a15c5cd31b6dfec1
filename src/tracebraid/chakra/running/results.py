"""Result of a run of `.et` files: tables of networks, ranks, steps, collectives, the last chain, and deadlocks."""

from __future__ import annotations

from enum import Enum

import polars as pl
from msgspec import Struct

from tracebraid.chakra.running.network import CollectiveSettings, Lanes, Network
from tracebraid.model import notebook
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding
from tracebraid.model.quantities import duration

_INT, _FLOAT, _BOOL, _NAME, _TEXT = Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.NAME, Kind.TEXT
_NETWORK = Column("network", _TEXT, "the network, as given")


class ChainPart(Enum):
    """Part of the chain that the end of a run waited for."""

    COMPUTE = "compute"
    HOST = "host"
    COLLECTIVE = "collective"
    """From the arrival of its last member to its end."""
    MESSAGE = "message"
    """From the start of a send to the end of the send or of its receive."""
    OTHER = "other"
    """Loads, stores, and nodes that take no time."""


class Waiting(Enum):
    """Reason why a node never ended."""

    MEMBER_MISSING = "member_missing"
    """A collective that another rank did not reach."""
    MEMBERS_DISAGREE = "members_disagree"
    """Members that met have collectives of other kinds or sizes."""
    SEND_MISSING = "send_missing"
    """A receive whose send was not issued."""
    RECEIVE_MISSING = "receive_missing"
    """A send that waits for its receive, which was not issued."""


CHAKRA_RUNS = Table(
    "chakra_runs",
    "One row per network, in the given order.",
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
    "One row per network and rank, with its time by activity.",
    (
        _NETWORK,
        Column("rank", _INT, "the rank"),
        Column("end_ns", _INT, "when its last node ended"),
        Column("nodes", _INT, "nodes that ran"),
        Column("compute_ns", _INT, "time in which a node of compute runs on the device"),
        Column("host_ns", _INT, "time in which a node of the host runs"),
        Column("communication_ns", _INT, "time in which it is in communication, with waiting"),
        Column("exposed_communication_ns", _INT, "of that, time in which no node of compute runs"),
        Column(
            "waiting_ns",
            _INT,
            "of communication, time until the last member, the message or its receive came",
        ),
        Column("idle_ns", _INT, "time until end_ns in which no node runs"),
        Column(
            "not_computing_ns",
            _INT,
            "end_ns less the durations of compute, as ASTRA-sim defines exposed communication",
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
        Column(
            "waiting_ns", _INT, "time of these nodes until the last member, the message or its receive came"
        ),
        Column("transfer_ns", _INT, "time of these nodes behind that"),
    ),
)
CHAKRA_RUN_CHAIN = Table(
    "chakra_run_chain",
    "One row per network, part and name: the chain that the end of the run waited for, from 0 without gaps; "
    "longest first.",
    (
        _NETWORK,
        Column("part", _NAME, "its kind (`ChainPart`)"),
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
        Column("what", _TEXT, "description: kind, size, group; or rank, tag and size"),
        Column("other_rank", _INT, "the rank that it waits for"),
        Column(
            "other_node_id", _INT, "the node which that rank waits at, or disagrees with; null: it has ended"
        ),
        Column("other_name", _TEXT, "its name; null: the rank has ended"),
        Column("other_what", _TEXT, "description; null: the rank has ended"),
    ),
)


class ChakraRunNote(Enum):
    """Assumption of the answer, besides nodes and networks."""

    MICROSECONDS = "microseconds"
    """Work takes whole microseconds, as simulators read them, though some nodes name nanoseconds."""
    SHARED_LANE = "shared_lane"
    """Nodes of several streams share one lane of compute: what ran at once runs one after another."""
    BROADCAST_REPLAYED = "broadcast_replayed"
    """Broadcasts take the time that the files say, and nobody waits for another, as in ASTRA-sim."""
    LIKE_OTHERS = "like_others"
    """Kinds of collectives that ASTRA-sim does not simulate take what a kind takes that moves as much or more."""
    NO_TIME = "no_time"
    """Some communication has no measured time: it takes 1 ns."""
    SINGLE_RANK = "single_rank"
    """There is one rank: its collectives meet nobody."""
    NO_COLLECTIVES = "no_collectives"
    """There is no communication: no network changes anything."""
    UNNUMBERED_GROUP = "unnumbered_group"
    """Beside process groups with a number there is that of all ranks without: ASTRA-sim waits forever where ranks have
    issued different numbers of collectives before one of it."""
    MEMORY = "memory"
    """Loads and stores take the time that the files say: there is no model of remote memory."""
    ROOFLINE = "roofline"
    """Work of devices takes what its operations and bytes need, whatever its duration."""
    NO_WORK = "no_work"
    """With a roofline, work without `num_ops` and `tensor_size` takes the time that the files say; ASTRA-sim stops."""
    NO_RENDEZVOUS = "no_rendezvous"
    """No send is so large that it waits for its receive."""


class ChakraRun(Struct, frozen=True, eq=False):
    """Simulation of Chakra traces on one or several networks.

    Args:
        runs: `CHAKRA_RUNS`.
        ranks: `CHAKRA_RUN_RANKS`.
        steps: `CHAKRA_RUN_STEPS`; empty if nodes name no step.
        collectives: `CHAKRA_RUN_COLLECTIVES`.
        chain: `CHAKRA_RUN_CHAIN`.
        waits: `CHAKRA_RUN_WAITS`; empty if all ranks ran to their end.
        networks: what was asked for.
        settings: how collectives are done.
        lanes: what of a rank can run at once.
        rendezvous_bytes: the size from which on sends wait for their receives; None: none does.
        notes: what the answer rests on.
        findings: findings in the files: of one that is damaged or cut off, the nodes did not run.
    """

    runs: pl.DataFrame
    ranks: pl.DataFrame
    steps: pl.DataFrame
    collectives: pl.DataFrame
    chain: pl.DataFrame
    waits: pl.DataFrame
    networks: tuple[Network, ...]
    settings: CollectiveSettings
    lanes: Lanes
    rendezvous_bytes: int | None
    notes: tuple[ChakraRunNote, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def end_ns(self) -> int:
        """Return the end of the last rank on the first network."""
        return int(self.runs.get_column("end_ns")[0])

    @property
    def is_finished(self) -> bool:
        """Return whether all nodes ran on all networks; else ranks wait for each other."""
        return bool(self.runs.get_column("is_finished").all())

    def __repr__(self) -> str:
        """Return a short description."""
        return (
            f"ChakraRun(end_ns={self.end_ns}, is_finished={self.is_finished}, networks={len(self.networks)})"
        )

    def _repr_html_(self) -> str:
        """Return HTML for a notebook."""
        facts = {
            "end": duration(self.end_ns),
            "finished": "yes" if self.is_finished else "no: ranks wait for each other",
            "lanes": self.lanes.value,
            "notes": [note.value for note in self.notes] or None,
        }
        parts = [
            notebook.frame_html("Networks", self.runs, CHAKRA_RUNS),
            notebook.frame_html("Ranks", self.ranks, CHAKRA_RUN_RANKS),
        ]
        if self.waits.height:
            parts.append(notebook.frame_html("Waiting", self.waits, CHAKRA_RUN_WAITS))
        return notebook.shown("Chakra traces on a network", notebook.facts_html(facts), *parts)
