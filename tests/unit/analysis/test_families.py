"""Families of analyses and the rooms that hold them."""

from __future__ import annotations

from tracebraid.analysis.catalog import ANALYSES
from tracebraid.model.analysis import Family


def test_each_family_is_a_room_of_the_same_name_and_has_analyses() -> None:
    rooms = {analysis.name: analysis.answer.__module__.split(".")[2] for analysis in ANALYSES}
    assert {analysis.name: analysis.family.value for analysis in ANALYSES} == rooms
    assert {analysis.family for analysis in ANALYSES} == set(Family)
