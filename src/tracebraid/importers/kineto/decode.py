"""One chunk of a Kineto trace, from bytes to columns. Runs in worker processes too, so it loads no polars."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tracebraid.importers.columns import (
    Interned,
    Interner,
    TableData,
    int_column,
    interned_column,
    joined,
    missing_column,
    renamed,
    taken,
)
from tracebraid.importers.json_stream.collector import without_collector
from tracebraid.importers.kineto.clock import DURATION_LIMIT_US, LIMIT_US, exact_ns, needs_decimal, to_ns
from tracebraid.importers.kineto.event import EventPositions, phases_of, read_events
from tracebraid.importers.kineto.event_args import Extras, SeenKeys, decode_args, extras_table
from tracebraid.model.category import CATEGORY_BY_OLD_NAME
from tracebraid.model.column import INT64_NULL
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.issue import Issue
from tracebraid.model.schema.kineto import UNUSABLE_DURATIONS

__all__ = ["EventColumns", "decode_events"]


@dataclass
class EventColumns:
    """What one chunk of a file holds.

    Args:
        tables: columns by table name. Event numbers count from 0 in this chunk; lanes are numbers in `lanes`.
        lanes: (pid, tid) by number, as the file has them.
        names: (kind, pid, tid, text) from metadata events.
        issues: what could not be read unchanged.
        old_categories: number of events by a category's name of before 2022; they have today's in `tables`.
    """

    tables: dict[str, TableData] = field(default_factory=dict)
    lanes: list[object] = field(default_factory=list)
    names: list[tuple[str, object, object, str]] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    old_categories: dict[str, int] = field(default_factory=dict)


def decode_events(data: bytes, start: int, first_key: bytes, seen: SeenKeys) -> EventColumns:
    """Decode the events of a chunk.

    Args:
        data: events with commas between them.
        start: offset of the first byte in the file.
        first_key: see `chunks.ArrayFile`.
        seen: the arguments of the preceding chunks.
    """
    with without_collector():
        events, positions, issues = read_events(data, start, first_key)
        chunk = _Chunk(events, phases_of(events), positions, EventColumns(issues=issues), seen)
        _fill(chunk)
        return chunk.result


@dataclass
class _Chunk:
    events: list[Any]
    phase: Interned
    positions: EventPositions
    result: EventColumns
    seen: SeenKeys
    lanes: Interner = field(default_factory=Interner)
    lane: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def report(self, code: FindingCode, indices: list[int]) -> None:
        if indices:
            self.result.issues += [Issue(code, byte) for byte in self.positions.bytes_of(indices)]

    def of(self, indices: list[int]) -> list[Any]:
        """The events with these ascending indices."""
        return self.events if len(indices) == len(self.events) else [self.events[i] for i in indices]

    def number_lanes(self, indices: list[int]) -> None:
        """Number the lanes of these events in the order of the file, independent of its chunks."""
        keys = map(attrgetter("pid", "tid"), self.of(indices))
        numbers = np.fromiter(map(self.lanes.__getitem__, keys), dtype=np.int64, count=len(indices))
        self.lane = np.zeros(len(self.events), dtype=np.int64)
        self.lane[indices] = numbers


def _fill(chunk: _Chunk) -> None:
    timed, flows, others = _by_phase(chunk)
    chunk.number_lanes(sorted([*timed, *flows]))
    others += _fill_flows(chunk, flows)
    others += _fill_events(chunk, timed)
    if others:
        others.sort()
        texts = chunk.positions.texts()
        columns = {
            "phase": Interned(chunk.phase.codes[others], chunk.phase.values),
            "json": interned_column([texts[i] for i in others]),
        }
        chunk.result.tables["other_events"] = TableData(len(others), {**columns})
    chunk.result.lanes = list(chunk.lanes)


def _by_phase(chunk: _Chunk) -> tuple[list[int], list[int], list[int]]:
    """(events with a timestamp, flow endpoints, others); metadata is added to the result."""
    timed: list[int] = []
    flows: list[int] = []
    others: list[int] = []
    for code, phase in enumerate(chunk.phase.values):
        rows = np.flatnonzero(chunk.phase.codes == code).tolist()
        if phase == "X":
            timed += rows
        elif phase in ("i", "I"):
            timed += [i for i in rows if chunk.events[i].cat is not None]
            others += [i for i in rows if chunk.events[i].cat is None]
        elif phase in ("s", "f", "t"):
            flows += rows
        elif phase == "M":
            names = [_names_of(chunk.events[i]) for i in rows]
            chunk.result.names += [name for found in names if found is not None for name in found]
            others += [i for i, found in zip(rows, names, strict=True) if found is None]
        else:
            others += rows
    return sorted(timed), sorted(flows), others


def _names_of(event: Any) -> list[tuple[str, object, object, str]] | None:
    """The name that a metadata event gives; None where its arguments are no object."""
    text = bytes(event.args)
    try:
        args = msgspec.json.decode(text.decode("utf-8", "replace").encode(), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None if text else []
    name = args.get("name", args.get("labels"))
    return [] if name is None else [(event.name, event.pid, event.tid, str(name))]


def _fill_events(chunk: _Chunk, timed: list[int]) -> list[int]:
    """Fill `events` and the tables of arguments; returns the events without a usable time."""
    rows = chunk.of(timed)
    ts: list[float] = list(map(attrgetter("ts"), rows))
    usable = _in_range(ts)
    unread: list[int] = []
    if not usable.all():
        unread = [timed[i] for i in np.flatnonzero(~usable)]
        chunk.report(FindingCode.EVENT_WITHOUT_TIME, unread)
        keep = np.flatnonzero(usable)
        timed, rows, ts = [timed[i] for i in keep], [rows[i] for i in keep], [ts[i] for i in keep]
    category = _todays_categories(chunk, interned_column(map(attrgetter("cat"), rows)))
    chunk.result.tables["events"] = TableData(
        len(rows),
        {
            "name": interned_column(map(attrgetter("name"), rows)),
            "category": category,
            "lane": chunk.lane[timed],
            "ts_ns": _exact(chunk, "ts", ts, timed),
            "dur_ns": _durations(chunk, rows, timed),
        },
    )
    _fill_details(chunk, rows, category)
    return unread


def _todays_categories(chunk: _Chunk, category: Interned) -> Interned:
    """The categories under today's names; counts those that were renamed."""
    for code, name in enumerate(category.values):
        if name in CATEGORY_BY_OLD_NAME:
            chunk.result.old_categories[str(name)] = int((category.codes == code).sum())
    return renamed(category, lambda name: CATEGORY_BY_OLD_NAME.get(str(name), name))


