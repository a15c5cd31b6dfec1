"""What the page decodes is what was packed."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import polars as pl
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.deno import evaluated
from tracebraid.reports.page.data_block import data_block

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


@settings(max_examples=3, deadline=None, phases=(Phase.generate,))
@given(st.lists(frames(), min_size=FRAMES_IN_A_RUN, max_size=FRAMES_IN_A_RUN))
def test_a_frame_is_decoded_as_it_was_packed(packed: list[pl.DataFrame]) -> None:
    found = evaluated(SCRIPT, [data_block(frame) for frame in packed])
    for frame, (rows, columns) in zip(packed, found, strict=True):
        assert rows == frame.height
        assert {name: [_double(value) for value in values] for name, values in columns} == dict(
            expected(frame)[1]
        )


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
