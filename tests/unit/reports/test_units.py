"""Numbers as people read them."""

from __future__ import annotations

import pytest

from tracebraid.reports.units import duration, percent, size


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