def _in_range(us: list[float], limit_us: float = LIMIT_US) -> NDArray[np.bool_]:
    try:
        values = np.array(us, dtype=np.float64)
    except OverflowError:
        values = np.array([value if abs(value) < limit_us else np.nan for value in us], dtype=np.float64)
    return np.isfinite(values) & (np.abs(values) < limit_us)


def _durations(chunk: _Chunk, rows: list[Any], timed: list[int]) -> NDArray[np.int64]:
    dur: list[float] = list(map(attrgetter("dur"), rows))
    good = _in_range(dur, DURATION_LIMIT_US)
    if good.all() and min(dur, default=0) >= 0:
        return _exact(chunk, "dur", dur, timed)
    complete = {code for code, phase in enumerate(chunk.phase.values) if phase == "X"}
    bad = [i for i, value in enumerate(dur) if not good[i] or value < 0]
    reported = [i for i in bad if chunk.phase.codes[timed[i]] in complete]
    if reported:
        chunk.report(FindingCode.EVENT_DURATION, [timed[i] for i in reported])
        # Not a number stands for a missing duration.
        written = [None if dur[i] != dur[i] else str(dur[i]) for i in reported]
        chunk.result.tables[UNUSABLE_DURATIONS.name] = TableData(
            len(reported),
            {"event_id": np.array(reported, dtype=np.int64), "duration": interned_column(written)},
        )
    for i in bad:
        dur[i] = 0
    return _exact(chunk, "dur", dur, timed)


