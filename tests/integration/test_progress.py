"""The bar that commands show on a terminal."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest

import tracebraid
from tests.builders import kineto_text, op, write
from tests.waiting import CountedClock
from tracebraid.cli import output
from tracebraid.model.rank_files import RanksDone


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal is wide."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def shown_of(*fractions: float) -> str:
    """What a terminal gets."""
    with redirect_stderr(Terminal()) as terminal, output.progress("reading") as update:
        for fraction in fractions:
            update(fraction)
    return terminal.getvalue()


def test_the_bar_shows_share_ranks_and_time_left(counted_clock: CountedClock) -> None:
    with redirect_stderr(Terminal()) as terminal, output.progress("reading") as update:
        for share, done in ((0.3, 1), (0.5, 512)):
            counted_clock.pause(90.0)
            update(RanksDone(share, done, 1024))
    shown = terminal.getvalue()
    assert "reading" in shown
    assert "50%" in shown
    assert "512 of 1,024 ranks" in shown
    assert "0:03:00 left" in shown


@pytest.mark.parametrize("fraction", [0.5, RanksDone(0.5, 0, 1)])
def test_the_bar_counts_no_ranks_where_there_are_not_several(fraction: float) -> None:
    shown = shown_of(fraction)
    assert "50%" in shown
    assert "rank" not in shown


def test_the_bar_is_there_before_anything_is_known() -> None:
    assert "reading" in shown_of()


def test_reading_a_rank_is_half_of_the_work_on_it(tmp_path: Path) -> None:
    shares: list[float] = []
    trace = write(tmp_path / "trace.json", kineto_text([op("aten::mm", 0, 5), op("aten::mm", 10, 5)]))
    job = tracebraid.open(trace, progress=shares.append)
    [_] = job.each(lambda linked: shares.append(-1.0))
    answered = shares.index(-1.0)
    assert shares[:answered] == sorted(shares[:answered])
    assert max(shares[:answered]) <= 0.5
    assert shares[-1] == 1.0


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    with redirect_stderr(io.StringIO()) as file, output.progress("reading") as update:
        update(0.5)
    assert file.getvalue() == ""
