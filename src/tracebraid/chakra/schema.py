"""Nodes of an `.et` file in columns, with their dependencies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.finding import Finding

_INT, _BOOL, _NAME, _TEXT, _JSON = Kind.INT, Kind.BOOL, Kind.NAME, Kind.TEXT, Kind.JSON
CHAKRA_NODES = Table(
    "chakra_nodes",
    "One row per node of an `.et` file, in the order of the file; what it waits for stands beside the table. "
    "Columns behind `duration_micros` are attributes of these names; those behind `tensor_size` are our own.",
    (
        Column("node_id", _INT, "its id, unique in the file"),
        Column("name", _NAME, "its name"),
        Column("type", _NAME, "Chakra's `NodeType`, such as `COMP_NODE`"),
        Column(
            "start_time_micros",
            _INT,
            "start in us, on a clock of its own; simulators do not read it; null: none",
        ),
        Column("duration_micros", _INT, "duration in us, rounded so that no chain of nodes drifts"),
        Column(
            "is_cpu_op", _BOOL, "whether the host does it; null: not said, which simulators take as false"
        ),
        Column(
            "comm_type", _NAME, "Chakra's `CollectiveCommType`, such as `ALL_REDUCE`; null: no collective"
        ),
        Column("comm_size", _INT, "bytes as simulators count them; null: no communication"),
        Column("comm_priority", _INT, "null: not said"),
        Column("comm_src", _INT, "dense rank that sends, of a receive; null: none"),
        Column("comm_dst", _INT, "dense rank that receives, of a send; null: none"),
        Column(
            "comm_tag",
            _INT,
            "tag that pairs a send with its receive, with both ranks and the size; null: none",
        ),
        Column(
            "pg_name",
            _TEXT,
            "number of the process group as text, as in the comm-group file; null: all ranks",
        ),
        Column("num_ops", _INT, "floating-point operations; null: unknown"),
        Column("tensor_size", _INT, "bytes that it reads and writes at least; null: unknown"),
        Column("duration_ns", _INT, "duration in ns; null: not stated"),
        Column("kind", _NAME, "its kind: an `ActivityKind`, or `delay`; null: not stated"),
        Column("op", _NAME, "name of the innermost op; null: none"),
        Column("et_node_id", _INT, "node of that op in the Execution Trace; null: there is none"),
        Column("event_id", _INT, "event of the Kineto trace; null: none, or several"),
        Column(
            "shapes", _JSON, "shapes of the inputs of the op, in `Node.inputs.shapes`; null: not recorded"
        ),
        Column("module", _NAME, "nn.Module; null: none"),
        Column("step", _NAME, "the step in which it was issued; null: in none"),
        Column("stream", _INT, "stream of the device; null: on the host, or merged"),
        Column("thread", _INT, "thread of the host; null: on a device"),
        Column("collective", _NAME, "name of the communication in the trace, before mapping; null: none"),
        Column(
            "inputs",
            _JSON,
            "what else `Node.inputs` holds: a JSON object with the texts of `values` and `types`; process groups stand "
            "in `values` of a `METADATA_NODE`; null: nothing",
        ),
        Column("outputs", _JSON, "likewise of `Node.outputs`, with `shapes`; null: nothing"),
        Column(
            "attributes",
            _JSON,
            "all further attributes as a JSON object: integers (`int64_val`), numbers with a point (`double_val`), "
            "booleans and texts as they are; of other types, or with a `doc_string`, an object such as "
            '`{"uint32_val": 7}`; of a name that is there several times, a list. For an attribute that has a column, '
            'but another type than the usual one, `{"type": "uint64_val"}`; null: none',
        ),
    ),
)
CHAKRA_COMMUNICATION = Table(
    "chakra_communication",
    "One row per communication node that an event of a rank becomes: most events have one, a kernel of sends and "
    "receives several; in the order in which the rank has to issue them.",
    (
        Column("event_id", _INT, "the event of the rank's timeline"),
        Column("type", _NAME, "Chakra's `NodeType`"),
        Column(
            "comm_type",
            _NAME,
            "Chakra's `CollectiveCommType`; `BROADCAST` in a group of one rank: it is simulated on that rank alone; "
            "null: a send or receive",
        ),
        Column("comm_size", _INT, "bytes as simulators count them"),
        Column("comm_src", _INT, "dense rank that sends, of a receive; null: none"),
        Column("comm_dst", _INT, "dense rank that receives, of a send; null: none"),
        Column("comm_tag", _INT, "tag that pairs a send with its receive; null: none"),
        Column("pg_name", _TEXT, "number of the process group as text; null: all ranks"),
        Column("collective", _NAME, "its name in the trace: a `CollectiveType`, or the name of the op"),
        Column(
            "transfer_ns",
            _INT,
            "time from the last arrival to its own end: what the transfer took; where that "
            "is not known, or it is simulated alone, all of its duration",
        ),
        Column(
            "order",
            _INT,
            "its position among all communication of the job: ascending on every rank, so that ranks which issue "
            "in this order never wait for each other in a circle",
        ),
        Column(
            "lasts_ns",
            _INT,
            "time from the moment at which all members are there, as a simulator issues them, to its end: the "
            "duration of its node; null: `transfer_ns`",
        ),
        Column(
            "early_ns",
            _INT,
            "where ranks do one communication at a time: by how much it ends before its measured end, for what is "
            "issued behind it ended earlier; null: 0",
        ),
        Column(
            "may_lead",
            _BOOL,
            "there, whether it can be issued before it began without starting earlier: it is not the last to come, or "
            "follows another one on its stream; null: not",
        ),
        Column(
            "moved_ns",
            _INT,
            "by how much it has to be issued before it began so that no rank ends later than measured: clocks "
            "disagree, or another member ended before this one came; null: 0",
        ),
    ),
)
SCHEMA_VERSION = "0.0.4"
_Ints = NDArray[np.int64]
AttributeValue = str | int | float | bool
"""Value of an attribute in the metadata of a file."""


class NodeDeps(Struct, frozen=True, eq=False):
    """Dependencies of each node: those of row `i` are the entries from `first[i]` up to `first[i + 1]`.

    Args:
        first: one entry more than there are nodes.
        node_id: ids as the file has them; a damaged file may name nodes that it does not hold.
    """

    first: _Ints
    node_id: _Ints

    def __len__(self) -> int:
        return len(self.node_id)

    @staticmethod
    def none(nodes: int) -> NodeDeps:
        """No dependency of any of so many nodes."""
        return NodeDeps(np.zeros(nodes + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))

    @staticmethod
    def of_pairs(before: _Ints, after: _Ints, node_id: _Ints) -> NodeDeps:
        """Build from pairs of rows in any order; duplicates count once.

        Args:
            before: rows that are waited for.
            after: rows that wait.
            node_id: the ids of all rows.
        """
        order = np.lexsort((before, after))
        before, after = before[order], after[order]
        new = np.ones(len(after), dtype=np.bool_)
        new[1:] = (after[1:] != after[:-1]) | (before[1:] != before[:-1])
        first = np.zeros(len(node_id) + 1, dtype=np.int64)
        np.cumsum(np.bincount(after[new], minlength=len(node_id)), out=first[1:])
        return NodeDeps(first, node_id[before[new]])

    def rows(self) -> _Ints:
        """The row that waits, of each entry."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


class ChakraRank(Struct, frozen=True, eq=False):
    """Content of an `.et` file.

    Args:
        rank: the number in the file's name, which is the rank in a simulator.
        version: of the schema, as the file's metadata says.
        attributes: the metadata's attributes, by name, in the order of the file.
        nodes: `CHAKRA_NODES`, in the order of the file.
        data_deps: what each node waits for; real order belongs here.
        ctrl_deps: likewise, as other tools write it.
        findings: findings while it was read or made.
        spans_ns: of nodes that were made of a trace when each started and ended there, on one clock; None: unknown.
    """

    rank: int
    version: str
    attributes: Sequence[tuple[str, AttributeValue]]
    nodes: pl.DataFrame
    data_deps: NodeDeps
    ctrl_deps: NodeDeps
    findings: tuple[Finding, ...] = ()
    spans_ns: tuple[_Ints, _Ints] | None = None

    def __repr__(self) -> str:
        """Return a short description."""
        deps = len(self.data_deps) + len(self.ctrl_deps)
        return f"ChakraRank(rank={self.rank}, nodes={self.nodes.height}, deps={deps})"
