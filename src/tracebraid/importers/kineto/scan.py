"""Columns of a Kineto trace from the native scanner: `native/kineto_scan.cpp`, whose twin and oracle is `decode`.

It gives back whole chunks, not events: what `decode` does with an event may depend on the others of its chunk.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.importers.columns import (
    ColumnData,
    Interned,
    Interner,
    TableData,
    first_of,
    interned_column,
    numbered,
    numbers_of,
)
from tracebraid.importers.kineto.decode import (
    INT64,
    Event,
    EventColumns,
    Extras,
    as_in_file,
    drop_empty_rows,
    fit,
    is_amount,
    names_of,
    type_of,
)
from tracebraid.importers.native_scan import NativeScan
from tracebraid.model.category import CATEGORY_BY_OLD_NAME
from tracebraid.model.column import INT64_NULL, Column, Kind, Table
from tracebraid.model.schema import DETAIL_TABLES_BY_CATEGORY

_AMOUNT = 1
_KINDS = {
    Kind.INT: 0,
    Kind.FLOAT: 2,
    Kind.NAME: 3,
    Kind.TEXT: 4,
    Kind.JSON: 5,
    Kind.BOOL: 6,
    Kind.INT3: 7,
    Kind.INTS: 8,
}
"""The scanner's numbers for kinds of columns."""
_MISFIT = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


class _What(IntEnum):
    """Arrays of a scan, in the order of `What` in `kineto_scan.cpp`."""

    NAMES = 0
    CATEGORIES = 1
    LANES = 2
    TS = 3
    DUR = 4
    FLOW_IDS = 5
    FLOW_TS = 6
    FLOW_CATEGORIES = 7
    FLOW_LANES = 8
    FLOW_PHASES = 9
    EXTRA_EVENTS = 10
    EXTRA_KEYS = 11
    EXTRA_VALUES = 12
    MISFIT_COLUMNS = 13
    MISFIT_ROWS = 14
    MISFIT_TEXTS = 15
    OTHERS = 16
    NAME_TEXTS = 17
    CATEGORY_TEXTS = 18
    LANE_TEXTS = 19
    KEY_TEXTS = 20
    VALUE_TEXTS = 21
    MISFIT_VALUE_TEXTS = 22
    TABLE_EVENTS = 23
    COLUMN_INTEGERS = 24
    COLUMN_FLOATS = 25
    COLUMN_CODES = 26
    COLUMN_TEXTS = 27


class _Slot(Struct, frozen=True):
    """A column of the scanner: the values of one argument that a column of a table may come from."""

    table: Table
    column: Column
    key: str


