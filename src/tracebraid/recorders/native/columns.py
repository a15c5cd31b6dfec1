"""Convert the output of `columns.cpp` to an archive of Arrow files, in a process of its own."""

from __future__ import annotations

import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from tracebraid.model.column import INT64_NULL, Kind, Table
from tracebraid.model.op_schema import HEADER, RECORDED_TABLES, member_of

_NAMES = {
    f"{table.name}.{column.name}"
    for table in RECORDED_TABLES
    for column in table.columns
    if column.kind is Kind.NAME
}
"""The columns of plain text, which the recording stores as JSON strings."""
_ALWAYS = (1980, 1, 1, 0, 0, 0)
"""The fixed time of all members of the archive, so that the same recording gives the same bytes."""


def write_arrow(recorded: Path, target: Path) -> None:
    """Write the columns of a recording as a `.arrow.zip`, see `model.et_arrow`."""
    data = recorded.read_bytes()
    header, at = _sized(data, 0)
    batches: defaultdict[str, list[pl.Series]] = defaultdict(list)
    for name, series in _columns(data, at):
        batches[name].append(series)
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, _ALWAYS), header)
        for table in RECORDED_TABLES:
            member = io.BytesIO()
            _frame(table, batches).write_ipc(member, compression="zstd")
            archive.writestr(zipfile.ZipInfo(member_of(table), _ALWAYS), member.getbuffer())


def _frame(table: Table, batches: dict[str, list[pl.Series]]) -> pl.DataFrame:
    columns = []
    for column in table.columns:
        series = pl.concat(batches.pop(f"{table.name}.{column.name}"))
        if column.kind is Kind.INT:
            null = pl.when(pl.col(column.name) != INT64_NULL).then(column.name)
            columns.append(series.to_frame(column.name).select(null).to_series())
        else:
            columns.append(series.alias(column.name))
    return table.conform(pl.DataFrame(columns))


def _columns(data: bytes, at: int) -> Iterator[tuple[str, pl.Series]]:
    """The columns from an offset on: table and column, and the rows of a batch."""
    while at < len(data):
        name, at = _sized(data, at)
        rows, is_text = _number(data, at), data[at + 8]
        at += 9
        if not is_text:
            yield name.decode(), pl.Series(np.frombuffer(data, np.int64, rows, at))
            at += 8 * rows
            continue
        codes = pl.Series(np.frombuffer(data, np.int32, rows, at))
        at += 4 * rows
        count = _number(data, at)
        ends = np.cumsum(np.frombuffer(data, np.uint64, count, at + 8), dtype=np.int64)
        at += 8 + 8 * count
        begins = [at, *(at + ends[:-1]).tolist()]
        texts = [data[begin : at + end].decode() for begin, end in zip(begins, ends.tolist(), strict=False)]
        at += int(ends[-1]) if count else 0
        if name.decode() in _NAMES:
            texts = [msgspec.json.decode(text, type=str) for text in texts]
        yield name.decode(), pl.Series(texts, dtype=pl.Categorical).gather(codes)


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 8 + _number(data, at)
    return data[at + 8 : end], end


def main(recorded: str, target: str) -> None:
    """Convert the file; on failure, Python prints the error and the exit code is 1."""
    write_arrow(Path(recorded), Path(target))
