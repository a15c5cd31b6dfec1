"""The views that join tables, so that a query reads names, times, steps and modules from one."""

from __future__ import annotations

from collections.abc import Iterable

from tracebraid.model import schema
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.schema.context import DEVICE_CONTEXT, HOST_CONTEXT
from tracebraid.queries.catalog import View

__all__ = ["VIEWS"]

_INT, _NAME, _FLOAT = Kind.INT, Kind.NAME, Kind.FLOAT

_RANK = Column("rank", _INT, "the rank")
_EVENT_ID = Column("event_id", _INT, "the event: its row in `events` of the rank")
_NAME_OF = schema.EVENTS.column("name")
_CATEGORY = schema.EVENTS.column("category")
_TS, _DUR, _LANE = (schema.EVENTS.column(name) for name in ("ts_ns", "dur_ns", "lane"))
_THREAD = Column("thread", _NAME, "name of its thread, from the file's metadata; null: unknown")
_STEP, _MODULE = HOST_CONTEXT.column("step"), HOST_CONTEXT.column("module")
_PARENT = Column("parent_event", _INT, "innermost op or annotation that encloses it; null: none")
_PARENT_NAME = Column("parent_name", _NAME, "name of that; null: none")
_SELF = Column("self_ns", _INT, "ops: time in it and in no op inside it")
_INCLUSIVE = schema.HOST_TREE.column("inclusive_ns")
_EXCLUSIVE = schema.HOST_TREE.column("exclusive_ns")
_DEPTH = schema.HOST_TREE.column("depth")


def _rest(table: Table, *without: str) -> tuple[Column, ...]:
    left_out = {"event_id", *without}
    return tuple(column for column in table.columns if column.name not in left_out)


def _columns(alias: str, columns: Iterable[Column]) -> str:
    return ", ".join(f'{alias}."{column.name}"' for column in columns)


_OP_ARGUMENTS = _rest(schema.HOST_OPS)
_HOST = (_RANK, _EVENT_ID, _NAME_OF, _CATEGORY, _STEP, _MODULE, _TS, _DUR)
_HOST_SQL = "e.rank, e.event_id, e.name, e.category, c.step, c.module, e.ts_ns, e.dur_ns"
_EVENT_OF = "JOIN timeline.events AS e USING (rank, event_id)"

_OPS = View(
    Table(
        "ops",
        "One row per operator or annotation on the host, with its times, its step, its module and what encloses it.",
        (*_HOST, _INCLUSIVE, _SELF, _DEPTH, _PARENT, _PARENT_NAME, _LANE, _THREAD, *_OP_ARGUMENTS),
    ),
    f"""SELECT {_HOST_SQL}, t.inclusive_ns, t.op_exclusive_ns AS self_ns, t.depth,
    t.op_event AS parent_event, p.name AS parent_name, e.lane, l.thread_name AS thread, {_columns("o", _OP_ARGUMENTS)}
FROM timeline.host_ops AS o {_EVENT_OF}
LEFT JOIN links.host_tree AS t USING (rank, event_id)
LEFT JOIN context.host_context AS c USING (rank, event_id)
LEFT JOIN timeline.events AS p ON p.rank = e.rank AND p.event_id = t.op_event
LEFT JOIN timeline.lanes AS l ON l.rank = e.rank AND l.lane = e.lane""",
)

_CALL_ARGUMENTS = _rest(schema.HOST_CALLS)

_CALLS = View(
    Table(
        "calls",
        "One row per call of a runtime or driver API on the host, with its times and the op around it.",
        (*_HOST, _EXCLUSIVE, _PARENT, _PARENT_NAME, _LANE, _THREAD, *_CALL_ARGUMENTS),
    ),
    f"""SELECT {_HOST_SQL}, t.exclusive_ns, t.op_event AS parent_event, p.name AS parent_name, e.lane,
    l.thread_name AS thread, {_columns("o", _CALL_ARGUMENTS)}
FROM timeline.host_calls AS o {_EVENT_OF}
LEFT JOIN links.host_tree AS t USING (rank, event_id)
LEFT JOIN context.host_context AS c USING (rank, event_id)
LEFT JOIN timeline.events AS p ON p.rank = e.rank AND p.event_id = t.op_event
LEFT JOIN timeline.lanes AS l ON l.rank = e.rank AND l.lane = e.lane""",
)

_FUNCTION_ARGUMENTS = _rest(schema.PYTHON_FUNCTIONS)

_PYTHON_CALLS = View(
    Table(
        "python_calls",
        "One row per Python function call, with its times, its step and its module.",
        (*_HOST, _INCLUSIVE, _EXCLUSIVE, _DEPTH, _LANE, *_FUNCTION_ARGUMENTS),
    ),
    f"""SELECT {_HOST_SQL}, t.inclusive_ns, t.exclusive_ns, t.depth, e.lane, {_columns("o", _FUNCTION_ARGUMENTS)}
FROM timeline.python_functions AS o {_EVENT_OF}
LEFT JOIN links.host_tree AS t USING (rank, event_id)
LEFT JOIN context.host_context AS c USING (rank, event_id)""",
)

_WORK_CONTEXT = _rest(DEVICE_CONTEXT, "device")
_WORK_ARGUMENTS = _rest(schema.DEVICE_WORK, "kind")
_WORK_KIND = Column("rocm_kind", _NAME, "kind of work, on ROCm")

