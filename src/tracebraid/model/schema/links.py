"""What linking adds: the tables of a `LinkedTrace`."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "DEPENDENCIES",
    "DEVICE_LINKS",
    "FORWARD_BACKWARD",
    "HOST_LINKS",
    "HOST_TREE",
    "LAUNCHES",
    "NODE_LINKS",
]

_INT, _FLOAT, _NAME, _TEXT, _INTS = Kind.INT, Kind.FLOAT, Kind.NAME, Kind.TEXT, Kind.INTS

_EVENT_ID = Column("event_id", _INT, "the event: its row in `events`")
_NODE_ID = Column("node_id", _INT, "the Execution Trace node")

HOST_TREE = Table(
    "host_tree",
    "One row per host event that has a duration: op, annotation, call or Python function.",
    (
        _EVENT_ID,
        Column("parent_event", _INT, "innermost host event that encloses it on its thread; null at the top"),
        Column("op_event", _INT, "innermost op or annotation that encloses it, itself left out; null: none"),
        Column("depth", _INT, "number of host events that enclose it"),
        Column("inclusive_ns", _INT, "its duration, cut where it outlasts its parent"),
        Column("exclusive_ns", _INT, "inclusive time less that of the events directly inside"),
        Column(
            "op_exclusive_ns", _INT, "ops: inclusive time less that of the ops directly inside; else null"
        ),
    ),
)

HOST_LINKS = Table(
    "host_links",
    "One row per host op or annotation: the Execution Trace node that is the same op.",
    (
        _EVENT_ID,
        Column("node_id", _INT, "the node; null where none was proven"),
        Column(
            "method",
            _NAME,
            "`record_function_id`, `external_id`, `alignment`, `alignment_name`, `position`; null without a node",
        ),
        Column("confidence", _FLOAT, "1.0 for ids that names confirm; null without a node"),
        Column("reason", _NAME, "why there is no node, a code of `OrphanReason`; null with one"),
        Column("candidates", _INTS, "nodes that it could be as well as any other; null: none"),
    ),
)

NODE_LINKS = Table(
    "node_links",
    "One row per Execution Trace node: the host event that is the same op.",
    (
        _NODE_ID,
        Column("event_id", _INT, "the host event; null where none was proven"),
        Column("reason", _NAME, "why there is no event, a code of `OrphanReason`; null with one"),
        Column("candidates", _INTS, "host events that it could be as well as any other; null: none"),
    ),
)

_CALL = Column("call_event", _INT, "the host's call with its correlation; null: none in the trace")
_OP = Column("op_event", _INT, "innermost op that encloses that call, else annotation; null: none")
_LAUNCH_METHOD = Column("method", _NAME, "`correlation`, `external_id`; null without an op")
_LAUNCH_REASON = Column("reason", _NAME, "why there is no op, a code of `OrphanReason`; null with one")

LAUNCHES = Table(
    "launches",
    "One row per device event: what launched it, as the Kineto trace alone shows.",
    (_EVENT_ID, _CALL, _OP, _LAUNCH_METHOD, _LAUNCH_REASON),
)

DEVICE_LINKS = Table(
    "device_links",
    "One row per device event: what launched it, and the Execution Trace node of that.",
    (
        _EVENT_ID,
        _CALL,
        _OP,
        Column(
            "node_id",
            _INT,
            "the Execution Trace node of that op, or of the nearest enclosing op that has one",
        ),
        _LAUNCH_METHOD,
        _LAUNCH_REASON,
    ),
)

FORWARD_BACKWARD = Table(
    "forward_backward",
    "One row per backward op whose forward op is known.",
    (
        Column("forward_event", _INT, "the forward op that made the autograd node"),
        Column("backward_event", _INT, "the backward op"),
        Column("sequence_number", _INT, "the sequence number that both carry"),
    ),
)

DEPENDENCIES = Table(
    "dependencies",
    "One row per dependency: a moment of one event that waits for a moment of another.",
    (
        Column("before_event", _INT, "the event that is waited for"),
        Column("before_moment", _NAME, "`start` or `end`: which moment of it is waited for"),
        Column("after_event", _INT, "the event that waits"),
        Column("after_moment", _NAME, "`start` or `end`: which moment of it waits"),
        Column(
            "kind",
            _NAME,
            "`launch`, `stream_order`, `event_wait`, `sync`, `inter_thread` or `forward_backward`",
        ),
        Column("slack_ns", _INT, "from the one moment to the other; below 0 by rounding only"),
        Column("evidence", _TEXT, "what proves it"),
    ),
)
