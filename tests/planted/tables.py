"""A table of every kind of column, with names that do harm where they are not taken as text."""

from __future__ import annotations

import polars as pl

from tracebraid.exporters.tables import ExportedTable
from tracebraid.model.column import Column, Kind

NAMES = [
    None,
    "",
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "'=1",
    "'",
    '"quoted", and more',
    "two\nlines",
    "two\r\nlines",
    "a\rb",
    "</script><script>alert(1)</script>",
    "\u202e right to left",
    "\x00\x01\x7f\x1b[31m",
    "\U0001f600 emoji",
    "NULL",
    'robert\'); DROP TABLE "made"; --',
    "x" * 10_000,
    "\uff1d1",
    " leading",
    "1e5",
]
LISTS: list[list[int | None] | None] = [None, [], [1], [1, None, -3]]
INTS = [None, 0, -1, 2**63 - 1, -(2**63)]
FLOATS = [None, 0.1, -0.0, 1e300, 5e-324]
TABLE = ExportedTable(
    "made",
    "One row per name.",
    (
        Column("rank", Kind.INT, "the rank"),
        Column("name", Kind.NAME, "a name"),
        Column("dur_ns", Kind.INT, "a number"),
        Column("share", Kind.FLOAT, "a share"),
        Column("finished", Kind.BOOL, "or not"),
        Column("shape", Kind.INT3, "three | integers"),
        Column("ranks", Kind.INTS, "integers"),
    ),
)
EMPTY = ExportedTable("none", "No rows.", (Column("name", Kind.TEXT, "a name"),))


def frame_of(rank: int) -> pl.DataFrame:
    """Rows of a rank."""
    count = len(NAMES)
    columns = {
        "rank": [rank] * count,
        "name": NAMES,
        "dur_ns": [INTS[i % len(INTS)] for i in range(count)],
        "share": [FLOATS[i % len(FLOATS)] for i in range(count)],
        "finished": [(None, True, False)[i % 3] for i in range(count)],
        "shape": [(None, [1, 2, 3])[i % 2] for i in range(count)],
        "ranks": [LISTS[i % len(LISTS)] for i in range(count)],
    }
    return pl.DataFrame(columns, schema=TABLE.polars_schema)


def rows_of(*ranks: int) -> list[dict[str, object]]:
    """The rows of several ranks."""
    return [row for rank in ranks for row in frame_of(rank).to_dicts()]
