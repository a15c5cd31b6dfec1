"""The graphs of real traces, built once for all tests: each of a rank alone, and of jobs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import tracebraid
from tests.golden.test_analyze_golden import FILES, linked_of
from tracebraid.api.graphing import dependency_graph
from tracebraid.model.graph import DependencyGraph

JOBS = ("kineto/sampled_2_of_128", "pairs/dlrm_v100_8rank")
"""Folders with several ranks of a job."""


@cache
def graph_of(folder: Path, name: str) -> DependencyGraph:
    """The graph of a file of `FILES`, or of a job."""
    return dependency_graph(linked_of(folder, name) if name in FILES else tracebraid.open(folder / name))
