"""Lists of numbers: read, written, and compared without making wide ranges."""

from __future__ import annotations

import pytest

from tracebraid.errors import ArgumentError
from tracebraid.model.number_ranges import missing_from, number_ranges, numbers_text


def test_numbers_and_ranges_with_spaces_are_read() -> None:
    assert number_ranges(" 0, 8 - 15,3") == (range(1), range(8, 16), range(3, 4))


@pytest.mark.parametrize(
    "text", ["", ",", "0,", "a", "-1", "1-", "1-2-3", "0x1", "1.5", "٣-a", "1;2", "9" * 30]
)
def test_what_is_no_list_is_an_error_that_shows_a_list(text: str) -> None:
    with pytest.raises(ArgumentError, match="such as 0,8-15"):
        number_ranges(text, "ranks")


def test_a_range_that_runs_backwards_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(ArgumentError, match="write 8-15"):
        number_ranges("0,15-8")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], "none"),
        ([1, 0], "0, 1"),
        ([2, 0, 1, 1, 9], "0-2, 9"),
        (range(1024), "0-1023"),
        (range(0, 100, 2), "0, 2, 4, 6, 8, 10, 12, 14, ..."),
    ],
)
def test_numbers_are_written_as_ranges_and_shortened(numbers: list[int], text: str) -> None:
    assert numbers_text(numbers) == text


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        ("0-3", ""),
        ("0,5", "5"),
        ("2-10", "4-7, 10"),
        ("0-900000000000000", "4-7, 10-900000000000000"),
        ("20-22,21", "20-22, 21"),
    ],
)
def test_what_is_not_known_is_named_however_wide_the_range_is(asked: str, missing: str) -> None:
    assert missing_from(number_ranges(asked), [0, 1, 2, 3, 8, 9]) == missing
