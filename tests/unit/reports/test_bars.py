"""Bars and sparklines: their lengths, their order, and their form in ASCII."""

from __future__ import annotations

import math

import polars as pl
import pytest

from tracebraid.model.answers import BREAKDOWN
from tracebraid.reports.bars import FILLS, ascii_form, bar, can_show, sparkline, stacked_bar
from tracebraid.reports.breakdown_bars import breakdown_bars, step_sparklines


@pytest.mark.parametrize(
    ("share", "length"), [(0.0, 0), (None, 0), (math.nan, 0), (1e-9, 1), (0.5, 5), (1.0, 10), (7.0, 10)]
)
def test_a_bar_is_as_long_as_its_share(share: float | None, length: int) -> None:
    assert len(bar(share, 10)) == length


def test_longer_shares_never_have_shorter_bars() -> None:
    lengths = [(text := bar(i / 1000, 10)).count("█") * 8 + len(text) for i in range(1001)]
    assert lengths == sorted(lengths)
    assert bar(0.5, 10) != bar(0.52, 10)


@pytest.mark.parametrize("parts", [(1, 0, 0, 0), (1, 1, 1, 1), (1, 999, 0, 3), (0, 0, 0, 5), (0.1, 0.2)])
def test_a_stacked_bar_takes_the_whole_width_in_the_order_of_its_parts(parts: tuple[float, ...]) -> None:
    text = stacked_bar(parts, 40)
    assert len(text) == 40
    assert [FILLS.index(fill) for fill in text] == sorted(FILLS.index(fill) for fill in text)
    for fill, part in zip(FILLS, parts, strict=False):
        assert abs(text.count(fill) - part / sum(parts) * 40) <= 1
    assert stacked_bar((0, 0), 40) == ""


def test_a_sparkline_is_higher_where_values_are() -> None:
    text = sparkline([1, 2, 4, 8], 10)
    assert text == "".join(sorted(text))
    assert len(set(text)) == 4
    assert sparkline([], 10) == ""
    assert len(set(sparkline([0, 0], 10))) == 1


@pytest.mark.parametrize("count", [1, 9, 10, 11, 25, 10_000])
def test_a_sparkline_fits_and_keeps_the_largest_value(count: int) -> None:
    values = [1.0] * count
    values[count // 2] = 100.0
    text = sparkline(values, 10)
    assert 0 < len(text) <= 10
    assert text.count("█") == 1


def test_what_ascii_cannot_show_has_another_form() -> None:
    text = "".join(bar(i / 80, 10) for i in range(81)) + sparkline(range(8), 8) + FILLS + " µs"
    assert ascii_form(text).isascii()
    assert len(ascii_form(text)) == len(text)
    assert len(set(ascii_form(FILLS))) == len(FILLS)
    assert ascii_form(bar(0.01, 10)).strip()


def test_encodings_that_have_the_characters_show_them() -> None:
    assert can_show("utf-8")
    assert can_show(None)
    assert not can_show("ascii")
    assert not can_show("latin-1")
    assert not can_show("no such encoding")


def breakdown(*rows: tuple[int, str | None, int]) -> pl.DataFrame:
    made = [
        {
            "rank": rank,
            "step": step,
            "device": "0",
            "span_ns": ns,
            "compute_ns": ns // 2,
            "idle_ns": ns - ns // 2,
        }
        for rank, step, ns in rows
    ]
    zeros = pl.lit(0)
    columns = [column.name for column in BREAKDOWN.columns]
    frame = pl.DataFrame(made, schema_overrides={"step": pl.String})
    return frame.with_columns(zeros.alias(name) for name in columns if name not in frame.columns)


def test_a_breakdown_has_a_bar_for_each_rank_and_names_the_parts_that_there_are() -> None:
    lines = breakdown_bars(breakdown((0, None, 100), (0, "a", 60), (1, None, 80)))
    assert [line.split("  ")[0] for line in lines[:2]] == ["rank 0", "rank 1"]
    assert len(lines) == 3
    assert "idle" in lines[-1]
    assert "exposed" not in lines[-1]
    assert max(map(len, lines)) <= 80


def test_many_ranks_have_the_first_and_how_many_more() -> None:
    rows = [(rank, step, 100 + rank) for rank in range(10_000) for step in (None, "a", "b")]
    lines = [*breakdown_bars(breakdown(*rows)), *step_sparklines(breakdown(*rows))]
    assert len(lines) < 25
    assert any("9,992" in line for line in lines)


def test_nothing_is_drawn_of_nothing() -> None:
    assert breakdown_bars(breakdown((0, None, 0))) == []
    assert breakdown_bars(BREAKDOWN.empty()) == []
    assert step_sparklines(breakdown((0, None, 100), (0, "a", 100))) == []
    assert step_sparklines(BREAKDOWN.empty()) == []
