"""The bar that commands show on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from tracebraid.cli import output
from tracebraid.model.rank_files import RanksDone


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(output, "_SHOW_AFTER_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return made


def test_the_bar_shows_share_ranks_and_time_left(terminal: Terminal) -> None:
    with output.progress("reading") as update:
        update(RanksDone(0.3, 1, 1024))
        update(RanksDone(0.5, 512, 1024))
    shown = terminal.getvalue()
    assert "reading" in shown
    assert "50%" in shown
    assert "512 of 1,024 ranks" in shown
    assert "left" in shown


@pytest.mark.parametrize("fraction", [0.5, RanksDone(0.5, 0, 1)])
def test_the_bar_counts_no_ranks_where_there_are_not_several(terminal: Terminal, fraction: float) -> None:
    with output.progress("reading") as update:
        update(fraction)
    assert "50%" in terminal.getvalue()
    assert "rank" not in terminal.getvalue()


def test_nothing_is_shown_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_SHOW_AFTER_S", 0.0)
    with output.progress("reading") as update:
        update(0.5)
    assert capsys.readouterr() == ("", "")
