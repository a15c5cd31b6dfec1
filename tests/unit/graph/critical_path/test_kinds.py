"""Every kind of edge and of activity has a segment kind."""

from __future__ import annotations

from tracebraid.graph.critical_path import segments
from tracebraid.graph.critical_path.slack import OWN_WORK
from tracebraid.model.graph.codes import ActivityKind, EdgeKind


def test_every_edge_is_own_work_or_has_a_kind_of_its_own() -> None:
    assert {*segments._BY_EDGE, *OWN_WORK} == set(EdgeKind)


def test_every_activity_has_a_kind() -> None:
    assert set(segments._BY_ACTIVITY) == set(ActivityKind)
