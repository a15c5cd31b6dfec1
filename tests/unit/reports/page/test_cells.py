"""Cells of the page are those of the terminal, to the character."""

from __future__ import annotations

import random
import struct
from typing import Any

import polars as pl
import pytest

from tests.deno import evaluated
from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.model.answer_sentences import CODES_OF_COLUMNS
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.report.parts import DataTable
from tracebraid.reports import units
from tracebraid.reports.answers.answer_cells import MOMENTS, cell_text
from tracebraid.reports.page.table_columns import table_columns
from tracebraid.reports.text import printable

UNITS = ("duration", "moment", "number", "percent", "quantity", "size")
OF_EACH = 600
TABLES = [analysis.table for analysis in ANALYSES] + [analysis.table for analysis in JOB_ANALYSES]
NAMES = sorted({column.name for table in TABLES for column in table.columns} | MOMENTS)
TIES = [
    0.5,
    1.5,
    2.5,
    0.125,
    2.675,
    1.125e3,
    1.135e9,
    1000.5,
    2500.5,
    0.0005,
    0.0015,
    9.9995e3,
    99.995e6,
    1e6,
]


def doubles(seed: int) -> list[float]:
    """Of every size, with few and with many digits, ties of rounding, and both signs."""
    rng = random.Random(seed)
    found = [0.0, -0.0, 1.0, 1e15, 1e18, 1e21, 1.5e22, 1e300, 5e-324, 0.99995e3, 999.9995, *TIES]
    for _ in range(OF_EACH):
        exponent = rng.uniform(-12, 20)
        found += [
            10**exponent,
            round(rng.uniform(0, 2000)) / 8 * 10 ** rng.randrange(-3, 13),
            float(rng.randrange(2**53)) / 2 ** rng.randrange(53),
        ]
    return [*found, *(-value for value in found)]


def test_numbers_are_those_of_python() -> None:
    values = doubles(1)
    script = (
        'import * as format from "tracebraid/format.js";\n'
        f"output = {list(UNITS)!r}.map((unit) => input.map((value) => format[unit](value)));"
    )
    found = evaluated(script, values)
    for unit, texts in zip(UNITS, found, strict=True):
        expected = [getattr(units, unit)(value) for value in values]
        assert [pair for pair in zip(values, texts, expected, strict=True) if pair[1] != pair[2]] == []


def cells_of(columns: list[dict[str, Any]], values: list[list[Any]]) -> Any:
    script = (
        'import { cellText } from "tracebraid/cells.js";\n'
        "output = input[0].map((column, at) => input[1][at].map((value) => cellText(column, value)));"
    )
    return evaluated(script, [columns, values])


def header_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    schema = Table("t", "", tuple(Column(name, Kind.TEXT, "") for name in frame.columns))
    return table_columns(DataTable("t", "t", frame, schema))


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float64, pl.Boolean, pl.String, pl.List(pl.Int64)])
def test_cells_are_those_of_the_terminal(dtype: pl.DataType) -> None:
    values = _values(dtype)
    frame = pl.DataFrame({name: pl.Series(name, values, dtype=dtype) for name in NAMES})
    texts = [
        (
            name,
            None if value is None else value.to_list() if isinstance(value, pl.Series) else value,
            cell_text(name, value, 0),
        )
        for name in NAMES
        for value in frame.get_column(name)
    ]
    sent = [list(values) for _ in NAMES]
    if isinstance(dtype, pl.List):
        sent = [[None if value is None else str(value) for value in column] for column in sent]
    found = [text for column in cells_of(header_of(frame), sent) for text in column]
    assert [
        (expected, text) for expected, text in zip(texts, found, strict=True) if expected[2] != text
    ] == []


def _values(dtype: pl.DataType) -> list[Any]:
    rng = random.Random(2)
    if dtype == pl.Boolean:
        return [True, False, None]
    if dtype == pl.Float64:
        return [None, 0.0, -2.5, *(10 ** rng.uniform(-6, 18) for _ in range(20)), 3.0, 123456.0]
    if dtype == pl.Int64:
        return [None, 0, 1, -1234, 7, 1023, *(round(10 ** rng.uniform(0, 12)) for _ in range(20))]
    if isinstance(dtype, pl.List):
        return [None, [], [1], [0, 1, 2, 3, 7], [5, 4, 9, 10]]
    codes = [str(code.value) for kinds in CODES_OF_COLUMNS.values() for kind in kinds for code in kind]
    return [
        *[None, "", "plain", "a/b.py(3): f", "cpu_op", '["a", "b"]', '["a", 1]', "{}", "x,y", "__proto__"],
        *["\x1b[31m", "\u202ename", ",".join(codes[:2]), "constructor"],
        *codes,
    ]


def test_control_characters_are_written_as_on_a_terminal() -> None:
    rng = random.Random(3)
    points = [*range(0x250), 0x2028, 0x202E, 0x2066, 0xFEFF, 0xE000, 0xE0041, 0x10FFFF, 0x1F600, 0x0301]
    texts = ["".join(chr(rng.choice(points)) for _ in range(40)) for _ in range(300)]
    found = evaluated(
        'import { printable } from "tracebraid/printable.js"; output = input.map(printable);', texts
    )
    assert found == [printable(text) for text in texts]


def test_doubles_are_of_every_kind() -> None:
    values = doubles(1)
    assert len({struct.pack("d", value) for value in values}) > 3 * OF_EACH
