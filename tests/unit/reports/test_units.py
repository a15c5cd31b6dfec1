"""Numbers as people read them."""

from __future__ import annotations

import base64
import math

import polars as pl
import pytest

from tracebraid.analysis.time.breakdown import BREAKDOWN
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.quantities import duration, percent, size
from tracebraid.model.report import DataTable
from tracebraid.reports.breakdown_bars import (
    FILLS,
    ascii_form,
    bar,
    breakdown_bars,
    can_show,
    sparkline,
    stacked_bar,
    step_sparklines,
)
from tracebraid.reports.fitted_table import Head, fitted_table, line_width
from tracebraid.reports.names import distinct_names, shortened
from tracebraid.reports.page.page import data_block
from tracebraid.reports.relative_moments import relative_moments


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (1, "1 ns"),
        (999, "999 ns"),
        (1_000, "1.000 µs"),
        (12_345, "12.35 µs"),
        (123_456, "123.5 µs"),
        (999_949, "999.9 µs"),
        (999_999, "1.000 ms"),
        (1_000_000, "1.000 ms"),
        (999_999_999, "1.000 s"),
        (1_396_669_000, "1.397 s"),
        (12_996_011_000, "13.00 s"),
        (4_500_000_000_000, "4,500.0 s"),
    ],
)
def test_a_duration_has_the_unit_that_leaves_few_digits(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_a_mean_below_a_microsecond_is_in_ns() -> None:
    assert duration(12.4) == "12 ns"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.0 %"),
        (1.0, "100.0 %"),
        (0.5, "50.0 %"),
        (0.1234, "12.3 %"),
        (0.99999, "99.9 %"),
        (0.00001, "<0.1 %"),
        (0.0006, "0.1 %"),
        (1.5, "150.0 %"),
    ],
)
def test_a_percentage_says_all_and_none_only_where_it_is_so(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (54_321_000, "54.3 MB"), (1_250_000_000, "1.2 GB")],
)
def test_sizes_are_in_powers_of_ten(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text


# --- Moments of a table as they are shown; blocks of equal data are equal whenever they are mad ------


SCHEMA = Table("made", "Made.", (Column("rank", Kind.INT, "rank"), Column("ts_ns", Kind.INT, "at")))


def test_moments_count_from_their_rank_others_from_the_first() -> None:
    frame = pl.DataFrame({"rank": [0, 1, 2], "ts_ns": [105, 1007, 12], "dur_ns": [5, 6, 7]})
    table = DataTable("t", "T", frame, SCHEMA, start_ns=10, starts={0: 100, 1: 1000})
    found = relative_moments(table)
    assert found.get_column("ts_ns").to_list() == [5, 7, 2]
    assert found.get_column("dur_ns").to_list() == [5, 6, 7]


def test_a_block_holds_no_time_of_its_making() -> None:
    block = base64.b64decode(data_block(pl.DataFrame({"a": [1, 2]})))
    assert block[4:8] == bytes(4)


# --- What is left out of names that are too long -----------------------------------------------------


ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
GEMM = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize{}_stage4_warpsize2x2x1_tensor16x8x16_kernel"


def test_names_that_fit_stay() -> None:
    assert distinct_names(["a", "b", "a"], 10) == ["a", "b", "a"]


def test_arguments_go_first_then_namespaces() -> None:
    call = ADD[len("void ") : ADD.rindex("(")]
    assert distinct_names([ADD], len(call)) == [call]
    bare = "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul> >"
    assert distinct_names([ADD], len(bare)) == [bare]


def test_arguments_stay_where_they_alone_tell_apart() -> None:
    names = ["void at::native::" + "x" * 40 + f"<{'y' * 40}>({kind})" for kind in ("int", "long")]
    first, second = distinct_names(names, 40)
    assert "int" in first
    assert "long" in second


def test_the_part_in_which_names_differ_is_shown() -> None:
    tiles = ["128x128x32", "256x128x32", "64x64x64"]
    for tile, text in zip(tiles, distinct_names([GEMM.format(tile) for tile in tiles], 48), strict=True):
        assert tile in text


def test_a_short_name_is_not_taken_by_a_long_name() -> None:
    long = "void ns::" + "kernel" * 3 + "(int, int, int, int, int)"
    short = "kernel" * 3
    shown = distinct_names([long, short], 20)
    assert shown[1] == short
    assert shown[0] != short


@pytest.mark.parametrize(
    ("name", "most", "text"),
    [
        (ADD, len(ADD), ADD),
        (ADD, 100, "vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul> >"),
        (ADD, 40, "vectorized_elementwise_kernel<...>"),
        (ADD, 21, "vectorize...*, 3ul> >"),
        ("train.py(88): train_step", 15, "train....n_step"),
        (f"{'a' * 5_000}<{'b' * 5_000}>", 9, "aaa...bb>"),
    ],
)
def test_a_name_loses_types_before_its_middle(name: str, most: int, text: str) -> None:
    assert shortened(name, most) == text


def test_names_of_any_length_are_shortened() -> None:
    names = [f"{'(' * 5_000}{number}{'a::' * 5_000}" for number in range(3)]
    shown = distinct_names(names, 30)
    assert len(set(shown)) == len(names)
    assert all(len(text) <= 30 for text in shown)


# --- Tables that fit into a width --------------------------------------------------------------------


def _shown(rows: list[list[str]], width: int, kept: int) -> list[str]:
    heads = [Head("a", "left", shortens=True), Head("b"), Head("c"), Head("d")]
    return [str(column.header) for column in fitted_table("t", heads, rows, width, kept).columns]


def test_columns_without_a_text_are_left_out_wherever_they_stand() -> None:
    assert _shown([["x", "", "1", ""], ["y", "", "", ""]], 100, 3) == ["a", "c"]
    assert _shown([["x", "2", "1", ""], ["y", "", "", "3"]], 100, 3) == ["a", "b", "c", "d"]


def test_a_column_that_is_left_out_makes_room_for_the_last() -> None:
    rows = [["x", "", "1" * 10, "2" * 10]]
    assert _shown(rows, 30, 2) == ["a", "c", "d"]


def test_columns_of_the_highest_rank_are_left_out_first_and_named_below() -> None:
    heads = [Head("a"), Head("b", rank=1), Head("c", rank=2), Head("d", rank=2), Head("e")]
    rows = [["1" * 10] * 5]
    for width, left in ((62, "abcde"), (61, "abce"), (48, "abe"), (35, "ae"), (5, "a")):
        table = fitted_table("t", heads, rows, width, kept=1)
        assert "".join(str(column.header) for column in table.columns) == left
        assert all(name in str(table.caption).split(": ")[-1] for name in set("abcde") - set(left))
        assert (table.caption is None) == (left == "abcde")
        assert line_width(table) <= max(width, 10)


# --- Bars and sparklines: their lengths, their order, and their form in ASCII ------------------------


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
