"""Changes of Arrow and Parquet files: of the tables in them, of how these are written, and of their bytes."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Literal

import polars as pl
import pyarrow as pa
from pyarrow import parquet

from tools.fuzz.mutations.frames import changed_frame
from tools.fuzz.mutations.raw_bytes import RAW_CHANGES

__all__ = ["changed_arrow", "changed_parquet"]

_FOOTER_BYTES = 1200
_ODD_BYTES = (
    b"\xff" * 8,
    b"\0" * 8,
    (1 << 62).to_bytes(8, "little"),
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x08",
)
_ARROW: tuple[Literal["uncompressed", "zstd", "lz4"], ...] = ("uncompressed", "zstd", "lz4")
_PARQUET: tuple[Literal["uncompressed", "zstd", "lz4", "snappy", "gzip", "brotli"], ...] = (
    *_ARROW, "snappy", "gzip", "brotli",
)  # fmt: skip


def changed_arrow(data: bytes, rng: random.Random) -> bytes:
    """An Arrow file whose table, layout or bytes are others."""
    compression = rng.choice(_ARROW)
    level = rng.choice((pl.CompatLevel.oldest(), pl.CompatLevel.newest()))

    def write(frame: pl.DataFrame, file: io.BytesIO) -> None:
        frame.write_ipc(file, compression=compression, compat_level=level)

    def read(file: io.BytesIO) -> pl.DataFrame:
        return _frame(pa.ipc.open_file(file).read_all())

    return _changed(data, rng, read, write)


def changed_parquet(data: bytes, rng: random.Random) -> bytes:
    """A Parquet file whose table, layout or bytes are others."""
    compression = rng.choice(_PARQUET)
    rows = rng.choice((None, 1, 7, 1 << 18))

    def write(frame: pl.DataFrame, file: io.BytesIO) -> None:
        frame.write_parquet(file, compression=compression, row_group_size=rows)

    def read(file: io.BytesIO) -> pl.DataFrame:
        return _frame(parquet.read_table(file))

    return _changed(data, rng, read, write)


def _frame(table: pa.Table) -> pl.DataFrame:
    """What pyarrow read and checked: polars' own reader may panic or abort on bytes that were damaged before."""
    table.validate(full=True)
    return pl.DataFrame(pl.from_arrow(table))


def _changed(
    data: bytes,
    rng: random.Random,
    read: Callable[[io.BytesIO], pl.DataFrame],
    write: Callable[[pl.DataFrame, io.BytesIO], None],
) -> bytes:
    if rng.random() < 0.5:
        return _damaged(data, rng)
    try:
        frame = changed_frame(read(io.BytesIO(data)), rng)
        file = io.BytesIO()
        write(frame, file)
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        pa.ArrowException,
        OSError,
        ValueError,
        TypeError,
    ):
        return _damaged(data, rng)
    return file.getvalue() if rng.random() < 0.9 else _damaged(file.getvalue(), rng)


def _damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, mostly in what stands at the end and says where everything lies."""
    if not data or rng.random() < 0.3:
        return rng.choice(RAW_CHANGES)(data, rng)
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = max(0, len(changed) - 1 - rng.randrange(min(len(changed), _FOOTER_BYTES)))
        way = rng.randrange(3)
        if way == 0:
            changed[at] = rng.randrange(256)
        elif way == 1:
            odd = rng.choice(_ODD_BYTES)
            changed[at : at + len(odd)] = odd
        else:
            changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)
