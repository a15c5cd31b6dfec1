"""A graph of ops: which calls which, which data goes where, what launched what."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = ["OP_GRAPH_EDGES", "OP_GRAPH_NODES", "OpEdge", "OpNode"]


class OpNode(Enum):
    """What a node of the graph is."""

    OP = "op"
    ANNOTATION = "annotation"
    DEVICE_WORK = "device work"


class OpEdge(Enum):
    """Why an edge goes from a node to another."""

    CALL = "call"
    """The second runs inside the first, directly among ops and annotations."""
    LAUNCH = "launch"
    """The first launched the second on a device."""
    DATA = "data"
    """The second reads what the first wrote, as the Execution Trace has it."""
    FORWARD_BACKWARD = "forward_backward"
    """The second is the backward op of the first."""


OP_GRAPH_NODES = Table(
    "op_graph_nodes",
    "One row per op, annotation, and event of a device.",
    (
        Column("rank", Kind.INT, "the rank"),
        Column("event_id", Kind.INT, "the event: its row in `events` of the rank"),
        Column("kind", Kind.TEXT, "a code of `OpNode`"),
        Column("name", Kind.TEXT, "its name"),
        Column("step", Kind.TEXT, "the step in which it starts, or was launched; null: none"),
        Column("node_id", Kind.INT, "the Execution Trace node; null: none, or not an op"),
        Column("input_dims", Kind.TEXT, "shapes of the inputs, as JSON; null: not recorded, or not an op"),
        Column("input_types", Kind.TEXT, "their types, as JSON; null: not recorded, or not an op"),
        Column("start_ns", Kind.INT, "start, from the first event of the rank"),
        Column("duration_ns", Kind.INT, "duration"),
        Column("host_self_ns", Kind.INT, "ops: host time in it and in no op inside it; else null"),
        Column("kernels", Kind.INT, "ops: device events that it launched itself; else null"),
        Column("device_self_ns", Kind.INT, "ops: duration of those; else null"),
        Column("device_total_ns", Kind.INT, "ops: with those of the ops inside it; else null"),
    ),
)

OP_GRAPH_EDGES = Table(
    "op_graph_edges",
    "One row per edge between nodes of a rank.",
    (
        Column("rank", Kind.INT, "the rank"),
        Column("source", Kind.INT, "the event that it goes from"),
        Column("target", Kind.INT, "the event that it goes to"),
        Column("kind", Kind.TEXT, "a code of `OpEdge`"),
    ),
)
