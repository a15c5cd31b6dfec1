"""Edges that time contradicts are left out, and counted in a finding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["forward_edges"]


def forward_edges(
    edges: EdgeList, times_ns: NDArray[np.int64], path: str
) -> tuple[EdgeList, tuple[Finding, ...]]:
    """The edges that go forward in time, and a finding for each kind of those that do not.

    Args:
        edges: in any order.
        times_ns: of each moment.
        path: of the Kineto trace.
    """
    forward = times_ns[edges.before] <= times_ns[edges.after]
    counts = np.bincount(edges.kind[~forward], minlength=len(EdgeKind))
    findings = tuple(
        Finding.of(FindingCode.DEPENDENCY_BACKWARD, path, count=int(counts[kind]), kind=kind.name.lower())
        for kind in EdgeKind
        if counts[kind]
    )
    return edges[forward], findings
