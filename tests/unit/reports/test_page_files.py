"""The page's modules, and how they reach the browser."""

from __future__ import annotations

import base64
import gzip
import json
import math
import random
import re
import struct
from typing import Any
from urllib.parse import unquote

import msgspec
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.deno import evaluated
from tracebraid.analysis.catalog import job_analyses, rank_analyses
from tracebraid.model import quantities
from tracebraid.model.answer_sentences import CODES_OF_COLUMNS
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.printable import printable
from tracebraid.model.report import DataTable
from tracebraid.reports.answers import MOMENTS, cell_text
from tracebraid.reports.page.modules import import_map, modules, packed_modules, stripped
from tracebraid.reports.page.page import data_block, table_columns

SOURCE = """// Comment.
import { a } from "tracebraid/a.js";

/**
 * @param {string} text with `one backtick
 */
export function f(text) {
  // "quoted"
  const url = "https://example.com"; // behind code it stays
  return `${text} // no comment é % #`;
}
/** @type {number[]} */ (f("")).push(1);
/** Doc. */
f("");
"""
STRIPPED = """import { a } from "tracebraid/a.js";
export function f(text) {
const url = "https://example.com"; // behind code it stays
return `${text} // no comment é % #`;
}
/** @type {number[]} */ (f("")).push(1);
f("");
"""
MOST_BYTES = 155_000
"""Of all modules together, without comments and indentation."""


def test_comments_are_left_out() -> None:
    assert stripped(SOURCE) == STRIPPED


def test_no_text_spans_lines() -> None:
    """Otherwise it would lose its indentation, and lines that look like comments."""
    odd = [
        (name, line)
        for name, source in modules().items()
        for line in source.splitlines()
        if line.count("`") % 2
    ]
    assert odd == []


def test_each_module_names_itself_and_imports_what_is_there() -> None:
    found = modules()
    for name, source in found.items():
        assert source.endswith(f"//# sourceURL={name}\n")
        assert set(re.findall(r'from "(tracebraid/[^"]+)"', source)) - set(found) == set()


@pytest.mark.full
def test_each_module_is_whole() -> None:
    """The page's own module needs a page; all others load wherever they are."""
    script = """
    output = [];
    for (const [name, address] of Object.entries(input.imports)) {
      try { await import(address); } catch (error) { output.push([name, error.name]); }
    }"""
    assert evaluated(script, json.loads(import_map())) == [["tracebraid/main.js", "ReferenceError"]]


def test_the_modules_are_small() -> None:
    assert sum(len(source.encode()) for source in modules().values()) < MOST_BYTES


def test_they_travel_compressed() -> None:
    assert gzip.decompress(base64.b64decode(packed_modules())).decode() == import_map()
    assert packed_modules() == packed_modules()


def test_their_addresses_hold_them() -> None:
    addresses = json.loads(import_map())["imports"]
    assert {name: unquote(address.partition(",")[2]) for name, address in addresses.items()} == modules()


# --- What the page decodes is what was packed --------------------------------------------------------