def _exact(chunk: _Chunk, key: str, us: list[float], indices: list[int]) -> NDArray[np.int64]:
    """Nanoseconds of the member `key` of these events; from the text again where float64 is too coarse."""
    if not needs_decimal(us):
        return to_ns(np.array(us, dtype=np.float64))
    texts = chunk.positions.texts()
    member = msgspec.defstruct("Member", [(key, Decimal)])
    return exact_ns([_decimal(value, texts[i], key, member) for i, value in zip(indices, us, strict=True)])


def _decimal(value: float, text: bytes, key: str, member: type) -> Decimal:
    """A time as written in the text, where that is a number; else as decoded."""
    if type(value) is not float:
        return Decimal(value)
    try:
        exact = getattr(msgspec.json.decode(text, type=member), key)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Decimal(value)
    return exact if isinstance(exact, Decimal) else Decimal(value)


def _fill_flows(chunk: _Chunk, flows: list[int]) -> list[int]:
    """Fill `flows`; returns the endpoints without a usable id or time."""
    if not flows:
        return []
    rows = chunk.of(flows)
    flow_id = int_column([event.id if type(event.id) is int else None for event in rows])
    ts: list[float] = list(map(attrgetter("ts"), rows))
    usable = (flow_id != INT64_NULL) & _in_range(ts)
    unread: list[int] = []
    if not usable.all():
        unread = [flows[i] for i in np.flatnonzero(~usable)]
        chunk.report(FindingCode.FLOW_UNREADABLE, unread)
        keep = np.flatnonzero(usable)
        flows, rows = [flows[i] for i in keep], [rows[i] for i in keep]
        flow_id, ts = flow_id[keep], [ts[i] for i in keep]
    chunk.result.tables["flows"] = TableData(
        len(rows),
        {
            "flow_id": flow_id,
            "category": interned_column(map(attrgetter("cat"), rows)),
            "phase": Interned(chunk.phase.codes[flows], chunk.phase.values),
            "lane": chunk.lane[flows],
            "ts_ns": _exact(chunk, "ts", ts, flows),
        },
    )
    return unread


def _fill_details(chunk: _Chunk, rows: list[Any], category: Interned) -> None:
    """Fill the tables of arguments, each in the order of events, also where several categories share it."""
    result = chunk.result
    extras: Extras = []
    shared: set[str] = set()
    for code, name in [*enumerate(category.values), (-1, "")]:
        events = np.flatnonzero(category.codes == code).astype(np.int64)
        if not len(events):
            continue
        tables, rest = decode_args(str(name), events, [rows[i].args for i in events.tolist()], chunk.seen)
        extras += rest
        for table, data in tables.items():
            if table in result.tables:
                shared.add(table)
            _append(result.tables, table, data)
    for table in shared:
        data = result.tables[table]
        result.tables[table] = taken(data, np.argsort(data.ints("event_id"), kind="stable"))
    if extras:
        result.tables["extra_args"] = extras_table(sorted(extras))


def _append(tables: dict[str, TableData], name: str, data: TableData) -> None:
    """Add rows to a table that may have rows of another category of the same chunk."""
    existing = tables.get(name)
    if existing is None:
        tables[name] = data
        return
    for column in {**existing.columns, **data.columns}:
        first = existing.columns.get(column)
        second = data.columns.get(column)
        if first is None:
            assert second is not None, "the column comes from one of the two"
            first = missing_column(second, existing.rows)
        if second is None:
            second = missing_column(first, data.rows)
        existing.columns[column] = joined(first, second)
    existing.rows += data.rows