_KERNELS = View(
    Table(
        "kernels",
        "One row per kernel, copy, fill or other work on a device, with its times and what launched it.",
        (
            *(_RANK, _EVENT_ID, _NAME_OF, _CATEGORY),
            *(_TS, _DUR, _LANE),
            *_WORK_CONTEXT,
            *_WORK_ARGUMENTS,
            _WORK_KIND,
        ),
    ),
    f"""SELECT e.rank, e.event_id, e.name, e.category, e.ts_ns, e.dur_ns, e.lane, {_columns("c", _WORK_CONTEXT)},
    {_columns("w", _WORK_ARGUMENTS)}, w.kind AS rocm_kind
FROM timeline.device_work AS w {_EVENT_OF}
LEFT JOIN context.device_context AS c USING (rank, event_id)""",
)

_COLLECTIVE_ARGUMENTS = _rest(schema.COLLECTIVES)

_COLLECTIVES = View(
    Table(
        "collectives",
        "One row per event with collective arguments, on the host or a device, with its times and its step.",
        (
            *(_RANK, _EVENT_ID, _NAME_OF, _CATEGORY),
            Column("on_device", Kind.BOOL, "it ran on a device"),
            *(_STEP, _TS, _DUR, _LANE),
            *_COLLECTIVE_ARGUMENTS,
        ),
    ),
    f"""SELECT e.rank, e.event_id, e.name, e.category, d.event_id IS NOT NULL AS on_device,
    coalesce(d.step, c.step) AS step, e.ts_ns, e.dur_ns, e.lane, {_columns("o", _COLLECTIVE_ARGUMENTS)}
FROM timeline.collectives AS o {_EVENT_OF}
LEFT JOIN context.device_context AS d USING (rank, event_id)
LEFT JOIN context.host_context AS c USING (rank, event_id)""",
)

_OP_NODES = View(
    Table(
        "op_nodes",
        "One row per host op that is linked with a node of the Execution Trace.",
        (
            *(_RANK, _EVENT_ID, _NAME_OF, _TS, _DUR),
            Column("node_id", _INT, "the node"),
            Column("node_name", _NAME, "its name"),
            Column("node_parent", _INT, "the node that encloses it; null: a root"),
            schema.ET_NODES.column("op_schema"),
            Column("method", _NAME, "by what they were linked"),
            Column("confidence", _FLOAT, "1.0 for ids that names confirm"),
        ),
    ),
    f"""SELECT e.rank, e.event_id, e.name, e.ts_ns, e.dur_ns, n.node_id, n.name AS node_name,
    n.parent_id AS node_parent, n.op_schema, h.method, h.confidence
FROM links.host_links AS h {_EVENT_OF}
JOIN et.nodes AS n ON n.rank = h.rank AND n.node_id = h.node_id""",
)

_LINKS = View(
    Table(
        "links",
        "One row per device event: from the kernel to its call, its op, its module and its node.",
        (
            _RANK,
            Column("kernel_event", _INT, "the device event"),
            Column("kernel", _NAME, "its name"),
            Column("kernel_start_ns", _INT, "its start"),
            Column("kernel_ns", _INT, "its duration"),
            Column("call_event", _INT, "the host's call that launched it; null: none in the trace"),
            Column("call", _NAME, "its name"),
            Column("call_start_ns", _INT, "its start"),
            Column("op_event", _INT, "innermost op that encloses that call, else annotation; null: none"),
            Column("op", _NAME, "its name"),
            _STEP,
            _MODULE,
            Column(
                "node_id",
                _INT,
                "the Execution Trace node of that op, or of the nearest around it that has one",
            ),
            Column("node", _NAME, "its name"),
            Column("method", _NAME, "by what kernel and op were linked; null without an op"),
            Column("reason", _NAME, "why there is no op, a code of `OrphanReason`; null with one"),
        ),
    ),
    """SELECT e.rank, e.event_id AS kernel_event, e.name AS kernel, e.ts_ns AS kernel_start_ns, e.dur_ns AS kernel_ns,
    d.call_event, k.name AS call, k.ts_ns AS call_start_ns, d.op_event, o.name AS op, c.step, c.module,
    d.node_id, n.name AS node, d.method, d.reason
FROM links.device_links AS d JOIN timeline.events AS e USING (rank, event_id)
LEFT JOIN context.device_context AS c USING (rank, event_id)
LEFT JOIN timeline.events AS k ON k.rank = d.rank AND k.event_id = d.call_event
LEFT JOIN timeline.events AS o ON o.rank = d.rank AND o.event_id = d.op_event
LEFT JOIN et.nodes AS n ON n.rank = d.rank AND n.node_id = d.node_id""",
)

_WAITS = View(
    Table(
        "waits",
        "One row per dependency, with the names of both events.",
        (
            _RANK,
            Column("kind", _NAME, "the dependency's kind"),
            Column("before_event", _INT, "the event that is waited for"),
            Column("before_name", _NAME, "its name"),
            Column("before_ns", _INT, "the moment of it that is waited for"),
            Column("after_event", _INT, "the event that waits"),
            Column("after_name", _NAME, "its name"),
            Column("after_ns", _INT, "the moment of it that waits"),
            Column("slack_ns", _INT, "from the one moment to the other"),
        ),
    ),
    """SELECT d.rank, d.kind, d.before_event, b.name AS before_name,
    b.ts_ns + CASE WHEN d.before_moment = 'end' THEN b.dur_ns ELSE 0 END AS before_ns,
    d.after_event, a.name AS after_name,
    a.ts_ns + CASE WHEN d.after_moment = 'end' THEN a.dur_ns ELSE 0 END AS after_ns, d.slack_ns
FROM links.dependencies AS d
JOIN timeline.events AS b ON b.rank = d.rank AND b.event_id = d.before_event
JOIN timeline.events AS a ON a.rank = d.rank AND a.event_id = d.after_event""",
)

VIEWS = (_OPS, _CALLS, _PYTHON_CALLS, _KERNELS, _COLLECTIVES, _OP_NODES, _LINKS, _WAITS)
"""All views that join tables."""
