"""Schema of event context: step, module and launch of each event. Tables of SQL."""

from __future__ import annotations

from tracebraid.model.column import Column, Kind, Table

_INT, _NAME = Kind.INT, Kind.NAME

_EVENT_ID = Column("event_id", _INT, "the event: its row in `events`")

HOST_CONTEXT = Table(
    "host_context",
    "One row per host event that has a duration: op, annotation, call or Python function.",
    (
        _EVENT_ID,
        Column("step", _NAME, "the step in which it started; null: in none"),
        Column(
            "module", _NAME, "path of the nn.Module that it is in, as in `modules`; null: in none, or unknown"
        ),
    ),
)

DEVICE_CONTEXT = Table(
    "device_context",
    "One row per kernel, copy, fill or other work on a device.",
    (
        _EVENT_ID,
        Column("device", _NAME, "the device, as in the analyses"),
        Column("kind", _NAME, "compute, communication, memory or wait"),
        Column("family", _NAME, "family of the kernel: gemm, attention, pointwise, ..."),
        Column("step", _NAME, "the step in which it was launched; null: in none, or no launch is known"),
        Column(
            "module", _NAME, "path of the nn.Module that launched it, as in `modules`; null: none, or unknown"
        ),
        Column("call_event", _INT, "the host's call that launched it; null: none in the trace"),
        Column("op_event", _INT, "innermost op that encloses that call, else annotation; null: none"),
        Column("op_name", _NAME, "name of that op; null: none"),
    ),
)
