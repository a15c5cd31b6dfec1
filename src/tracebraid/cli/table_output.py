"""A table of rows for machines: CSV, JSON or Parquet, on standard output or into a file."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl
import typer

from tracebraid.cli.option_members import with_option_members
from tracebraid.cli.output import json_bytes, say_json
from tracebraid.errors import OutputError
from tracebraid.files import is_file, is_folder, write_whole
from tracebraid.model.spreadsheet import guarded
from tracebraid.output_streams import is_stream
from tracebraid.reports.machine import rows_json

__all__ = ["Format", "TableOptions", "Target", "with_table_options", "write_json", "write_table"]


class Format(Enum):
    """How rows are written; the value is the suffix of such a file."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


@dataclass(frozen=True)
class Target:
    """Where rows go.

    Args:
        form: how they are written; None: as a table for people.
        out: a new file; None for standard output.
    """

    form: Format | None
    out: Path | None

    def refuse_existing(self) -> None:
        """Refuse a file that is there, before work is done for it.

        Raises:
            OutputError: the file is there already, or its folder is not.
        """
        if self.out is None or is_stream(self.out):
            return
        if is_folder(self.out):
            raise OutputError(str(self.out), "this is a folder", "Name a new file in it")
        if is_file(self.out):
            raise OutputError(str(self.out), "this file is there already", "Name another, or delete it first")
        if not is_folder(self.out.parent):
            raise OutputError(str(self.out), "its folder is not there", "Create it, or name another file")


@dataclass(frozen=True)
class TableOptions:
    """Where rows go; each member is an option of the commands that `with_table_options` marks."""

    csv: Annotated[bool, typer.Option("--csv", help="Write all rows as CSV.")] = False
    json: Annotated[bool, typer.Option("--json", help="Write all as JSON.")] = False
    parquet: Annotated[bool, typer.Option("--parquet", help="Write all rows as Parquet.")] = False
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Write into this new file.")] = None

    def target(self) -> Target:
        """Where rows go, by the options, or by the name of the file.

        Raises:
            BadParameter: two formats; a file of no known format; Parquet onto a terminal.
        """
        asked = {Format.CSV: self.csv, Format.JSON: self.json, Format.PARQUET: self.parquet}
        forms = [form for form, wanted in asked.items() if wanted]
        if len(forms) > 1:
            raise typer.BadParameter("give one of --csv, --json and --parquet")
        form = forms[0] if forms else None
        if form is None and self.out is not None:
            form = next((form for form in Format if self.out.name.lower().endswith(f".{form.value}")), None)
            if form is None:
                raise typer.BadParameter(
                    f"{self.out} ends in none of .csv, .json, .parquet: name such a file, "
                    "or give --csv, --json or --parquet"
                )
        if form is Format.PARQUET and self.out is None and sys.stdout.isatty():
            raise typer.BadParameter("Parquet is nothing for a terminal: name a file with -o")
        return Target(form, self.out)


with_table_options = with_option_members("table_options", TableOptions)
"""A command whose parameter `table_options: TableOptions` stands for an option for each member of these."""


def write_table(frame: pl.DataFrame, target: Target) -> None:
    """Write all rows of a table; in CSV lists become JSON text, and no text is a formula of a spreadsheet.

    Raises:
        OutputError: the file is there already, or cannot be written.
    """
    form = target.form or Format.CSV
    data = _bytes_of(frame, form)
    if target.out is not None:
        write_whole(target.out, [data], overwrite=False)
    elif form is Format.PARQUET:
        sys.stdout.buffer.write(data)
    else:
        sys.stdout.write(data.decode())


def write_json(data: Any, target: Target) -> None:
    """Write results as one JSON document.

    Raises:
        OutputError: the file is there already, or cannot be written.
    """
    if target.out is None:
        say_json(data)
    else:
        write_whole(target.out, [json_bytes(data)], overwrite=False)


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
    """The frame with its lists as JSON text, and its texts with a guard against formulas."""
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
