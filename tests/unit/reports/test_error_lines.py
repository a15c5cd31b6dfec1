"""The error of the model, in words."""

from __future__ import annotations

from tracebraid.model.graph.replay_error import ReplayError
from tracebraid.reports.error_lines import error_lines


def test_nothing_compared_has_no_line() -> None:
    assert error_lines(ReplayError()) == []


def test_a_percentile_needs_several_steps() -> None:
    alone = error_lines(ReplayError(1, 0.01, 0.03))
    several = error_lines(ReplayError(2, 0.01, 0.03))
    assert ["3.0 %" in line for line in (*alone, *several)] == [False, True]


def test_a_large_modelled_share_is_stated() -> None:
    lines = error_lines(ReplayError(1, 0.001, 0.001, modelled_share=0.978))
    assert "97.8 %" in lines[0]
