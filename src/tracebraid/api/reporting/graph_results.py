"""The critical path and the sweep of a report, where the traces are not too large for a dependency graph."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl

from tracebraid.api.critical_paths import PathOptions, critical_path_of_graph
from tracebraid.api.graphing import graph_of_ranks
from tracebraid.api.reporting.options import ReportOptions
from tracebraid.api.reporting.rank_results import RankResults
from tracebraid.api.sweeping import sweep
from tracebraid.errors import ArgumentError, MissingLibraryError
from tracebraid.model.finding import Finding
from tracebraid.model.graph.critical_path import CriticalPath

__all__ = ["GRAPH_EVENTS", "GraphResults", "graph_results"]

GRAPH_EVENTS = 250_000
"""Events of all ranks together, up to which the graph is made: two seconds for a trace of 54 MB."""
_SWEPT = 40
"""Groups whose gains are computed."""


@dataclass(frozen=True, eq=False)
class GraphResults:
    """What the dependency graph says.

    Args:
        path: the critical path of the steps; None where there is no graph.
        sweep: what-if answers; None where there is no graph.
        problem: why there is none.
        findings: what was noticed.
    """

    path: CriticalPath | None = None
    sweep: pl.DataFrame | None = None
    problem: str = ""
    findings: tuple[Finding, ...] = ()


def graph_results(ranks: Sequence[RankResults], with_graph: bool, options: ReportOptions) -> GraphResults:
    """The critical path and the sweep of the ranks.

    Args:
        ranks: what was taken of each.
        with_graph: whether they are made.
        options: what was asked.

    Raises:
        MissingLibraryError: they are asked for, and numba is not installed.
    """
    missing = next((rank.without_graph for rank in ranks if rank.without_graph), "")
    if missing and options.with_graph:
        raise MissingLibraryError(missing)
    if missing:
        return GraphResults(problem=missing)
    parts = [rank.graph for rank in ranks if rank.graph is not None]
    if not with_graph or not parts:
        if options.with_graph is False:
            return GraphResults(problem="It was not asked for: give --critical-path")
        return GraphResults(
            problem=f"The traces have more than {GRAPH_EVENTS:,} events: give --critical-path, which takes a while, "
            "or name a rank: --rank"
        )
    try:
        graph = graph_of_ranks(parts, options.annotation)
        # Both take most of their time in compiled code, which runs on several cores.
        with ThreadPoolExecutor(1) as other:
            sweeping = other.submit(sweep, graph, groups=_SWEPT, annotation=options.annotation)
            # The page does not show how stable the path is.
            path = critical_path_of_graph(graph, PathOptions(replays=0), with_error=True)
        swept = sweeping.result()
    except MissingLibraryError as error:
        if options.with_graph:
            raise
        return GraphResults(problem=str(error))
    except ArgumentError as error:
        return GraphResults(problem=str(error))
    return GraphResults(path, swept, "", graph.findings)
