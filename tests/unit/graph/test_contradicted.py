"""Edges against time: left out, counted by kind."""

from __future__ import annotations

import numpy as np

from tracebraid.graph.contradicted import forward_edges
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList


def test_edges_against_time_are_left_out_and_counted_by_kind() -> None:
    before, after = np.array([0, 1, 2, 3]), np.array([1, 0, 0, 3])
    kind = np.array([EdgeKind.LAUNCH, EdgeKind.LAUNCH, EdgeKind.SYNC, EdgeKind.SYNC], dtype=np.uint8)
    edges = EdgeList(before, after, np.zeros(4, dtype=np.int64), kind, after)
    kept, findings = forward_edges(edges, np.array([0, 10, 20, 30]), "trace.json")
    assert kept.before.tolist() == [0, 3]
    assert [(one.code, one.count, one.path, one.details["kind"]) for one in findings] == [
        (FindingCode.DEPENDENCY_BACKWARD, 1, "trace.json", "launch"),
        (FindingCode.DEPENDENCY_BACKWARD, 1, "trace.json", "sync"),
    ]
