"""One chunk of a Kineto trace, from bytes to columns."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tracebraid.importers.columns import (
    ColumnData,
    Interned,
    Interner,
    TableData,
    first_of,
    float_column,
    int_column,
    interned_column,
    joined,
    missing,
    missing_column,
    renamed,
    taken,
)
from tracebraid.importers.json_stream.chunks import EVENT_MEMBER, shape_of
from tracebraid.importers.json_stream.recover import (
    Recovered,
    forms_of_numbers,
    paused_collector,
    plain_text,
    recover,
    with_null_numbers,
)
from tracebraid.importers.merged import split_pid
from tracebraid.model.category import CATEGORY_BY_OLD_NAME
from tracebraid.model.column import INT64_NULL, Column, Kind, Table
from tracebraid.model.finding import FindingCase, Issue, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.schema import DETAIL_TABLES_BY_CATEGORY
from tracebraid.model.schema.kineto import UNUSABLE_DURATIONS

_NAN = float("nan")


class Event(msgspec.Struct, gc=False):
    """Any event of the Chrome trace format; times in µs, NaN if the file has none.

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


class EventPositions(Struct):
    """The positions of a chunk's events in the file; computed on request.

    Args:
        start: offset of the chunk's first byte in the file.
        array: the chunk in brackets.
        recovered: the objects, where the chunk did not decode as a whole and was read object by object.
        added: offsets in the chunk behind which it has a byte more than the file: see `with_null_numbers`.
    """

    start: int = 0
    array: bytes = b""
    recovered: list[Recovered] | None = None
    added: list[int] = field(default_factory=list)

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
        offsets = [_address(raws[i]) - base for i in indices]
        return [self.start + offset - bisect_right(self.added, offset) for offset in offsets]


def read_events(data: bytes, start: int, first_key: bytes) -> tuple[list[Any], EventPositions, list[Issue]]:
    """The events of a chunk: `Event` or an object with those of its members that its phase has."""
    array = b"".join((b"[", data, b"]"))
    for decoder in (_USUAL, _ANY):
        try:
            return decoder.decode(array), EventPositions(start, array), []
        except msgspec.ValidationError:
            continue
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            break
    return _read_with_odd_numbers(data, start) or read_each(array[1:-1], start, first_key)


def _read_with_odd_numbers(data: bytes, start: int) -> tuple[list[Any], EventPositions, list[Issue]] | None:
    """The events of a chunk that is JSON but for numbers such as `inf`, which count as missing; None of any other."""
    plain, added = with_null_numbers(data)
    array = b"".join((b"[", plain, b"]"))
    try:
        events = _ANY.decode(array)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    positions = EventPositions(start, array, added=added)
    # The start of each event is looked for only here, so that other chunks stay fast.
    starts = positions.bytes_of(list(range(len(events))))
    found = {bisect_right(starts, start + offset - nth) - 1 for nth, offset in enumerate(added)}
    return events, positions, [Issue(FindingCode.EVENT_MENDED, starts[event]) for event in sorted(found)]


def phases_of(events: list[Any]) -> Interned:
    """The phase (`ph`) of each event."""
    if events and type(events[0]) is not Event:
        kinds = interned_column(map(type, events))
        return Interned(kinds.codes, [kind.__struct_config__.tag for kind in kinds.values])  # type: ignore[attr-defined]
    return interned_column([event.ph for event in events])


def read_each(data: bytes, start: int, first_key: bytes) -> tuple[list[Any], EventPositions, list[Issue]]:
    """Do as `read_events`, one event at a time, so that an unreadable event costs no other."""
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
    for text in forms_of_numbers(item.text):
        try:
            return msgspec.json.decode(text, type=Event)
        except (msgspec.ValidationError, UnicodeDecodeError):
            continue
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


Extras = list[tuple[int, str, bytes]]
"""(event, key, JSON text) of each argument that has no column, or does not fit it."""

INT64 = Annotated[int, msgspec.Meta(ge=INT64_NULL + 1, le=2**63 - 1)]
_AMOUNT_LIMIT = 2**50
"""More bytes or elements (a PB) are treated as damage: no process holds or sends so many, and the sum of thousands of
them fits int64."""
_AMOUNT = Annotated[int, msgspec.Meta(ge=-_AMOUNT_LIMIT, le=_AMOUNT_LIMIT)]
_AMOUNT_NAMES = ("_bytes", "_nelems")
_INTEGERS = (INT64 | None, _AMOUNT | None)
_TYPES: dict[Kind, tuple[Any, Any]] = {
    Kind.INT: (INT64 | None, INT64_NULL),
    Kind.FLOAT: (float | None, float("nan")),
    Kind.BOOL: (bool | None, None),
    Kind.NAME: (str | None, None),
    Kind.TEXT: (str | int | None, None),
    Kind.JSON: (msgspec.Raw, msgspec.Raw()),
    Kind.INT3: (tuple[INT64, INT64, INT64] | None, None),
    Kind.INTS: (str | tuple[INT64, ...] | None, None),
}
"""Decoder and missing value of each kind of column."""


