"""Each detector finds its planted pattern, and is silent on the clean scene and on the other patterns."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tests.planted import write_ranks
from tests.planted.patterns import PATTERNS
from tests.planted.scenes import clean
from tests.planted.training_loop import training_loop
from tracebraid import api
from tracebraid.analysis.antipatterns.catalog import DETECTORS, JOB_DETECTORS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.advice import Advice

ALL = [*(detector.name for detector in DETECTORS), *(detector.name for detector in JOB_DETECTORS)]
_LEAST = 0.001
"""Of a step: what is less is the size of a launch."""


@cache
def advice_on(pattern: str) -> Advice:
    scenes = PATTERNS[pattern].scenes
    if len(scenes) == 1:
        return api.advise(scenes[0].linked(), _LEAST)
    with tempfile.TemporaryDirectory() as folder:
        return api.advise(api.open(write_ranks(Path(folder), scenes)), _LEAST)


def saved(advice: Advice) -> dict[str, int]:
    sums = advice.items.group_by("detector").agg(pl.col("saving_ns").sum())
    return dict(sums.iter_rows())


def test_every_detector_has_its_pattern() -> None:
    assert sorted(PATTERNS) == sorted(ALL)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_only_its_detector_finds_a_pattern(pattern: str) -> None:
    found = saved(advice_on(pattern))
    least, most = PATTERNS[pattern].saving_ns
    assert list(found) == [pattern]
    assert least <= found[pattern] <= most


@pytest.mark.parametrize("pattern", PATTERNS)
def test_evidence_names_events_of_the_trace(pattern: str) -> None:
    evidence = advice_on(pattern).evidence
    assert not evidence.is_empty()
    assert (evidence.get_column("saving_ns") > 0).all()
    long = evidence.get_column("end_ns") - evidence.get_column("start_ns")
    assert (evidence.get_column("saving_ns") <= long).all()


@pytest.mark.parametrize("traces", [clean().linked(), training_loop().linked()], ids=["clean", "loop"])
def test_nothing_is_found_where_nothing_is_wrong(traces: LinkedTrace) -> None:
    advice = api.advise(traces, _LEAST)
    assert advice.items.rows() == []
    assert not advice.is_unanswerable


def test_a_job_is_read_once_however_often_it_is_asked(tmp_path: Path) -> None:
    job = api.open(write_ranks(tmp_path, PATTERNS["rank-imbalance"].scenes))
    first = api.advise(job, _LEAST)
    for file in tmp_path.rglob("*.json*"):
        file.unlink()
    assert api.advise(job, _LEAST).items.equals(first.items)
    assert api.advise(job, 1.0).items.height <= first.items.height
