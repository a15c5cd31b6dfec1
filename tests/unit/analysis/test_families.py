"""Families of analyses and the rooms that hold them."""

from __future__ import annotations

from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.model.questions.analysis import Analysis, Family
from tracebraid.model.questions.job_analysis import JobAnalysis


def test_each_family_is_a_room_of_the_same_name_and_has_analyses() -> None:
    every: tuple[Analysis | JobAnalysis, ...] = (*ANALYSES, *JOB_ANALYSES)
    rooms = {analysis.name: analysis.answer.__module__.split(".")[2] for analysis in every}
    assert {analysis.name: analysis.family.value for analysis in every} == rooms
    assert {analysis.family for analysis in every} == set(Family)