class SeenKeys(dict[str, frozenset[str]]):
    """Arguments of each category's events so far in a file; most chunks have no others.

    A struct of only these keys, which rejects others, decodes faster than one of all keys of the category.
    """


def decode_args(
    category: str, events: NDArray[np.int64], args: list[msgspec.Raw], seen: SeenKeys
) -> tuple[dict[str, TableData], Extras]:
    """Columns of the arguments of the events of one category."""
    tables = DETAIL_TABLES_BY_CATEGORY.get(category, ())
    if tables:
        blob = b"[" + b",".join(args) + b"]"
        keys = seen.get(category) or _keys_of(args[:1])
        rows = _decoded(blob, tables, keys, strict=True)
        if rows is None:
            keys = _keys_of(args) | keys
            rows = _decoded(blob, tables, keys, strict=True)
        if rows is not None and len(rows) == len(args):
            seen[category] = keys
            return _tables(tables, keys, events, rows, [])
    return _decode_args_leniently(tables, events, [text if _is_something(text) else b"{}" for text in args])


def _decode_args_leniently(
    tables: tuple[Table, ...], events: NDArray[np.int64], texts: list[Any]
) -> tuple[dict[str, TableData], Extras]:
    """`decode_args` where some event has no arguments, or arguments without a column or of another type."""
    if not tables:
        return {}, _extras(events, texts, frozenset())
    known = _known_keys(tables)
    rows = _decoded(b"[" + b",".join(texts) + b"]", tables, known, strict=False)
    if rows is not None:
        extras = _extras(events, texts, known)
    else:
        rows, extras = _convert_each(events, texts, _struct(tables, known, False))
    return _tables(tables, known, events, rows, extras)