EXACT = 2**53
"""Integers up to it are exact as doubles."""
FRAMES_IN_A_RUN = 25
SCRIPT = """
import { frameOf } from "tracebraid/data_block.js";
output = [];
const plain = (value) => Object.is(value, -0) ? "-0"
  : typeof value !== "number" || Number.isFinite(value) ? value : Number.isNaN(value) ? null : String(value);
for (const text of input) {
  const frame = await frameOf(text);
  output.push([frame.rows, Object.entries(frame.columns).map(([name, values]) => [name, Array.from(values, plain)])]);
}
"""

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
KINDS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pl.Int64, st.integers(-EXACT, EXACT)),
    (pl.Int64, st.integers(-300, 300)),
    (pl.UInt8, st.integers(0, 255)),
    (pl.Int32, st.integers(-(2**31), 2**31 - 1)),
    (pl.UInt64, st.integers(0, EXACT)),
    (pl.Float64, st.floats(allow_nan=False)),
    (pl.Float32, st.floats(width=32, allow_nan=False)),
    (pl.Boolean, st.booleans()),
    (pl.String, TEXT),
    (pl.List(pl.Int64), st.lists(st.integers(0, 9), max_size=3)),
]


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    """A frame of up to 300 rows: moments that grow, values of all kinds, with and without null."""
    rows = draw(st.sampled_from([0, 1, 2, 5, 300]))
    names = draw(st.lists(TEXT, max_size=4, unique=True))
    columns = []
    for name in names:
        dtype, values = draw(st.sampled_from(KINDS))
        chosen = draw(st.lists(values | st.none() if draw(st.booleans()) else values, min_size=1, max_size=6))
        columns.append(pl.Series(name, [chosen[row % len(chosen)] for row in range(rows)], dtype=dtype))
    if "moments" not in names:
        start, step = draw(st.integers(-EXACT // 2, EXACT // 2)), draw(st.integers(-1000, 1000))
        columns.append(pl.Series("moments", [start + step * row for row in range(rows)], dtype=pl.Int64))
    return pl.DataFrame(columns)


def expected(frame: pl.DataFrame) -> list[Any]:
    """The frame as the page shows it to the test: booleans as numbers, lists as JSON text."""
    return [
        frame.height,
        [[series.name, [_value(value) for value in series.to_list()]] for series in frame.get_columns()],
    ]


def _double(value: Any) -> Any:
    """JSON has no point in a great number."""
    return float(value) if isinstance(value, int) and abs(value) > EXACT else value


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return msgspec.json.encode(value).decode()
    if isinstance(value, float):
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return "-0" if value == 0 and math.copysign(1, value) < 0 else value
    return int(value) if isinstance(value, bool) else value


@pytest.mark.full
@settings(max_examples=3, deadline=None, phases=(Phase.generate,))
@given(st.lists(frames(), min_size=FRAMES_IN_A_RUN, max_size=FRAMES_IN_A_RUN))
def test_a_frame_is_decoded_as_it_was_packed(packed: list[pl.DataFrame]) -> None:
    found = evaluated(SCRIPT, [data_block(frame) for frame in packed])
    for frame, (rows, columns) in zip(packed, found, strict=True):
        assert rows == frame.height
        assert {name: [_double(value) for value in values] for name, values in columns} == dict(
            expected(frame)[1]
        )


@pytest.mark.full
def test_extremes_of_each_width() -> None:
    spans = [0, 1, 254, 255, 256, 65534, 65535, 65536, 2**32 - 2, 2**32 - 1, 2**32, EXACT]
    packed = [
        pl.DataFrame({"value": pl.Series([low, low + span, *nulls], dtype=pl.Int64)})
        for span in spans
        for low in (0, -7, -(2**40))
        for nulls in ([], [None])
        if low + span <= EXACT
    ]
    packed.append(pl.DataFrame({"value": [-EXACT, EXACT, EXACT - 1, 1 - EXACT, -1, 0]}))
    found = evaluated(SCRIPT, [data_block(frame) for frame in packed])
    assert found == [expected(frame) for frame in packed]


def test_equal_frames_are_packed_alike() -> None:
    frame = pl.DataFrame({"a": [1, 2, None], "b": ["x", None, "y"], "c": [0.5, None, 1e9]})
    assert data_block(frame) == data_block(frame.clone())
    assert data_block(frame) != data_block(frame.reverse())


def test_the_time_is_not_packed() -> None:
    header = base64.b64decode(data_block(pl.DataFrame({"a": [1]})))
    assert header[4:8] == bytes(4)


# --- Cells of the page are those of the terminal, to the character -----------------------------------


UNITS = ("duration", "moment", "number", "percent", "quantity", "size")
OF_EACH = 600
TABLES = [analysis.table for analysis in rank_analyses()] + [analysis.table for analysis in job_analyses()]
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


@pytest.mark.full
def test_numbers_are_those_of_python() -> None:
    values = doubles(1)
    script = (
        'import * as format from "tracebraid/format.js";\n'
        f"output = {list(UNITS)!r}.map((unit) => input.map((value) => format[unit](value)));"
    )
    found = evaluated(script, values)
    for unit, texts in zip(UNITS, found, strict=True):
        expected = [getattr(quantities, unit)(value) for value in values]
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


@pytest.mark.full(keep=1)
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


@pytest.mark.full
def test_control_characters_are_written_as_on_a_terminal() -> None:
    rng = random.Random(3)
    points = [
        *range(0x250),
        0x2028,
        0x2029,
        0x202E,
        0x2066,
        0xFEFF,
        0xE000,
        0xE0041,
        0x10FFFF,
        0x1F600,
        0x0301,
    ]
    texts = ["".join(chr(rng.choice(points)) for _ in range(40)) for _ in range(300)]
    found = evaluated(
        'import { printable } from "tracebraid/printable.js"; output = input.map(printable);', texts
    )
    assert found == [printable(text) for text in texts]


def test_doubles_are_of_every_kind() -> None:
    values = doubles(1)
    assert len({struct.pack("d", value) for value in values}) > 3 * OF_EACH
