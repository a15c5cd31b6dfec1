"""Tables that fit into a width."""

from __future__ import annotations

from tracebraid.reports.fitted_table import Head, fitted_table


def _shown(rows: list[list[str]], width: int, kept: int) -> list[str]:
    heads = [Head("a", "left", shortens=True), Head("b"), Head("c"), Head("d")]
    return [str(column.header) for column in fitted_table("t", heads, rows, width, kept).columns]


def test_columns_without_a_text_are_left_out_wherever_they_stand() -> None:
    assert _shown([["x", "", "1", ""], ["y", "", "", ""]], 100, 3) == ["a", "c"]
    assert _shown([["x", "2", "1", ""], ["y", "", "", "3"]], 100, 3) == ["a", "b", "c", "d"]


def test_a_column_that_is_left_out_makes_room_for_the_last() -> None:
    rows = [["x", "", "1" * 10, "2" * 10]]
    assert _shown(rows, 30, 2) == ["a", "c", "d"]
