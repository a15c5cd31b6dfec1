"""The views that join tables, so that a query reads names, times, steps and modules from a single table."""

from __future__ import annotations

from collections.abc import Iterable

from tracebraid.model import schema
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.schema.context import DEVICE_CONTEXT, HOST_CONTEXT
from tracebraid.queries.catalog import Join, View, ViewColumn

_INT, _NAME, _FLOAT = Kind.INT, Kind.NAME, Kind.FLOAT


def _of(alias: str, columns: Iterable[Column], source: str = "") -> tuple[ViewColumn, ...]:
    """Return columns of a table under their own names."""
    return tuple(ViewColumn(column, source, f'{alias}."{column.name}"') for column in columns)


def _as(name: str, kind: Kind, doc: str, expression: str, source: str = "") -> ViewColumn:
    return ViewColumn(Column(name, kind, doc), source, expression)


def _rest(table: Table, *without: str) -> tuple[Column, ...]:
    left_out = {"event_id", *without}
    return tuple(column for column in table.columns if column.name not in left_out)


def _event(alias: str, event: str) -> str:
    """Join the event whose id an expression returns."""
    return f"LEFT JOIN timeline.events AS {alias} ON {alias}.rank = e.rank AND {alias}.event_id = {event}"


_EVENT = "JOIN timeline.events AS e USING (rank, event_id)"
_KEY = (
    _as("rank", _INT, "the rank", "e.rank"),
    _as("event_id", _INT, "the event: its row in `events` of the rank", "e.event_id"),
)
_TIMES = _of("e", _rest(schema.EVENTS))
_STEP_AND_MODULE = _of("c", _rest(HOST_CONTEXT), "c")
_TREE = Join("LEFT JOIN links.host_tree AS t USING (rank, event_id)")
_HOST_CONTEXT = Join("LEFT JOIN context.host_context AS c USING (rank, event_id)")
_HOST_JOINS = {
    "t": _TREE,
    "c": _HOST_CONTEXT,
    "p": Join(_event("p", "t.op_event"), ("t",)),
    "l": Join("LEFT JOIN timeline.lanes AS l ON l.rank = e.rank AND l.lane = e.lane"),
}
_PARENT = (
    _as("parent_event", _INT, "innermost op or annotation that encloses it; null: none", "t.op_event", "t"),
    _as("parent_name", _NAME, "name of that; null: none", "p.name", "p"),
)
_THREAD = _as("thread", _NAME, "name of its thread, from the file; null: unknown", "l.thread_name", "l")


def _tree(*names: str) -> tuple[ViewColumn, ...]:
    return _of("t", (schema.HOST_TREE.column(name) for name in names), "t")


_OPS = View(
    "ops",
    "One row per operator or annotation on the host, with its times, its step, its module and what encloses it.",
    (
        *(*_KEY, *_TIMES, *_STEP_AND_MODULE, *_PARENT, _THREAD),
        _as("self_ns", _INT, "ops: time in it and in no op inside it", "t.op_exclusive_ns", "t"),
        *_tree("inclusive_ns", "depth"),
        *_of("o", _rest(schema.HOST_OPS)),
    ),
    f"timeline.host_ops AS o {_EVENT}",
    _HOST_JOINS,
)

_CALLS = View(
    "calls",
    "One row per call of a runtime or driver API on the host, with its times and the op around it.",
    (
        *(*_KEY, *_TIMES, *_STEP_AND_MODULE, *_PARENT, _THREAD),
        *_tree("exclusive_ns"),
        *_of("o", _rest(schema.HOST_CALLS)),
    ),
    f"timeline.host_calls AS o {_EVENT}",
    _HOST_JOINS,
)

_PYTHON_CALLS = View(
    "python_calls",
    "One row per Python function call, with its times, its step and its module.",
    (
        *(*_KEY, *_TIMES, *_STEP_AND_MODULE, *_PARENT, _THREAD),
        *_tree("inclusive_ns", "exclusive_ns", "depth"),
        *_of("o", _rest(schema.PYTHON_FUNCTIONS)),
    ),
    f"timeline.python_functions AS o {_EVENT}",
    _HOST_JOINS,
)

_KERNELS = View(
    "kernels",
    "One row per kernel, copy, fill or other work on a device, with its times and what launched it.",
    (
        *(*_KEY, *_TIMES),
        *_of("c", _rest(DEVICE_CONTEXT, "device"), "c"),
        *_of("w", _rest(schema.DEVICE_WORK, "kind")),
        _as("rocm_kind", _NAME, "kind of work, on ROCm", "w.kind"),
    ),
    f"timeline.device_work AS w {_EVENT}",
    {"c": Join("LEFT JOIN context.device_context AS c USING (rank, event_id)")},
)

