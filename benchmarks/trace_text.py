"""A trace file as text, cut into the objects of its array and what stands around them."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["TraceText", "read_trace_text"]

_ARRAY_START = re.compile(rb'"(traceEvents|nodes)"\s*:\s*\[\s*')
_COMMA = re.compile(rb"\s*,\s*")
_ROOT = re.compile(r"\[pytorch\|profiler\|execution_(?:graph|trace)\|(?:process|thread)\]")


@dataclass(frozen=True)
class TraceText:
    """A whole trace, in memory.

    Args:
        is_et: an Execution Trace, not a Kineto trace.
        before: from the file's first byte to the array's first object.
        objects: the events or nodes.
        between: what separates two of them.
        after: from the end of the last object to the file's last byte.
        phases: `ph` of each event; nothing for nodes.
        once: whether each object stands for the whole run: metadata, process and thread roots.
        root_ids: the ids of an Execution Trace's roots.
        span_us: from the first start to the last end of what is no metadata, in whole µs; 0 for nodes.
    """

    is_et: bool
    before: bytes
    objects: list[bytes]
    between: bytes
    after: bytes
    phases: list[str]
    once: list[bool]
    root_ids: frozenset[int]
    span_us: int


class _Event(msgspec.Struct, gc=False):
    ph: str
    ts: float = 0.0
    dur: float = 0.0


class _Node(msgspec.Struct, gc=False):
    id: int
    name: str


class _File(msgspec.Struct):
    traceEvents: msgspec.Raw = msgspec.Raw(b"[]")  # noqa: N815 (the file's own name)
    nodes: msgspec.Raw = msgspec.Raw(b"[]")


def read_trace_text(path: Path) -> TraceText:
    """Read a valid trace, plain or gzip.

    Raises:
        ValueError: it is no JSON object around `traceEvents` or `nodes`, or holds nothing.
    """
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    start = _ARRAY_START.search(data)
    file = msgspec.json.decode(data, type=_File)
    if start is None:
        raise ValueError(f"{path}: neither traceEvents nor nodes is in it")
    is_et = start.group(1) == b"nodes"
    array = file.nodes if is_et else file.traceEvents
    objects = [bytes(one) for one in msgspec.json.decode(array, type=list[msgspec.Raw])]
    if not objects:
        raise ValueError(f"{path}: its array is empty")
    stop, between = _end_of(data, start.end(), objects)
    facts = _facts_of_nodes(array) if is_et else _facts_of_events(array)
    return TraceText(is_et, data[: start.end()], objects, between, data[stop:], **facts)


def _end_of(data: bytes, start: int, objects: list[bytes]) -> tuple[int, bytes]:
    """(where the last object ends, what stands between the first two)."""
    between, place = b",\n", start
    for number, one in enumerate(objects):
        comma = _COMMA.match(data, place) if number else None
        if comma is not None:
            between = comma.group() if number == 1 else between
            place = comma.end()
        if not data.startswith(one, place):
            raise ValueError(f"object {number} does not stand at byte {place:,}: is the array there twice?")
        place += len(one)
    return place, between


def _facts_of_events(array: msgspec.Raw) -> dict[str, Any]:
    events = msgspec.json.decode(array, type=list[_Event])
    timed = [event for event in events if event.ph != "M"]
    first = min((event.ts for event in timed), default=0.0)
    if first < 0:
        raise ValueError("an event starts before 0, and its time cannot be shifted digit by digit")
    last = max((event.ts + max(event.dur, 0.0) for event in timed), default=0.0)
    return {
        "phases": [event.ph for event in events],
        "once": [event.ph == "M" for event in events],
        "root_ids": frozenset(),
        "span_us": int(last - first) + 1,
    }


def _facts_of_nodes(array: msgspec.Raw) -> dict[str, Any]:
    nodes = msgspec.json.decode(array, type=list[_Node])
    once = [_ROOT.fullmatch(node.name) is not None for node in nodes]
    root_ids = frozenset(node.id for node, is_root in zip(nodes, once, strict=True) if is_root)
    return {"phases": [], "once": once, "root_ids": root_ids, "span_us": 0}
