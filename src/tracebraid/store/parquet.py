"""Tables as the bytes of Parquet files, and back."""

from __future__ import annotations

import io

import numpy as np
import polars as pl

from tracebraid.filesystem.unpack import RATIO_AT_MOST, unpacked_at_most_bytes
from tracebraid.model.column import Table
from tracebraid.model.text_bytes import refuse_repeated_texts
from tracebraid.store.parquet_size import pages_bytes, values_of

__all__ = ["decoded", "encoded", "frame_of", "refuse_expanding"]

_LEVEL = 3
"""zstd's own default: of the 54 MB trace, level 9 makes 4 % less in twice the time."""
_ROWS = 1 << 18
"""Rows of a row group: what a reader of some steps skips or reads as a whole."""

_BYTES_OF_VALUE = 8
_WITHOUT_NULL = {"events": ("event_id", "ts_ns", "dur_ns"), "et_nodes": ("node_id",)}
"""What readers give every row: it is computed with as it stands."""


def encoded(name: str, frame: pl.DataFrame) -> bytes:
    """A table as a Parquet file; the same rows give the same bytes, in any process. Events lie sorted by their start.

    Texts that repeat have a dictionary of the file's own, in which each stands once.
    """
    if name == "events":
        frame = frame.sort("ts_ns", "event_id")
    file = io.BytesIO()
    frame.rechunk().write_parquet(file, compression="zstd", compression_level=_LEVEL, row_group_size=_ROWS)
    return file.getvalue()


def decoded(name: str, table: Table, content: bytes) -> pl.DataFrame:
    """The table of a Parquet file, in the order that it was given in.

    Raises:
        ValueError: it is none, or not of that table.
    """
    frame = frame_of(content)
    if dict(frame.schema) != table.polars_schema():
        raise ValueError("its columns are not those of the table")
    if any(frame.get_column(column).null_count() for column in _WITHOUT_NULL.get(name, ())):
        raise ValueError("a column that has no null in any trace has some")
    return _in_order_of_ids(frame) if name == "events" else frame


def frame_of(content: bytes) -> pl.DataFrame:
    """What a Parquet file holds.

    Raises:
        ValueError: it is none, or holds far more than its size lets expect.
    """
    refuse_expanding(content)
    try:
        frame = pl.read_parquet(io.BytesIO(content), use_statistics=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(str(error)) from None
    except pl.exceptions.PanicException as error:
        raise ValueError(f"the Parquet reader gave up ({error})") from None
    refuse_repeated_texts([frame], len(content))
    return frame


def refuse_expanding(content: bytes) -> None:
    """Refuse a Parquet file of more values, or of longer ones, than its size lets expect.

    Raises:
        ValueError: it does, or is none.
    """
    size_bytes = max(values_of(content) * _BYTES_OF_VALUE, pages_bytes(content))
    if size_bytes > unpacked_at_most_bytes(len(content)):
        raise ValueError(f"it holds more than {RATIO_AT_MOST} times its size")


def _in_order_of_ids(events: pl.DataFrame) -> pl.DataFrame:
    """Events as the trace has them; their ids are their rows there, so that none needs to be compared."""
    ids = events.get_column("event_id").to_numpy()
    rows = np.arange(len(ids))
    if len(ids) and (ids.min() < 0 or ids.max() >= len(ids)):
        return events.sort("event_id")
    row_of_id = np.full(len(ids), len(ids))
    row_of_id[ids] = rows
    if (row_of_id == len(ids)).any():
        return events.sort("event_id")
    return events[row_of_id]
