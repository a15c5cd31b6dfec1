"""Definitions of columns and tables, in which `schema` declares the tables.

This module loads nothing but the standard library, so that a decoding worker process starts fast;
polars is imported where a table is turned into a frame.
"""

from __future__ import annotations

from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    import polars as pl

INT64_NULL = -(2**63)
"""Value of a missing integer in a plain numpy column, before it becomes a null."""


class Kind(Enum):
    """The type of a column, by what it means; `Table.polars_schema` gives its polars dtype."""

    INT = "int64"
    FLOAT = "float64"
    BOOL = "boolean"
    NAME = "text that repeats (categorical)"
    JSON = "JSON text as in the file (categorical)"
    TEXT = "text"
    INT3 = "three integers (array)"
    INTS = "list of integers"


class Column(Struct, frozen=True, eq=False):
    """One column of a table.

    Args:
        name: its name, with the unit in it (`ts_ns`, `size_bytes`).
        kind: its type.
        doc: what it means, and what null means.
        keys: the argument's names in the trace file, the usual one first; empty for derived columns.
    """

    name: str
    kind: Kind
    doc: str
    keys: tuple[str, ...] = ()


class Table(Struct, frozen=True, eq=False, dict=True):
    """A table: its name, what one row is, and its columns in order."""

    name: str
    doc: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """The column of that name; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def polars_schema(self) -> dict[str, pl.DataType]:
        """Column names and polars dtypes, in order."""
        return dict(self._dtypes)

    @cached_property
    def _dtypes(self) -> dict[str, pl.DataType]:
        import polars as pl

        dtypes: dict[Kind, pl.DataType] = {
            Kind.INT: pl.Int64(),
            Kind.FLOAT: pl.Float64(),
            Kind.BOOL: pl.Boolean(),
            Kind.NAME: pl.Categorical(),
            Kind.JSON: pl.Categorical(),
            Kind.TEXT: pl.String(),
            Kind.INT3: pl.Array(pl.Int64(), 3),
            Kind.INTS: pl.List(pl.Int64()),
        }
        return {column.name: dtypes[column.kind] for column in self.columns}

    def conform(self, frame: pl.DataFrame, *, fill_missing: bool = False) -> pl.DataFrame:
        """A frame with this table's columns alone, in their order and with their dtypes; rows stay as they are."""
        import polars as pl

        present = frame.schema
        if list(present.items()) == list(self._dtypes.items()):
            return frame
        if fill_missing:
            frame = frame.with_columns(
                pl.lit(None, dtype=dtype).alias(name)
                for name, dtype in self._dtypes.items()
                if name not in present
            )
        return frame.select(
            pl.col(name) if present.get(name, dtype) == dtype else pl.col(name).cast(dtype)
            for name, dtype in self._dtypes.items()
        )

    def empty(self) -> pl.DataFrame:
        """A frame of this table with no rows."""
        return self._no_rows.clone()

    @cached_property
    def _no_rows(self) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(schema=self._dtypes)


_UNITS = (
    ("flops_per_s", "FLOP/s"),
    ("bytes_per_s", "bytes/s"),
    ("bytes_per_step", "bytes/step"),
    ("byte_seconds", "bytes s"),
    ("flops_per_byte", "FLOP/byte"),
    ("ns_per_byte", "ns/byte"),
    ("ns_per_token", "ns/token"),
    ("tokens_per_second", "tokens/s"),
    ("per_step", "1/step"),
    ("_ppm", "ppm"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("bytes", "bytes"),
    ("flops", "FLOP"),
    ("share", "1"),
    ("share_of_count", "1"),
)
"""Longer ends first."""


def unit_of(name: str) -> str:
    """The unit of a column by its name: `ns` of `dur_ns`; `1` for a share of 1; empty: it has none."""
    return next((unit for end, unit in _UNITS if name.endswith(end)), "")