def _keys_of(args: list[msgspec.Raw]) -> frozenset[str]:
    """All keys of some arguments, as far as they are objects."""
    try:
        rows = msgspec.json.decode(b"[" + b",".join(args) + b"]", type=list[dict[str, msgspec.Raw]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return frozenset()
    return frozenset().union(*rows)


def _decoded(blob: bytes, tables: tuple[Table, ...], keys: frozenset[str], strict: bool) -> list[Any] | None:
    """The rows as structs of these keys; None if some row does not fit, or (`strict`) has another key."""
    kind = _struct(tables, keys & _known_keys(tables), strict)
    try:
        rows: list[Any] = msgspec.json.decode(blob, type=list[kind])  # type: ignore[valid-type]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return rows


def _tables(
    tables: tuple[Table, ...],
    keys: frozenset[str],
    events: NDArray[np.int64],
    rows: list[Any],
    extras: Extras,
) -> tuple[dict[str, TableData], Extras]:
    """The columns of rows that were decoded as structs of these keys."""
    found = {table.name: _table(table, keys, events, rows, extras) for table in tables}
    for table in tables[1:]:
        drop_empty_rows(found, table.name)
    return found, extras


def _is_something(text: msgspec.Raw) -> bool:
    return memoryview(text).nbytes > 4 or bytes(text) not in (b"", b"null")


def _table(
    table: Table, keys: frozenset[str], events: NDArray[np.int64], rows: list[Any], extras: Extras
) -> TableData:
    """The columns of these keys; the others are left out."""
    columns: dict[str, ColumnData] = {"event_id": events}
    for column, fields in _fields(table):
        for name, key in fields:
            if key not in keys:
                continue
            values = list(map(attrgetter(name), rows))
            if column.kind is Kind.INTS:
                values = _lists(events, key, values, extras)
            data = _column(column, values)
            columns[column.name] = first_of(columns[column.name], data) if column.name in columns else data
    return TableData(len(rows), columns)


def _column(column: Column, values: list[Any]) -> ColumnData:
    if column.kind is Kind.INT:
        return int_column(values)
    if column.kind is Kind.FLOAT:
        return float_column(values)
    if column.kind is Kind.JSON:
        return renamed(interned_column(map(bytes, values), missing=(b"", b"null")), as_in_file)
    if column.kind is Kind.TEXT:
        return interned_column(None if value is None else str(value) for value in values)
    return interned_column(values)


def as_in_file(text: Any) -> bytes:
    """JSON text as Kineto writes it."""
    return plain_text(bytes(text), indent=0)


def _lists(events: NDArray[np.int64], key: str, values: list[Any], extras: Extras) -> list[Any]:
    """Lists written as strings (`"[0, 1]"`), each distinct string parsed once; other strings go to extras."""
    parsed: dict[str, tuple[int, ...] | None] = {}
    for text in {value for value in values if isinstance(value, str)}:
        try:
            parsed[text] = msgspec.json.decode(text, type=tuple[INT64, ...])
        except msgspec.MsgspecError:
            parsed[text] = None
    for row, value in enumerate(values):
        if isinstance(value, str) and parsed[value] is None:
            extras.append((int(events[row]), key, msgspec.json.encode(value)))
    return [parsed[value] if isinstance(value, str) else value for value in values]


def drop_empty_rows(found: dict[str, TableData], name: str) -> None:
    """Keep the rows with a value in a table of some events of a category; no table if there are none."""
    data = found.pop(name)
    filled = np.zeros(data.rows, dtype=np.bool_)
    for column, values in data.columns.items():
        if column != "event_id":
            filled |= ~missing(values)
    if filled.any():
        found[name] = taken(data, np.flatnonzero(filled))


@cache
def _fields(table: Table) -> tuple[tuple[Column, tuple[tuple[str, str], ...]], ...]:
    """Each column with its (field of the struct, key in the file), one for each key."""
    return tuple(
        (column, tuple((f"{table.name}_{column.name}_{i}", key) for i, key in enumerate(column.keys)))
        for column in table.columns
        if column.keys
    )


@cache
def _known_keys(tables: tuple[Table, ...]) -> frozenset[str]:
    return frozenset(key for table in tables for column in table.columns for key in column.keys)


@cache
def _struct(tables: tuple[Table, ...], keys: frozenset[str], strict: bool) -> type:
    """A struct of these of a category's arguments, which refuses others (`strict`) or ignores them."""
    members = [
        (column, field, key)
        for table in tables
        for column, fields in _fields(table)
        for field, key in fields
        if key in keys
    ]
    return msgspec.defstruct(
        "Args",
        [(field, *type_of(column)) for column, field, _ in members],
        rename={field: key for _, field, key in members},
        gc=False,
        forbid_unknown_fields=strict,
    )


def type_of(column: Column) -> tuple[Any, Any]:
    """Return the decoder of a column, and its missing value."""
    kind, absent = _TYPES[column.kind]
    return (_AMOUNT | None if is_amount(column) else kind), absent


def is_amount(column: Column) -> bool:
    """Return whether a column holds numbers of bytes or elements."""
    return column.kind is Kind.INT and column.name.endswith(_AMOUNT_NAMES)


def _extras(events: NDArray[np.int64], texts: list[Any], known: frozenset[str]) -> Extras:
    blob = b"[" + b",".join(texts) + b"]"
    try:
        rows = msgspec.json.decode(blob, type=list[dict[str, msgspec.Raw]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        rows = [_members(bytes(text)) for text in texts]
    return [
        (int(event), key, bytes(value))
        for event, row in zip(events, rows, strict=True)
        for key, value in row.items()
        if key not in known
    ]


def _convert_each(events: NDArray[np.int64], texts: list[Any], struct: type) -> tuple[list[Any], Extras]:
    """Handle rows with a value of unexpected type: convert it if possible, else leave it to extras."""
    rows: list[Any] = []
    extras: Extras = []
    types = {f.encode_name: f.type for f in msgspec.structs.fields(struct)}
    for event, text in zip(events, texts, strict=True):
        fitting: dict[str, Any] = {}
        for key, raw in _members(bytes(text)).items():
            try:
                if bytes(raw) != b"null" or key not in types:
                    fitting[key] = fit(raw, types[key])
            except (KeyError, msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
                extras.append((int(event), key, bytes(raw)))
        rows.append(msgspec.convert(fitting, struct))
    return rows, extras


def _members(text: bytes) -> dict[str, msgspec.Raw]:
    """The members of an object, each as JSON text; something else as the one member `args`."""
    for candidate in (text, text.decode("utf-8", "replace").encode()):
        try:
            return msgspec.json.decode(candidate, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        text = msgspec.json.encode(text.decode("utf-8", "replace"))
    return {"args": msgspec.Raw(text)}


def fit(raw: msgspec.Raw, kind: Any) -> Any:
    """Convert a value to the type of a column; raise ValueError or MsgspecError if impossible."""
    if kind is msgspec.Raw:
        return raw
    value = msgspec.json.decode(raw)
    if isinstance(value, str) and kind in _INTEGERS:
        value = int(value, 0)
    if isinstance(value, str) and kind == _TYPES[Kind.INT3][0]:
        value = msgspec.json.decode(value)
    return msgspec.convert(value, kind, strict=False)


def extras_table(extras: Extras) -> TableData:
    """The extras as columns of the table `extra_args`."""
    columns: dict[str, ColumnData] = {
        "event_id": np.array([event for event, _, _ in extras], dtype=np.int64),
        "key": interned_column([key for _, key, _ in extras]),
        "value": interned_column([value for _, _, value in extras]),
    }
    return TableData(len(extras), columns)


EXACT_BELOW_US = 2.0**43
"""Below it, float64 holds microseconds with three decimals closely enough to round to the right nanosecond:
its steps are at most 2**-10 µs, so that it is off by less than half a nanosecond."""

LIMIT_US = 4e15
"""Times beyond it (the year 2096, on the unix clock) are treated as damage: their nanoseconds stay below
`BASE_LIMIT_NS`."""

BASE_LIMIT_NS = 2**62
"""All starts and ends of events lie before it (the year 2116, on the unix clock), so that the difference of any two
fits int64, and questions may use it as a moment that never comes. Base times from it on are treated as damage."""

DURATION_LIMIT_US = 1e13
"""Longer durations (115 days) are treated as damage: the sum of 900 of them fits int64."""


def to_ns(us: NDArray[np.float64]) -> NDArray[np.int64]:
    """Microseconds to nanoseconds, rounded to the nearest.

    Integer part and fraction are scaled separately: `us * 1000` would round the product of a large float.
    Exact for three decimals below `EXACT_BELOW_US`, and for whole microseconds below 2**53.
    """
    whole = np.floor(us)
    fraction = np.rint((us - whole) * 1000.0)
    return whole.astype(np.int64) * 1000 + fraction.astype(np.int64)


def after_base(
    ts_ns: NDArray[np.int64], dur_ns: NDArray[np.int64] | int, base_ns: int
) -> tuple[NDArray[np.int64], int]:
    """Convert times relative to a base to moments; count those beyond `BASE_LIMIT_NS`, which are unchanged."""
    too_late = ts_ns + dur_ns >= BASE_LIMIT_NS - base_ns
    return ts_ns + np.where(too_late, 0, base_ns), int(too_late.sum())


def needs_decimal(us: Sequence[float]) -> bool:
    """Return whether some time has a fraction and is too large for float64 to keep its nanoseconds.

    It is parsed as decimal.
    """
    if float not in set(map(type, us)):
        return False
    large = np.flatnonzero(np.abs(np.asarray(us, dtype=np.float64)) >= EXACT_BELOW_US)
    return any(type(us[i]) is float for i in large.tolist())


def exact_ns(us: list[Decimal]) -> NDArray[np.int64]:
    """Microseconds read as decimal text to nanoseconds, rounded half to even."""
    return np.array([int((value * 1000).to_integral_value()) for value in us], dtype=np.int64)


class EventColumns(Struct):
    """Content of one chunk of a file.

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


def decode_events(data: bytes, start: int, first_key: bytes, seen: SeenKeys, label: str = "") -> EventColumns:
    """Decode the events of a chunk, or those of the rank with a label in a file of several ranks."""
    if label and label.encode() not in data:
        data = b""
    with paused_collector():
        try:
            return _columns_of(*read_events(data, start, first_key), seen, label)
        except RecursionError:
            # An event was nested so deeply that it could be read once, but not again from a deeper call.
            return _columns_of(*read_each(data, start, first_key), seen, label)


def _columns_of(
    events: list[Any], positions: EventPositions, issues: list[Issue], seen: SeenKeys, label: str
) -> EventColumns:
    phases = phases_of(events)
    if label:
        phases.codes[_of_others(events, label)] = -1
    chunk = _Chunk(events, phases, positions, EventColumns(issues=issues), seen)
    _fill(chunk)
    return chunk.result


def _of_others(events: list[Any], label: str) -> list[int]:
    """The events whose pid has another label or none; the others lose theirs."""
    pids: dict[object, tuple[str, str]] = {}
    others = []
    for i, event in enumerate(events):
        if (split := pids.get(event.pid)) is None:
            split = pids[event.pid] = split_pid(event.pid)
        if split[0] == label:
            event.pid = split[1]
        else:
            others.append(i)
    return others


class _Chunk(Struct):
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
            names = [names_of(chunk.events[i]) for i in rows]
            chunk.result.names += [name for found in names if found is not None for name in found]
            others += [i for i, found in zip(rows, names, strict=True) if found is None]
        else:
            others += rows
    return sorted(timed), sorted(flows), others


def names_of(event: Any) -> list[tuple[str, object, object, str]] | None:
    """The name that a metadata event gives; None if its arguments are no object."""
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
    """Return nanoseconds of the member `key` of events; parsed from the text if float64 is too coarse."""
    if not needs_decimal(us):
        return to_ns(np.array(us, dtype=np.float64))
    texts = chunk.positions.texts()
    member = msgspec.defstruct("Member", [(key, Decimal)])
    return exact_ns([_decimal(value, texts[i], key, member) for i, value in zip(indices, us, strict=True)])


def _decimal(value: float, text: bytes, key: str, member: type) -> Decimal:
    """Return a time as written in the text if it is a number; else as decoded."""
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
