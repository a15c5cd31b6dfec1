"""The table of what analyses take."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.analyses import EQUIVALENTS, analysis_rows
from benchmarks.measure import Measured, task
from tests.planted.scenes import clean
from tracebraid.analysis.catalog import rank_analyses


def ours(breakdown: float, steps: float) -> Measured:
    alone = {"alone breakdown": breakdown, "alone steps": steps}
    together = {"together breakdown": 0.1, "together steps": 0.1, "rows breakdown": 3, "rows steps": 2}
    return Measured(1.0, 1.0, 100, {"linking": 0.5, **alone, **together})


def test_the_slowest_comes_first_and_linking_and_all_last() -> None:
    rows = analysis_rows([ours(0.1, 0.3), ours(0.2, 0.4), ours(0.1, 0.5)], [])
    assert [(row.subject, row.seconds) for row in rows[:2]] == [("steps", 0.4), ("breakdown", 0.1)]
    assert [row.seconds for row in rows[2:]] == [0.5, 1.0]
    assert rows[0].figures == {"ms": 400.0, "ms together": 100.0, "rows": 2}


def test_beside_hta_the_ratio_is_that_of_the_rounds() -> None:
    hta = [Measured(9.0, 9.0, 1, {"get_temporal_breakdown": seconds}) for seconds in (2.0, 8.0, 3.0)]
    rows = analysis_rows([ours(0.1, 0.1), ours(0.2, 0.1), ours(0.1, 0.1)], hta)
    by_name = {row.subject: row for row in rows}
    assert by_name["breakdown"].figures["times HTA"] == 30.0
    assert "times HTA" not in by_name["steps"].figures
    assert rows[-1].figures["times HTA"] == 30.0
    assert rows[-1].target is not None
    assert rows[-1].target.met


def test_what_hta_cannot_answer_is_left_out() -> None:
    rows = analysis_rows([ours(0.1, 0.1)], [Measured(1.0, 1.0, 1, {})])
    assert all("times HTA" not in row.figures for row in rows)


def test_the_target_is_about_a_single_trace() -> None:
    assert [row.target for row in analysis_rows([ours(0.1, 0.1)], [])] == [None] * 4
    assert analysis_rows([ours(0.1, 0.1)], [], has_target=True)[-1].target is not None


def test_no_two_functions_of_hta_share_an_analysis() -> None:
    assert len(set(EQUIVALENTS.values())) == len(EQUIVALENTS)


@pytest.mark.full
@pytest.mark.slow
def test_every_analysis_is_measured(tmp_path: Path) -> None:
    path = clean(steps=1).write(tmp_path)
    parts = task("tasks:analyses", path).parts
    names = [analysis.name for analysis in rank_analyses()]
    kinds = ("alone", "together", "rows")
    assert parts.keys() == {"linking", *(f"{kind} {name}" for kind in kinds for name in names)}