class KinetoScan(NativeScan):
    """A run of chunks with events that the scanner reads into one set of columns.

    Args:
        library: as `native.library` loads it.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._tables, self._slots, text = _declared()
        super().__init__(library, library.tracebraid_scan_events(text))

    def columns(self) -> EventColumns:
        """The columns of the chunks that were read; once only."""
        result = EventColumns()
        lanes = Interner()
        lane_of = numbers_of(self.texts(_What.LANE_TEXTS, tuple[int | str | None, int | str | None]), lanes)
        result.lanes = list(lanes)
        categories = self.texts(_What.CATEGORY_TEXTS, str)
        self._fill_events(result, categories, lane_of)
        self._fill_flows(result, categories, lane_of)
        self._fill_others(result)
        extras = self._fill_arguments(result)
        self._fill_extras(result, extras)
        return result

    def _fill_events(
        self, result: EventColumns, categories: Sequence[str], lane_of: NDArray[np.int64]
    ) -> None:
        codes = self.take(_What.CATEGORIES, np.int32)
        counts = np.bincount(codes[codes >= 0], minlength=len(categories)).tolist()
        result.old_categories = {
            name: count
            for name, count in zip(categories, counts, strict=True)
            if count and name in CATEGORY_BY_OLD_NAME
        }
        todays = [
            CATEGORY_BY_OLD_NAME.get(name, name) if count else None
            for name, count in zip(categories, counts, strict=True)
        ]
        result.tables["events"] = TableData(
            len(codes),
            {
                "name": numbered(self.take(_What.NAMES, np.int32), self.texts(_What.NAME_TEXTS, str)),
                "category": numbered(codes, todays),
                "lane": lane_of[self.take(_What.LANES, np.int32)],
                "ts_ns": self.take(_What.TS, np.int64),
                "dur_ns": self.take(_What.DUR, np.int64),
            },
        )

    def _fill_flows(
        self, result: EventColumns, categories: Sequence[str], lane_of: NDArray[np.int64]
    ) -> None:
        flow_id = self.take(_What.FLOW_IDS, np.int64)
        if not len(flow_id):
            return
        phases, codes = np.unique(self.take(_What.FLOW_PHASES, np.int32), return_inverse=True)
        result.tables["flows"] = TableData(
            len(flow_id),
            {
                "flow_id": flow_id,
                "category": numbered(self.take(_What.FLOW_CATEGORIES, np.int32), categories),
                "phase": Interned(codes.astype(np.int32), [chr(phase) for phase in phases.tolist()]),
                "lane": lane_of[self.take(_What.FLOW_LANES, np.int32)],
                "ts_ns": self.take(_What.FLOW_TS, np.int64),
            },
        )

    def _fill_others(self, result: EventColumns) -> None:
        """Take names from metadata; events that fit no table stay text."""
        array = self.array_text(_What.OTHERS)
        events = msgspec.json.decode(array, type=list[Event])
        kept = []
        for event, text in zip(events, msgspec.json.decode(array, type=list[msgspec.Raw]), strict=True):
            names = names_of(event) if event.ph == "M" else None
            if names is None:
                kept.append((event.ph, bytes(text)))
            else:
                result.names += names
        if kept:
            columns: dict[str, ColumnData] = {
                "phase": interned_column([phase for phase, _ in kept]),
                "json": interned_column([text for _, text in kept]),
            }
            result.tables["other_events"] = TableData(len(kept), columns)

    def _fill_arguments(self, result: EventColumns) -> Extras:
        """Fill the tables of arguments; returns the values that fit no column."""
        extras: Extras = []
        misfits = self._misfits()
        for number, table in enumerate(self._tables):
            events = self.take(_What.TABLE_EVENTS, np.int64, number)
            if not len(events):
                continue
            columns: dict[str, ColumnData] = {"event_id": events}
            for index, slot in enumerate(self._slots):
                if slot.table is not table:
                    continue
                data = self._column(index, slot, events, misfits.get(index, {}), extras)
                if data is not None:
                    name = slot.column.name
                    columns[name] = first_of(columns[name], data) if name in columns else data
            result.tables[table.name] = TableData(len(events), columns)
        for tables in set(DETAIL_TABLES_BY_CATEGORY.values()):
            for table in tables[1:]:
                if table.name in result.tables:
                    drop_empty_rows(result.tables, table.name)
        return extras

    def _misfits(self) -> dict[int, dict[int, bytes]]:
        """By column and row the text of each value that the scanner left to `fit`."""
        texts = [bytes(text) for text in self.texts(_What.MISFIT_VALUE_TEXTS, msgspec.Raw)]
        misfits: dict[int, dict[int, bytes]] = {}
        columns, rows, codes = (
            self.take(what, np.int32).tolist()
            for what in (_What.MISFIT_COLUMNS, _What.MISFIT_ROWS, _What.MISFIT_TEXTS)
        )
        for column, row, code in zip(columns, rows, codes, strict=True):
            misfits.setdefault(column, {})[row] = texts[code]
        return misfits

    def _column(
        self, index: int, slot: _Slot, events: NDArray[np.int64], misfits: dict[int, bytes], extras: Extras
    ) -> ColumnData | None:
        """The values of an argument by the rows of its table; None if there are none."""
        if slot.column.kind not in (Kind.INT, Kind.FLOAT):
            codes = self.take(_What.COLUMN_CODES, np.int32, index)
            return self._of_texts(index, slot, codes, events, extras) if len(codes) else None
        is_int = slot.column.kind is Kind.INT
        what = _What.COLUMN_INTEGERS if is_int else _What.COLUMN_FLOATS
        null = INT64_NULL if is_int else np.nan
        values: NDArray[Any] = self.take(what, np.int64 if is_int else np.float64, index)
        if misfits and not len(values):
            values = np.full(len(events), null, dtype=np.int64 if is_int else np.float64)
        kind = type_of(slot.column)[0]
        for row, text in misfits.items():
            try:
                value = fit(msgspec.Raw(text), kind)
            except _MISFIT:
                extras.append((int(events[row]), slot.key, text))
            else:
                values[row] = null if value is None else value
        return values if len(values) else None

    def _of_texts(
        self, index: int, slot: _Slot, codes: NDArray[np.int32], events: NDArray[np.int64], extras: Extras
    ) -> ColumnData:
        kind = slot.column.kind
        values = self.texts(_What.COLUMN_TEXTS, type_of(slot.column)[0], index)
        if kind is Kind.JSON:
            return numbered(codes, [as_in_file(text) for text in values])
        if kind is Kind.TEXT:
            return numbered(codes, [str(value) for value in values])
        if kind is Kind.INTS:
            lists = [_list_of(value) for value in values]
            for code, value in enumerate(values):
                if lists[code] is None:
                    text = msgspec.json.encode(value)
                    extras += [(event, slot.key, text) for event in events[codes == code].tolist()]
            return numbered(codes, lists)
        return numbered(codes, values)

    def _fill_extras(self, result: EventColumns, extras: Extras) -> None:
        """Fill `extra_args`, in the order of events and keys."""
        events = self.take(_What.EXTRA_EVENTS, np.int32).astype(np.int64)
        keys, values = self.take(_What.EXTRA_KEYS, np.int32), self.take(_What.EXTRA_VALUES, np.int32)
        key_texts: list[str] = self.texts(_What.KEY_TEXTS, str)
        value_texts = [bytes(text) for text in self.texts(_What.VALUE_TEXTS, msgspec.Raw)]
        if extras:
            key_numbers, value_numbers = Interner(), Interner()
            numbers_of(key_texts, key_numbers), numbers_of(value_texts, value_numbers)
            events = np.concatenate([events, np.array([event for event, _, _ in extras], dtype=np.int64)])
            keys = np.concatenate([keys, [key_numbers[key] for _, key, _ in extras]]).astype(np.int32)
            values = np.concatenate([values, [value_numbers[text] for _, _, text in extras]]).astype(np.int32)
            key_texts, value_texts = list(key_numbers), list(value_numbers)  # type: ignore[arg-type]
        if not len(events):
            return
        rank = np.empty(len(key_texts), dtype=np.int64)
        rank[sorted(range(len(key_texts)), key=key_texts.__getitem__)] = np.arange(len(key_texts))
        order = np.argsort(events * len(key_texts) + rank[keys], kind="stable")
        columns: dict[str, ColumnData] = {
            "event_id": events[order],
            "key": Interned(keys[order], list(key_texts)),
            "value": Interned(values[order], list(value_texts)),
        }
        result.tables["extra_args"] = TableData(len(events), columns)


def declaration() -> bytes:
    """The tables of arguments, as the scanner is told."""
    return _declared()[2]


def _list_of(value: object) -> object:
    """A list of integers, which may be written as a string; None if it is another string."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value, type=tuple[INT64, ...])
    except msgspec.MsgspecError:
        return None


