"""A table of rows for machines: CSV, JSON or Parquet, on standard output or into a file."""

from __future__ import annotations

import io
import sys
from enum import Enum
from pathlib import Path

import msgspec
import polars as pl
import typer

from tracebraid.files import write_whole
from tracebraid.reports.machine import rows_json

__all__ = ["Format", "write_table"]


class Format(Enum):
    """How rows are written; the value is the suffix of such a file."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def write_table(frame: pl.DataFrame, form: Format, out: Path | None) -> None:
    """Write all rows of a table.

    Args:
        frame: the table; lists become JSON text in CSV.
        form: how to write it.
        out: a new file; None for standard output.

    Raises:
        OutputError: the file is there already, or cannot be written.
    """
    if out is None and form is Format.PARQUET and sys.stdout.isatty():
        raise typer.BadParameter("Parquet is nothing for a terminal: name a file with -o")
    data = _bytes_of(frame, form)
    if out is not None:
        write_whole(out, [data], overwrite=False)
    elif form is Format.PARQUET:
        sys.stdout.buffer.write(data)
    else:
        sys.stdout.write(data.decode())


def _bytes_of(frame: pl.DataFrame, form: Format) -> bytes:
    if form is Format.JSON:
        return rows_json(frame)
    buffer = io.BytesIO()
    if form is Format.PARQUET:
        frame.write_parquet(buffer)
    else:
        _flat(frame).write_csv(buffer)
    return buffer.getvalue()


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with its lists as JSON text."""
    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
    return frame.with_columns(
        pl.Series(name, map(_json_text, frame.get_column(name).to_list()), dtype=pl.String) for name in nested
    )


def _json_text(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
