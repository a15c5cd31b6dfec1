"""Columns of many chunks as one polars frame of a declared table."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tracebraid.importers.columns import ColumnData, Interned, TableData
from tracebraid.importers.json_stream.chunks import ArrayFile
from tracebraid.model.column import INT64_NULL, Column, Kind, Table
from tracebraid.model.finding import Finding, Issue, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.rows import at_rows
from tracebraid.model.schema import PROCESS_GROUPS

_FEW_ROWS = 256
"""Maximum rows for which texts are set one by one: a query costs as much (35 µs on a server)."""


def frame_of(table: Table, chunks: list[TableData]) -> pl.DataFrame:
    """Build one frame with the table's schema from the rows of all chunks; missing columns are null."""
    rows = sum(chunk.rows for chunk in chunks)
    if rows == 0:
        return table.empty()
    schema = table.polars_schema()
    return pl.DataFrame([_series(column, schema[column.name], chunks, rows) for column in table.columns])


def _series(column: Column, dtype: pl.DataType, chunks: list[TableData], rows: int) -> pl.Series:
    present = [chunk.columns.get(column.name) for chunk in chunks]
    if all(data is None for data in present):
        missing: pl.Series = pl.Series(column.name, [None], dtype=dtype).new_from_index(0, rows)
        return missing
    if column.kind in (Kind.INT, Kind.FLOAT):
        return _numbers(column, present, chunks)
    return _interned(column, dtype, present, chunks)


def _numbers(column: Column, present: list[ColumnData | None], chunks: list[TableData]) -> pl.Series:
    is_int = column.kind is Kind.INT
    null: Any = np.int64(INT64_NULL) if is_int else np.float64("nan")
    values = _joined(
        [
            np.full(chunk.rows, null) if data is None else data
            for data, chunk in zip(present, chunks, strict=True)
        ]
    )
    numbers = pl.Series(column.name, values)
    if not is_int:
        return numbers.fill_nan(None)
    absent = values == INT64_NULL
    return numbers.set(pl.Series(absent), None) if absent.any() else numbers


def _interned(
    column: Column, dtype: pl.DataType, present: list[ColumnData | None], chunks: list[TableData]
) -> pl.Series:
    number: dict[object, int] = {}
    parts = []
    for data, chunk in zip(present, chunks, strict=True):
        if data is None:
            parts.append(np.full(chunk.rows, -1, dtype=np.int32))
            continue
        assert isinstance(data, Interned), f"{column.name} is an interned column"
        renumber = [number.setdefault(value, len(number)) for value in data.values]
        parts.append(np.array([*renumber, -1], dtype=np.int32)[data.codes])
    texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in number]
    codes = _joined(parts)
    if len(codes) <= _FEW_ROWS:
        of_codes = [*texts, None]
        return pl.Series(column.name, [of_codes[code] for code in codes.tolist()], dtype=dtype)
    return at_rows(pl.Series(column.name, texts, dtype=dtype), codes)


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def groups_of_kineto(header: dict[str, object]) -> pl.DataFrame:
    """The groups that a Kineto trace's header lists."""
    info = header.get("distributedInfo")
    return process_groups(info.get("pg_config") if isinstance(info, dict) else None)


def groups_of_text(text: str) -> pl.DataFrame:
    """The groups of a `process_group:init` node, whose one input is JSON text."""
    try:
        groups = msgspec.json.decode(text)
        return process_groups(msgspec.json.decode(groups) if isinstance(groups, str) else groups)
    except (msgspec.MsgspecError, RecursionError):
        return PROCESS_GROUPS.empty()


def process_groups(groups: object) -> pl.DataFrame:
    """A frame of `PROCESS_GROUPS` from a list of objects; anything else gives no rows."""
    rows = [_row(group) for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
    return pl.DataFrame(rows, schema=PROCESS_GROUPS.polars_schema(), orient="row")


def _row(group: dict[str, Any]) -> tuple[Any, ...]:
    ranks = group.get("ranks")
    size = group.get("pg_size", group.get("group_size"))
    return (
        _text(group.get("pg_name")),
        _text(group.get("pg_desc")),
        _text(group.get("backend_config")),
        _ranks(ranks.encode() if isinstance(ranks, str) else msgspec.json.encode(ranks)),
        size if _is_int64(size) else None,
    )


def _ranks(text: bytes) -> list[int] | None:
    """A list of ranks; null if the text is not such a list or was truncated, as an empty list means all ranks."""
    try:
        ranks = msgspec.json.decode(text, type=list[int])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return ranks if all(_is_int64(rank) for rank in ranks) else None


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _text(value: object) -> str | None:
    return None if value is None else str(value)


_POSITIONS_SHOWN = 3
"""Positions in a finding."""


def findings_of(file: ArrayFile, issues: list[Issue]) -> list[Finding]:
    """Findings of a file, in the order of the first position of each code."""
    path = file.source.path
    found = [
        Finding(issue.code, path, f"byte {issue.byte:,}", 1, issue.loss, issue.details)
        for issue in (*file.source.all_damage, *file.problems)
    ]
    by_code: dict[FindingCode, list[Issue]] = defaultdict(list)
    for issue in issues:
        by_code[issue.code].append(issue)
    for code, group in by_code.items():
        group.sort(key=lambda issue: issue.byte)
        positions = ", ".join(f"{issue.byte:,}" for issue in group[:_POSITIONS_SHOWN])
        more = ", ..." if len(group) > _POSITIONS_SHOWN else ""
        word = "byte" if len(group) == 1 else "bytes"
        where = f"{word} {positions}{more}"
        found.append(Finding(code, path, where, len(group), _loss_of(group), group[0].details))
    return found


def _loss_of(issues: list[Issue]) -> Loss | None:
    losses = [issue.loss for issue in issues if issue.loss is not None]
    return sum(losses[1:], losses[0]) if losses else None
