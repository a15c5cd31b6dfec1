"""Tables as Parquet or Arrow, a file each: a part for each rank, joined at the end without reading them whole."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import polars as pl

from tracebraid.exporters.tables.catalog import write_catalog
from tracebraid.exporters.tables.exported_table import ExportedTable, columns_data, file_of
from tracebraid.files import writing

__all__ = ["ARROW", "PARQUET", "ColumnFiles", "ColumnForm", "rows_of"]

_METADATA_KEY = "tracebraid"
"""Of Parquet's metadata: holds a table's name, meaning, and columns as JSON."""
_NEARLY_FULL_BYTES = 1 << 20
"""A disk with less is full for a table: the writer of Parquet does not always say why it failed."""
_PARQUET_NOTES = (
    f"Each file's metadata has the key `{_METADATA_KEY}`: the table's entry of `schema.json`, as JSON text."
)


@dataclass(frozen=True)
class ColumnForm:
    """A format of columns.

    Args:
        suffix: of the files.
        write: writes rows of a table to a file.
        read: rows of files, without reading them yet.
        join: writes rows that are not read yet to a file.
        notes: what else is to know.
    """

    suffix: str
    write: Callable[[ExportedTable, pl.DataFrame, Path], None]
    read: Callable[[list[Path]], pl.LazyFrame]
    join: Callable[[ExportedTable, pl.LazyFrame, Path], None]
    notes: str = ""


@contextmanager
def _errors_named(path: Path) -> Iterator[None]:
    """Name the file where it cannot be written: Polars raises an error of its own where a disk is full.

    Raises:
        OutputError: instead of that.
    """
    with writing(path):
        try:
            yield
        except pl.exceptions.ComputeError as error:
            full = shutil.disk_usage(path.parent).free < _NEARLY_FULL_BYTES
            raise (
                OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if full else OSError(str(error))
            ) from None


def _write_parquet(table: ExportedTable, frame: pl.DataFrame, path: Path) -> None:
    with _errors_named(path):
        frame.write_parquet(path, metadata=_metadata(table))


def _join_parquet(table: ExportedTable, rows: pl.LazyFrame, path: Path) -> None:
    with _errors_named(path):
        rows.sink_parquet(path, metadata=_metadata(table))


def _metadata(table: ExportedTable) -> dict[str, str]:
    data = {"name": table.name, "doc": table.doc, "columns": columns_data(table.columns)}
    return {_METADATA_KEY: msgspec.json.encode(data).decode()}


def _write_arrow(table: ExportedTable, frame: pl.DataFrame, path: Path) -> None:
    # Not every reader knows the newest types of Arrow.
    with _errors_named(path):
        frame.write_ipc(path, compat_level=pl.CompatLevel.oldest())


def _join_arrow(table: ExportedTable, rows: pl.LazyFrame, path: Path) -> None:
    with _errors_named(path):
        rows.sink_ipc(path, compat_level=pl.CompatLevel.oldest())


# The names of folders say nothing of the rows: neither patterns nor columns are read out of them.
def _read_parquet(paths: list[Path]) -> pl.LazyFrame:
    return pl.scan_parquet(paths, glob=False, hive_partitioning=False)


def _read_arrow(paths: list[Path]) -> pl.LazyFrame:
    return pl.scan_ipc(paths, glob=False, hive_partitioning=False)


PARQUET = ColumnForm("parquet", _write_parquet, _read_parquet, _join_parquet, _PARQUET_NOTES)


def rows_of(part: Path) -> pl.DataFrame:
    """The rows of a file that `ARROW` wrote, which may be deleted then."""
    return pl.read_ipc(part.read_bytes())


ARROW = ColumnForm(
    "arrow", _write_arrow, _read_arrow, _join_arrow, "The files are Arrow IPC files (Feather, version 2)."
)


class ColumnFiles:
    """Tables as Parquet or Arrow in a folder."""

    def __init__(self, folder: Path, tables: Sequence[ExportedTable], form: ColumnForm) -> None:
        self._folder, self._tables, self.form = folder, tables, form
        self._parts: dict[str, list[Path]] = {}
        self._rows: dict[str, int] = {}

    def add(self, table: ExportedTable, frame: pl.DataFrame) -> None:
        """Write the rows to a part."""
        if frame.is_empty():
            return
        self.form.write(table, frame, self._part(table, frame.height))

    def add_file(self, table: ExportedTable, path: Path, rows: int) -> None:
        """Take the file as a part."""
        path.rename(self._part(table, rows))

    def _part(self, table: ExportedTable, rows: int) -> Path:
        """The path of the next part of a table, with so many rows."""
        parts = self._parts.setdefault(table.name, [])
        parts.append(self._folder / f".{table.name}.{len(parts)}.part")
        self._rows[table.name] = self._rows.get(table.name, 0) + rows
        return parts[-1]

    def finish(self) -> None:
        """Join the parts of each table, and write the catalog."""
        for table in self._tables:
            parts, target = self._parts.get(table.name, []), file_of(self._folder, table, self.form.suffix)
            if not parts:
                self.form.write(table, pl.DataFrame(schema=table.polars_schema), target)
            elif len(parts) == 1:
                parts[0].rename(target)
            else:
                self.form.join(table, self.form.read(parts), target)
                for part in parts:
                    part.unlink()
        write_catalog(self._folder, self._tables, self._rows, self.form.suffix, self.form.notes)
