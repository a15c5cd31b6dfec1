"""Do microseconds become exact nanoseconds?"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from tests.builders import flow, kineto_text, op
from tests.unit.importers.reading import codes, timeline_of, timeline_of_bytes
from tracebraid.importers.kineto.clock import exact_ns, needs_decimal, to_ns
from tracebraid.model.timeline import Timeline


def with_times(folder: Path, ts: str, dur: str = "1") -> Timeline:
    """One op whose times stand in the file as these texts."""
    text = kineto_text([op("a", 7777, 8888)]).replace("7777", ts).replace("8888", dur)
    return timeline_of_bytes(folder, text.encode())


@pytest.mark.parametrize(
    ("us", "ns"),
    [
        (0.0, 0),
        (0.001, 1),
        (1.0005, 1000),
        (-0.001, -1),
        (-1.999, -1999),
        (5537741.623, 5537741623),
        (8000000000000.123, 8000000000000123),
        (8796093022207.999, 8796093022207999),
        (1700000000000000.0, 1700000000000000000),
    ],
)
def test_microseconds_in_floats_round_to_the_right_nanosecond(us: float, ns: int) -> None:
    assert to_ns(np.array([us])).tolist() == [ns]


def test_large_fractions_need_the_decimal_text_and_others_do_not() -> None:
    assert needs_decimal([1.5, 1700000000000000.5])
    assert not needs_decimal([1700000000000000, 8000000000000.123])


def test_decimals_are_read_exactly() -> None:
    texts = ["1700000000000000.001", "-0.001", "3999999999999999.999"]
    assert exact_ns([Decimal(t) for t in texts]).tolist() == [1700000000000000001, -1, 3999999999999999999]


@pytest.mark.parametrize("ts", ["1623143089861035", "1623143089861035.0"])
def test_absolute_whole_microseconds_of_old_traces_are_exact(tmp_path: Path, ts: str) -> None:
    events = with_times(tmp_path, ts, "6").events
    assert events.select("ts_ns", "dur_ns").row(0) == (1623143089861035000, 6000)


def test_nanoseconds_count_from_the_base_time(tmp_path: Path) -> None:
    base = 1735689600000000007
    timeline = timeline_of(tmp_path, [op("a", 5537741.623, 0.961)], baseTimeNanoseconds=base)
    assert timeline.base_time_ns == base
    assert timeline.events.select("ts_ns", "dur_ns").row(0) == (base + 5537741623, 961)


@pytest.mark.parametrize("fraction", ["001", "1", "123", "25", "499", "5", "75", "876", "999"])
def test_an_absolute_fraction_is_exact_whatever_float64_makes_of_it(tmp_path: Path, fraction: str) -> None:
    """Near 1.7e15 float64 knows quarters only, so that .1 alone reads as a whole number."""
    got = with_times(tmp_path, f"1700000000000000.{fraction}").events.get_column("ts_ns").item()
    assert got == 1700000000000000000 + int(fraction.ljust(3, "0"))


def test_a_long_fractional_duration_is_exact(tmp_path: Path) -> None:
    dur = with_times(tmp_path, "1", "9000000000000.001").events.get_column("dur_ns").item()
    assert dur == 9000000000000001


def test_an_absolute_fraction_of_a_flow_is_exact(tmp_path: Path) -> None:
    text = kineto_text([flow("s", 1, 7777)]).replace("7777", "1700000000000000.1")
    assert timeline_of_bytes(tmp_path, text.encode()).flows.get_column("ts_ns").item() == 1700000000000000100


@pytest.mark.parametrize("dur", ["null", '"long"', "NaN", '"4"', "[1]", "-1"])
def test_a_wrong_duration_does_not_cost_the_exact_times(tmp_path: Path, dur: str) -> None:
    timeline = with_times(tmp_path, "1700000000000000.501", dur)
    expected = 4000 if dur == '"4"' else 0
    assert timeline.events.select("ts_ns", "dur_ns").row(0) == (1700000000000000501, expected)


@pytest.mark.parametrize("ts", ['"12.5"', '" 12.5 "', "1.25e1", '"1.25e1"'])
def test_a_time_in_another_notation_is_read(tmp_path: Path, ts: str) -> None:
    assert with_times(tmp_path, ts).events.get_column("ts_ns").to_list() == [12500]


def test_a_base_time_that_is_none_is_said_and_not_added(tmp_path: Path) -> None:
    for base in (-5, "soon", 10**30, None, [1]):
        timeline = timeline_of(tmp_path, [op("a", 1, 2)], baseTimeNanoseconds=base)
        assert timeline.events.get_column("ts_ns").to_list() == [1000]
        assert codes(timeline.findings) == ["base-time"]
