"""Tables as CSV or JSON, a file each, to which the rows of each rank are added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import polars as pl

from tracebraid.exporters.tables.catalog import write_catalog
from tracebraid.exporters.tables.column_files import ARROW, rows_of
from tracebraid.exporters.tables.exported_table import ExportedTable, file_of
from tracebraid.model.spreadsheet import guarded

__all__ = ["CSV", "JSON", "TextFiles", "TextForm", "lists_as_json"]

_LINE_END = "\r\n"
"""RFC 4180, section 2."""
_CSV_NOTES = (
    'The files are CSV as RFC 4180 has it, in UTF-8. An empty cell is null, `""` is empty text; lists are JSON text. '
    "So that a spreadsheet runs no formula out of a name, a text that begins with `=`, `+`, `-`, `@`, tab, CR, LF "
    "or an apostrophe has an apostrophe before it: who needs the exact names takes one away."
)
_JSON_NOTES = (
    "Each file is a JSON list with an object for each row. Numbers that JSON does not have are null."
)


@dataclass(frozen=True)
class TextForm:
    """A format of text.

    Args:
        suffix: of the files.
        head: what a file begins with.
        rows: rows as text; `first` says that none stand in the file yet.
        tail: what it ends with.
        notes: what else is to know.
    """

    suffix: str
    head: Callable[[ExportedTable], bytes]
    rows: Callable[[pl.DataFrame, bool], bytes]
    tail: bytes
    notes: str


def lists_as_json(column: str) -> pl.Expr:
    """A column of lists of integers as JSON text."""
    values = pl.col(column).list.eval(pl.element().cast(pl.String).fill_null("null")).list.join(",")
    return pl.concat_str(pl.lit("["), values, pl.lit("]")).alias(column)


def _csv_head(table: ExportedTable) -> bytes:
    return (",".join(column.name for column in table.columns) + _LINE_END).encode()


def _csv_rows(frame: pl.DataFrame, first: bool) -> bytes:
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    lists = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.List)]
    flat = frame.with_columns(*map(guarded, texts), *map(lists_as_json, lists))
    buffer = BytesIO()
    flat.write_csv(buffer, include_header=False, line_terminator=_LINE_END)
    return buffer.getvalue()


def _json_rows(frame: pl.DataFrame, first: bool) -> bytes:
    buffer = BytesIO()
    frame.write_ndjson(buffer)
    # Line ends within a text are escaped: each of these ends a row.
    rows = buffer.getvalue().rstrip(b"\n").replace(b"\n", b",\n")
    return rows if first else b",\n" + rows


CSV = TextForm("csv", _csv_head, _csv_rows, b"", _CSV_NOTES)
JSON = TextForm("json", lambda table: b"[\n", _json_rows, b"\n]\n", _JSON_NOTES)

_ROWS_AT_ONCE = 65_536
"""So many rows are text in memory at a time."""


class TextFiles:
    """Tables as CSV or JSON in a folder."""

    form = ARROW

    def __init__(self, folder: Path, tables: Sequence[ExportedTable], form: TextForm) -> None:
        self._folder, self._tables, self._form = folder, tables, form
        self._rows: dict[str, int] = {}
        for table in tables:
            file_of(folder, table, form.suffix).write_bytes(form.head(table))

    def add(self, table: ExportedTable, frame: pl.DataFrame) -> None:
        """Append the rows to the table's file."""
        if frame.is_empty():
            return
        with file_of(self._folder, table, self._form.suffix).open("ab") as file:
            for rows in frame.iter_slices(_ROWS_AT_ONCE):
                written = self._rows.get(table.name, 0)
                file.write(self._form.rows(rows, written == 0))
                self._rows[table.name] = written + rows.height

    def add_file(self, table: ExportedTable, path: Path, rows: int) -> None:
        """Append the rows of a file."""
        self.add(table, rows_of(path))

    def finish(self) -> None:
        """End each file, and write the catalog."""
        for table in self._tables:
            with file_of(self._folder, table, self._form.suffix).open("ab") as file:
                file.write(self._form.tail)
        write_catalog(self._folder, self._tables, self._rows, self._form.suffix, self._form.notes)