_COLLECTIVES = View(
    "collectives",
    "One row per event with collective arguments, on the host or a device, with its times and its step.",
    (
        *(*_KEY, *_TIMES),
        _as("on_device", Kind.BOOL, "it ran on a device", "w.event_id IS NOT NULL", "w"),
        _as(
            "step",
            _NAME,
            "the step in which it was launched, or on the host started; null: in none",
            "coalesce(d.step, c.step)",
            "d",
        ),
        *_of("o", _rest(schema.COLLECTIVES)),
    ),
    f"timeline.collectives AS o {_EVENT}",
    {
        "w": Join("LEFT JOIN timeline.device_work AS w USING (rank, event_id)"),
        "c": _HOST_CONTEXT,
        "d": Join("LEFT JOIN context.device_context AS d USING (rank, event_id)", ("c",)),
    },
)

_OP_NODES = View(
    "op_nodes",
    "One row per host op that is linked with a node of the Execution Trace.",
    (
        *(*_KEY, *_TIMES),
        _as("node_id", _INT, "the node", "n.node_id"),
        _as("node_name", _NAME, "its name", "n.name"),
        _as("node_parent", _INT, "the node that encloses it; null: a root", "n.parent_id"),
        *_of("n", [schema.ET_NODES.column("op_schema")]),
        _as("method", _NAME, "by what they were linked", "h.method"),
        _as("confidence", _FLOAT, "1.0 for ids that names confirm", "h.confidence"),
    ),
    f"links.host_links AS h {_EVENT} JOIN et.nodes AS n ON n.rank = h.rank AND n.node_id = h.node_id",
)

_LINKS = View(
    "links",
    "One row per device event: from the kernel to its call, its op, its module and its node.",
    (
        _as("rank", _INT, "the rank", "e.rank"),
        _as("kernel_event", _INT, "the device event", "e.event_id"),
        _as("kernel", _NAME, "its name", "e.name"),
        _as("kernel_start_ns", _INT, "its start", "e.ts_ns"),
        _as("kernel_ns", _INT, "its duration", "e.dur_ns"),
        _as("call_event", _INT, "the host's call that launched it; null: none in the trace", "d.call_event"),
        _as("call", _NAME, "its name", "k.name", "k"),
        _as("call_start_ns", _INT, "its start", "k.ts_ns", "k"),
        _as(
            "op_event",
            _INT,
            "innermost op that encloses that call, else annotation; null: none",
            "d.op_event",
        ),
        _as("op", _NAME, "its name", "o.name", "o"),
        *_of("c", (DEVICE_CONTEXT.column(name) for name in ("step", "module")), "c"),
        *_of("d", [schema.DEVICE_LINKS.column("node_id")]),
        _as("node", _NAME, "its name", "n.name", "n"),
        _as("method", _NAME, "by what kernel and op were linked; null without an op", "d.method"),
        _as("reason", _NAME, "why there is no op, a code of `OrphanReason`; null with an op", "d.reason"),
    ),
    f"links.device_links AS d {_EVENT}",
    {
        "c": Join("LEFT JOIN context.device_context AS c USING (rank, event_id)"),
        "k": Join(_event("k", "d.call_event")),
        "o": Join(_event("o", "d.op_event")),
        "n": Join("LEFT JOIN et.nodes AS n ON n.rank = d.rank AND n.node_id = d.node_id"),
    },
)

_WAITS = View(
    "waits",
    "One row per dependency, with the names of both events.",
    (
        _as("rank", _INT, "the rank", "d.rank"),
        *_of("d", [schema.DEPENDENCIES.column("kind")]),
        _as("before_event", _INT, "the event that is waited for", "d.before_event"),
        _as("before_name", _NAME, "its name", "b.name"),
        _as(
            "before_ns",
            _INT,
            "the moment of it that is waited for",
            "b.ts_ns + CASE WHEN d.before_moment = 'end' THEN b.dur_ns ELSE 0 END",
        ),
        _as("after_event", _INT, "the event that waits", "d.after_event"),
        _as("after_name", _NAME, "its name", "a.name"),
        _as(
            "after_ns",
            _INT,
            "the moment of it that waits",
            "a.ts_ns + CASE WHEN d.after_moment = 'end' THEN a.dur_ns ELSE 0 END",
        ),
        *_of("d", [schema.DEPENDENCIES.column("slack_ns")]),
    ),
    "links.dependencies AS d JOIN timeline.events AS b ON b.rank = d.rank AND b.event_id = d.before_event "
    "JOIN timeline.events AS a ON a.rank = d.rank AND a.event_id = d.after_event",
)

VIEWS = (_OPS, _CALLS, _PYTHON_CALLS, _KERNELS, _COLLECTIVES, _OP_NODES, _LINKS, _WAITS)
"""All views that join tables."""
