"""What an exported table is, and its rows in types that every format has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import polars as pl

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.column_units import unit_of

__all__ = [
    "RANK",
    "ExportedTable",
    "PartForm",
    "TableSink",
    "columns_data",
    "exported",
    "file_of",
    "plain",
    "with_rank",
]

RANK = Column("rank", Kind.INT, "the rank")

_DTYPES: dict[Kind, pl.DataType] = {
    Kind.INT: pl.Int64(),
    Kind.FLOAT: pl.Float64(),
    Kind.BOOL: pl.Boolean(),
    Kind.NAME: pl.String(),
    Kind.JSON: pl.String(),
    Kind.TEXT: pl.String(),
    Kind.INT3: pl.List(pl.Int64()),
    Kind.INTS: pl.List(pl.Int64()),
}
"""Categories and arrays of fixed length are not read alike by all programs: they are text and lists."""
_TYPES = {
    Kind.INT: "int64",
    Kind.FLOAT: "float64",
    Kind.BOOL: "boolean",
    Kind.NAME: "text",
    Kind.JSON: "JSON text",
    Kind.TEXT: "text",
    Kind.INT3: "list of int64",
    Kind.INTS: "list of int64",
}


@dataclass(frozen=True, eq=False)
class ExportedTable:
    """A table of an export.

    Args:
        name: unique in the export, `[a-z0-9_]+`: its file, or its table in a database.
        doc: what a row is.
        columns: in order.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]

    @property
    def polars_schema(self) -> dict[str, pl.DataType]:
        """Its columns' dtypes in files."""
        return {column.name: _DTYPES[column.kind] for column in self.columns}


class PartForm(Protocol):
    """A format of files of rows."""

    @property
    def write(self) -> Callable[[ExportedTable, pl.DataFrame, Path], None]:
        """Writes rows of a table to a file."""


class TableSink(Protocol):
    """Where rows of tables go, frame by frame; each format has its own."""

    def add(self, table: ExportedTable, frame: pl.DataFrame) -> None:
        """Add rows to a table; they are `plain`."""

    @property
    def form(self) -> PartForm:
        """How rows are written to files of their own, to be added to the tables later."""

    def add_file(self, table: ExportedTable, path: Path, rows: int) -> None:
        """Add the rows of such a file, which the tables may keep; there is at least one, and they are `plain`."""

    def finish(self) -> None:
        """Complete all tables: those to which nothing was added have no rows."""


def exported(group: str, table: Table, *, ranked: bool = False) -> ExportedTable:
    """A table of the model as it is exported.

    Args:
        group: what its name begins with: tables of several groups have the same name.
        table: its schema.
        ranked: `rank` is put first, if it has no such column.
    """
    has_rank = any(column.name == RANK.name for column in table.columns)
    columns = (RANK, *table.columns) if ranked and not has_rank else table.columns
    return ExportedTable(f"{group}_{table.name}", table.doc, columns)


def with_rank(frame: pl.DataFrame, rank: int) -> pl.DataFrame:
    """A frame with the column `rank`."""
    return frame.with_columns(pl.lit(rank, dtype=pl.Int64).alias(RANK.name))


def plain(table: ExportedTable, frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of a table, with the dtypes that they have in files; rows stay as they are."""
    return frame.select(pl.col(name).cast(dtype) for name, dtype in table.polars_schema.items())


def columns_data(columns: Sequence[Column]) -> list[dict[str, str]]:
    """Of each column its name, type, unit and meaning, as JSON values."""
    return [
        {
            "name": column.name,
            "type": _TYPES[column.kind],
            "unit": unit_of(column.name),
            "doc": column.doc,
        }
        for column in columns
    ]


def file_of(folder: Path, table: ExportedTable, suffix: str) -> Path:
    """The file of a table in a folder of tables."""
    return folder / f"{table.name}.{suffix}"
