"""Any time that Kineto can write becomes the very nanosecond that its decimal text says."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import flow, kineto_text, op
from tracebraid.importers.kineto.clock import EXACT_BELOW_US, LIMIT_US, to_ns
from tracebraid.importers.kineto.reader import read_timeline

EXAMPLES = settings(max_examples=150, derandomize=True, deadline=None, database=None)
RELATIVE_NS = int(EXACT_BELOW_US) * 1000 - 1000
ABSOLUTE_NS = int(LIMIT_US) * 1000 - 1000

relative = st.integers(-RELATIVE_NS, RELATIVE_NS)
absolute = st.one_of(
    st.integers(0, ABSOLUTE_NS),
    st.integers(1_500_000_000_000_000_000, 1_900_000_000_000_000_000),
    st.integers(1_500_000_000_000_000, 1_900_000_000_000_000).map(lambda us: us * 1000),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clock")


@st.composite
def decimal_text(draw: st.DrawFn, ns: int) -> str:
    """That many nanoseconds as microseconds, in one of the ways to write a number."""
    text = f"{Decimal(ns) / 1000:f}"
    ways = [text, f"{Decimal(ns) / 1000:.3f}"]
    if "." in text:
        ways.append(text + "0")
    return draw(st.sampled_from(ways))


@st.composite
def times(draw: st.DrawFn, ts: st.SearchStrategy[int], count: int = 5) -> list[tuple[int, int, str, str]]:
    """(start, duration) of some events in nanoseconds, and as they stand in the file."""
    return [
        (start, dur, draw(decimal_text(start)), draw(decimal_text(dur)))
        for start, dur in draw(
            st.lists(st.tuples(ts, st.integers(0, RELATIVE_NS)), min_size=1, max_size=count)
        )
    ]


def read(folder: Path, events: list[tuple[int, int, str, str]], base: int | None) -> list[tuple[int, int]]:
    """(ts_ns, dur_ns) of events in a file with these texts as times."""
    text = kineto_text(
        [op("a", f"@{i}", f"#{i}") for i in range(len(events))],  # type: ignore[arg-type]
        header={} if base is None else {"baseTimeNanoseconds": base},
    )
    for i, (_, _, ts, dur) in enumerate(events):
        text = text.replace(f'"@{i}"', ts).replace(f'"#{i}"', dur)
    path = folder / "t.json"
    path.unlink(missing_ok=True)
    path.write_text(text)
    return read_timeline(path, processes=1).events.select("ts_ns", "dur_ns").rows()


@EXAMPLES
@given(st.lists(relative, min_size=1))
def test_floats_below_the_limit_round_to_the_exact_nanosecond(ns: list[int]) -> None:
    us = np.array([float(Decimal(one) / 1000) for one in ns])
    assert to_ns(us).tolist() == ns


@EXAMPLES
@given(events=times(relative), base=st.integers(0, 2_000_000_000_000_000_000))
def test_times_after_a_base_are_exact(
    folder: Path, events: list[tuple[int, int, str, str]], base: int
) -> None:
    assert read(folder, events, base) == [(base + ts, dur) for ts, dur, _, _ in events]


@EXAMPLES
@given(events=times(absolute))
def test_absolute_times_without_a_base_are_exact(
    folder: Path, events: list[tuple[int, int, str, str]]
) -> None:
    assert read(folder, events, None) == [(ts, dur) for ts, dur, _, _ in events]


@EXAMPLES
@given(ns=absolute)
def test_absolute_times_of_flows_are_exact(folder: Path, ns: int) -> None:
    text = kineto_text([flow("s", 1, 7777)]).replace("7777", f"{Decimal(ns) / 1000:f}")
    path = folder / "flow.json"
    path.unlink(missing_ok=True)
    path.write_text(text)
    assert read_timeline(path, processes=1).flows.get_column("ts_ns").to_list() == [ns]