@cache
def _declared() -> tuple[tuple[Table, ...], tuple[_Slot, ...], bytes]:
    """The tables of arguments, the scanner's columns, and both as text for the scanner."""
    categories = {
        **DETAIL_TABLES_BY_CATEGORY,
        **{
            old: DETAIL_TABLES_BY_CATEGORY[name]
            for old, name in CATEGORY_BY_OLD_NAME.items()
            if name in DETAIL_TABLES_BY_CATEGORY
        },
    }
    tables = tuple(dict.fromkeys(table for of_category in categories.values() for table in of_category))
    slots = tuple(
        _Slot(table, column, key) for table in tables for column in table.columns for key in column.keys
    )
    lines = [
        f"column\t{tables.index(slot.table)}\t"
        f"{_AMOUNT if is_amount(slot.column) else _KINDS[slot.column.kind]}"
        for slot in slots
    ]
    for name, of_category in categories.items():
        numbers = [*map(tables.index, of_category), -1]
        lines.append(f'category\t"{name}"\t{numbers[0]}\t{numbers[1]}')
        lines += [
            f'argument\t"{slot.key}"\t{index}'
            for index, slot in enumerate(slots)
            if slot.table in of_category
        ]
    return tables, slots, "".join(f"{line}\n" for line in lines).encode()
