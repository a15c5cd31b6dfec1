"""The bar that commands show on a terminal."""

from __future__ import annotations

import io
from contextlib import redirect_stderr

import pytest

from tracebraid.cli import output
from tracebraid.model.rank_files import RanksDone


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar waits for no second, and the terminal is wide."""
    monkeypatch.setattr(output, "_SHOW_AFTER_S", -1.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


def shown_of(*fractions: float) -> str:
    """What a terminal gets."""
    with redirect_stderr(Terminal()) as terminal, output.progress("reading") as update:
        for fraction in fractions:
            update(fraction)
    return terminal.getvalue()


def test_the_bar_shows_share_ranks_and_time_left() -> None:
    shown = shown_of(RanksDone(0.3, 1, 1024), RanksDone(0.5, 512, 1024))
    assert "reading" in shown
    assert "50%" in shown
    assert "512 of 1,024 ranks" in shown
    assert "left" in shown


@pytest.mark.parametrize("fraction", [0.5, RanksDone(0.5, 0, 1)])
def test_the_bar_counts_no_ranks_where_there_are_not_several(fraction: float) -> None:
    shown = shown_of(fraction)
    assert "50%" in shown
    assert "rank" not in shown


def test_nothing_is_shown_where_there_is_no_terminal() -> None:
    with redirect_stderr(io.StringIO()) as file, output.progress("reading") as update:
        update(0.5)
    assert file.getvalue() == ""
