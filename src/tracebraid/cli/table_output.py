"""A table of rows for machines: CSV, JSON or Parquet, on standard output or into a file."""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl
from msgspec import Struct

from tracebraid.cli.output import json_bytes, say_json
from tracebraid.cli.parameters import Option, with_option_members
from tracebraid.errors import ArgumentError, OutputError
from tracebraid.files import is_file, is_folder, temporary_folder, write_whole, writing
from tracebraid.model.spreadsheet import guarded
from tracebraid.output_streams import is_stream
from tracebraid.reports.machine import rows_json

_BEGIN, _END = b"[\n", b"\n]\n"
"""Opening of a JSON list that has rows."""
_COPIED_BYTES = 1 << 20


class Format(Enum):
    """Output format of rows; the value is its file suffix."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


class Target(Struct, frozen=True):
    """Destination of rows.

    Args:
        form: the format; None: a table for people.
        out: a new file; None for standard output.
    """

    form: Format | None
    out: Path | None

    def refuse_existing(self) -> None:
        """Reject an existing file before any work is done.

        Raises:
            OutputError: the file exists, or its folder does not.
        """
        if self.out is None or is_stream(self.out):
            return
        if is_folder(self.out):
            raise OutputError(str(self.out), "this is a folder", "Name a new file in it")
        if is_file(self.out):
            raise OutputError(str(self.out), "the file exists", "Name another, or delete it first")
        if not is_folder(self.out.parent):
            raise OutputError(str(self.out), "its folder does not exist", "Create it, or name another file")


class TableOptions(Struct, frozen=True):
    """Options for the destination of rows; each member is an option of commands with `with_table_options`."""

    csv: Annotated[bool, Option("--csv", help="Write all rows as CSV.")] = False
    json: Annotated[bool, Option("--json", help="Write all as JSON.")] = False
    parquet: Annotated[bool, Option("--parquet", help="Write all rows as Parquet.")] = False
    out: Annotated[Path | None, Option("-o", "--output", help="Write into this new file.")] = None

    def target(self) -> Target:
        """Determine the destination of rows from the options or the file name.

        Raises:
            ArgumentError: two formats; a file of unknown format; Parquet on a terminal.
        """
        asked = {Format.CSV: self.csv, Format.JSON: self.json, Format.PARQUET: self.parquet}
        forms = [form for form, wanted in asked.items() if wanted]
        if len(forms) > 1:
            raise ArgumentError("give one of --csv, --json and --parquet")
        form = forms[0] if forms else None
        if form is None and self.out is not None:
            form = next((form for form in Format if self.out.name.lower().endswith(f".{form.value}")), None)
            if form is None:
                raise ArgumentError(
                    f"{self.out} must end in .csv, .json or .parquet, or give --csv, --json or --parquet"
                )
        if form is Format.PARQUET and self.out is None and sys.stdout.isatty():
            raise ArgumentError("Parquet cannot be printed on a terminal: name a file with -o")
        return Target(form, self.out)


with_table_options = with_option_members("table_options", TableOptions)
"""Decorate a command: its parameter `table_options: TableOptions` becomes one option for each member."""


def write_table(frame: pl.DataFrame, target: Target) -> None:
    """Write all rows of a table; in CSV, lists become JSON text, and spreadsheet formulas are escaped.

    Raises:
        OutputError: the file exists, or cannot be written.
    """
    write_rows(iter([frame]), target)


def write_rows(slices: Iterator[pl.DataFrame], target: Target) -> None:
    """Write rows as `write_table` does, slice by slice.

    Args:
        slices: the rows; at least one slice, all with the same columns.
        target: the destination.

    Raises:
        OutputError: the file exists, or cannot be written.
    """
    form = target.form or Format.CSV
    chunks = _CHUNKS[form](slices)
    if target.out is not None:
        write_whole(target.out, chunks, overwrite=False)
    elif form is Format.PARQUET:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
    else:
        for chunk in chunks:
            sys.stdout.write(chunk.decode())


def write_json(data: Any, target: Target) -> None:
    """Write results as one JSON document.

    Raises:
        OutputError: the file exists, or cannot be written.
    """
    if target.out is None:
        say_json(data)
    else:
        write_whole(target.out, [json_bytes(data)], overwrite=False)


def _json_chunks(slices: Iterator[pl.DataFrame]) -> Iterator[bytes]:
    """Encode the rows as one JSON list."""
    before = _BEGIN
    for rows in slices:
        text = rows_json(rows)
        if not rows.is_empty():
            yield before + text.removeprefix(_BEGIN).removesuffix(_END)
            before = b",\n"
    yield _END if before != _BEGIN else b"[]\n"


def _csv_chunks(slices: Iterator[pl.DataFrame]) -> Iterator[bytes]:
    for number, rows in enumerate(slices):
        buffer = io.BytesIO()
        _flat(rows).write_csv(buffer, include_header=number == 0)
        yield buffer.getvalue()


def _parquet_chunks(slices: Iterator[pl.DataFrame]) -> Iterator[bytes]:
    """Encode the rows as one Parquet file: slices are written separately, then joined in a stream."""
    first, second = next(slices), next(slices, None)
    if second is None:
        buffer = io.BytesIO()
        first.write_parquet(buffer)
        yield buffer.getvalue()
        return
    with temporary_folder("tracebraid-table-") as folder:
        parts: list[Path] = []
        whole = folder / "whole.parquet"
        with writing(folder), _disk_errors(folder):
            for rows in chain([first, second], slices):
                parts.append(folder / f"{len(parts)}.parquet")
                rows.write_parquet(parts[-1])
            pl.scan_parquet(parts, glob=False, hive_partitioning=False).sink_parquet(whole)
        for part in parts:
            part.unlink()
        with whole.open("rb") as file:
            while chunk := file.read(_COPIED_BYTES):
                yield chunk


@contextmanager
def _disk_errors(folder: Path) -> Iterator[None]:
    """Convert an error of polars in the block to an OSError: its writers can only fail on the disk."""
    try:
        yield
    except pl.exceptions.ComputeError as error:
        full = shutil.disk_usage(folder).free < _COPIED_BYTES
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if full else OSError(str(error)) from None


_CHUNKS = {Format.JSON: _json_chunks, Format.CSV: _csv_chunks, Format.PARQUET: _parquet_chunks}


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Encode lists as JSON text, and escape formulas in texts."""
    texts = [name for name, dtype in frame.schema.items() if dtype in (pl.String, pl.Categorical)]
    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
    return frame.with_columns(pl.col(texts).cast(pl.String)).with_columns(
        *map(guarded, texts),
        *(
            pl.Series(name, map(_json_text, frame.get_column(name).to_list()), dtype=pl.String)
            for name in nested
        ),
    )


def _json_text(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
