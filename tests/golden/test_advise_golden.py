"""Advice on real traces: bounds hold, and where nothing is wrong nothing is said."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.conftest import find_real_traces
from tracebraid.errors import InputError

REAL = find_real_traces()
_PATHS = [] if REAL is None else [*sorted((REAL / "kineto").iterdir()), *sorted((REAL / "pairs").iterdir())]
_MISSING = pytest.mark.skip("needs the real traces: set TRACEBRAID_TRACES to their folder")
PATHS = [pytest.param(path, id=path.name, marks=pytest.mark.traces) for path in _PATHS] or [
    pytest.param(None, marks=_MISSING, id="real traces")
]


@cache
def asked(path: Path) -> tracebraid.Advice | str:
    """The advice, or why there is none; asked for once for all tests."""
    try:
        return tracebraid.advise(tracebraid.open(path), 0)
    except InputError as error:
        return str(error)


def advice_on(path: Path) -> tracebraid.Advice:
    advice = asked(path)
    if isinstance(advice, str):
        pytest.skip(advice)
    return advice


@pytest.mark.parametrize("path", PATHS)
def test_savings_are_bounded(path: Path) -> None:
    advice = advice_on(path)
    items, by_step, evidence = advice.items, advice.by_step, advice.evidence
    assert ((items.get_column("further_ns") >= 0) & (items["further_ns"] <= items["saving_ns"])).all()
    assert advice.saving_per_step_ns <= advice.step_ns * (1 + 1e-9)
    together = by_step.group_by("rank", "step").agg(pl.col("further_ns").sum(), pl.col("step_ns").first())
    assert (together.get_column("further_ns") <= together.get_column("step_ns")).all()
    assert (evidence["saving_ns"] <= evidence["end_ns"] - evidence["start_ns"]).all()
    assert advice.findings == () or all(
        finding.code.value != "detector-failed" for finding in advice.findings
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_job_saves_no_less_than_any_of_its_ranks(path: Path) -> None:
    advice = advice_on(path)
    most = advice.by_step.group_by("item", "rank").agg(pl.col("saving_ns").sum())
    of_job = most.join(advice.items.select("item", of_job="saving_ns"), on="item")
    assert (of_job.get_column("saving_ns") <= of_job.get_column("of_job")).all()


@pytest.mark.parametrize("path", PATHS)
def test_a_replay_gains_no_more_than_the_trace_is_long(path: Path) -> None:
    alone = asked(path)
    if isinstance(alone, str):
        return
    found = tracebraid.advise(tracebraid.open(path), 0, by_graph=True)
    gains = found.items.get_column("gain_per_step_ns").drop_nulls()
    assert gains.is_between(0, found.step_ns * max(found.steps, 1)).all()
    assert found.items.height == alone.items.height
    assert found.items.get_column("saving_ns").sum() == alone.items.get_column("saving_ns").sum()
