"""The events of one chunk of a Kineto trace as typed objects, and their positions in the file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracebraid.importers.columns import Interned, interned_column
from tracebraid.importers.json_stream.chunks import EVENT_MEMBER, shape_of
from tracebraid.importers.json_stream.recover import Recovered, recover
from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.issue import Issue

__all__ = ["Event", "EventPositions", "phases_of", "read_events"]

_NAN = float("nan")


class Event(msgspec.Struct, gc=False):
    """Any event of the Chrome trace format; times in µs, NaN where the file has none.

    A time is an `int` where the file has no fraction, so that large ones are known to be whole.
    """

    ph: str
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float = _NAN
    dur: int | float = _NAN
    args: msgspec.Raw = msgspec.Raw(b"")
    id: int | str | None = None


class _Complete(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float = _NAN
    dur: int | float = _NAN
    args: msgspec.Raw = msgspec.Raw(b"")


class _Instant(_Complete, gc=False, tag_field="ph", tag="i"):
    pass


class _FlowStart(msgspec.Struct, gc=False, tag_field="ph", tag="s"):
    id: int | str | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float = _NAN
    cat: str | None = None


class _FlowEnd(_FlowStart, gc=False, tag_field="ph", tag="f"):
    pass


class _Metadata(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    name: str = ""
    ts: int | float = _NAN
    pid: int | str | None = None
    tid: int | str | None = None
    args: msgspec.Raw = msgspec.Raw(b"")


_USUAL = msgspec.json.Decoder(list[_Complete | _Instant | _FlowStart | _FlowEnd | _Metadata])
"""Decodes what Kineto writes, with no more members for each phase than it has: a third faster than `_ANY`."""

_ANY = msgspec.json.Decoder(list[Event])


@dataclass
class EventPositions:
    """The positions of a chunk's events in the file; computed on request.

    Args:
        start: offset of the chunk's first byte in the file.
        array: the chunk in brackets.
        recovered: the objects, where the chunk did not decode as a whole and was read object by object.
    """

    start: int = 0
    array: bytes = b""
    recovered: list[Recovered] | None = None

    def texts(self) -> list[bytes]:
        """The JSON text of each event."""
        if self.recovered is not None:
            return [item.text for item in self.recovered]
        return [bytes(raw) for raw in msgspec.json.decode(self.array, type=list[msgspec.Raw])]

    def bytes_of(self, indices: list[int]) -> list[int]:
        """The byte of the file where each of these events starts."""
        if self.recovered is not None:
            return [self.recovered[i].byte for i in indices]
        raws = msgspec.json.decode(self.array, type=list[msgspec.Raw])
        base = _address(self.array) + 1
        return [self.start + _address(raws[i]) - base for i in indices]


def read_events(data: bytes, start: int, first_key: bytes) -> tuple[list[Any], EventPositions, list[Issue]]:
    """The events of a chunk: `Event` or an object with those of its members that its phase has.

    Args:
        data: events with commas between them.
        start: offset of the first byte in the file.
        first_key: see `chunks.ArrayFile`.
    """
    array = b"".join((b"[", data, b"]"))
    try:
        return _USUAL.decode(array), EventPositions(start, array), []
    except msgspec.ValidationError:
        pass
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _read_each(array[1:-1], start, first_key)
    try:
        return _ANY.decode(array), EventPositions(start, array), []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _read_each(array[1:-1], start, first_key)


def phases_of(events: list[Any]) -> Interned:
    """The phase (`ph`) of each event."""
    if events and type(events[0]) is not Event:
        kinds = interned_column(map(type, events))
        return Interned(kinds.codes, [kind.__struct_config__.tag for kind in kinds.values])  # type: ignore[attr-defined]
    return interned_column([event.ph for event in events])


def _read_each(data: bytes, start: int, first_key: bytes) -> tuple[list[Any], EventPositions, list[Issue]]:
    kept, issues = recover(data, start, shape_of(first_key, EVENT_MEMBER))
    events: list[Event] = []
    read: list[Recovered] = []
    for item in kept:
        try:
            events.append(_lenient_event(item))
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            loss, case = Loss(1, 1, len(item.text)), FindingCase.NO_EVENT
            issues.append(
                Issue.of(FindingCode.EVENT_UNREADABLE, item.byte, loss, case=case, error=str(error))
            )
        else:
            read.append(item)
    return events, EventPositions(recovered=read), issues


def _lenient_event(item: Recovered) -> Event:
    try:
        return msgspec.json.decode(item.text, type=Event)
    except (msgspec.ValidationError, UnicodeDecodeError):
        value = item.value
    for key in ("ts", "dur"):
        if key in value:
            value[key] = _number(value[key])
    for key in ("pid", "tid", "id"):
        if not isinstance(value.get(key), int | str | None):
            value[key] = str(value[key])
    value["name"] = value["name"] if isinstance(value.get("name"), str) else str(value.get("name", ""))
    value["cat"] = None if value.get("cat") is None else str(value["cat"])
    args = value.pop("args", None)
    event = msgspec.convert(value, Event)
    event.args = msgspec.Raw(msgspec.json.encode(args)) if isinstance(args, dict) else msgspec.Raw(b"")
    return event


def _number(value: object) -> float:
    if isinstance(value, bool):
        return _NAN
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return _NAN
    return number if math.isfinite(number) else _NAN


def _address(data: Any) -> int:
    view: NDArray[np.uint8] = np.frombuffer(data, dtype=np.uint8)
    return int(view.__array_interface__["data"][0])
