"""What is wrong with the nodes of a rank and with what they wait for."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.chakra.checking.cycles import cycle_of
from tracebraid.chakra.checking.lint_located import Located, short
from tracebraid.chakra.dependencies import RankDependencies
from tracebraid.model.chakra.codes import NodeType
from tracebraid.model.chakra.lint import LintFinding
from tracebraid.model.chakra.lint_code import LintCode

__all__ = ["dependency_faults", "node_faults"]

_NODES_OF_A_CIRCLE = 8
"""Of a longer circle the first are named."""
_RUNNABLE = [kind.name for kind in NodeType if kind is not NodeType.INVALID_NODE]


def node_faults(nodes: pl.DataFrame, located: Located) -> list[LintFinding]:
    """Faults of ids, types and durations.

    Args:
        nodes: `CHAKRA_NODES` with `type` as text.
        located: of the rank.
    """
    if not nodes.height:
        return [located.finding(LintCode.NO_NODES, [])]
    node_id, duration = pl.col("node_id"), pl.col("duration_micros")
    unknown = ~pl.col("type").is_in(_RUNNABLE) | pl.col("type").is_null()
    found = located.where(nodes, node_id < 0, LintCode.ID_NEGATIVE)
    if nodes.get_column("node_id").n_unique() < nodes.height:
        found += located.where(nodes, ~node_id.is_first_distinct(), LintCode.ID_DUPLICATE)
    found += located.where_values(nodes, unknown, LintCode.TYPE_UNKNOWN, "type", "type")
    negative = nodes.filter(duration < 0)
    if negative.height:
        first = negative.item(0, "duration_micros")
        ids = negative.get_column("node_id")
        found.append(located.finding(LintCode.DURATION_NEGATIVE, ids, duration=first))
    return found


def dependency_faults(
    nodes: pl.DataFrame, dependencies: RankDependencies, order: NDArray[np.int64], located: Located
) -> list[LintFinding]:
    """Dependencies on nothing and on oneself, circles, and a rank in which nothing can begin."""
    ids = nodes.get_column("node_id").to_numpy()
    found = []
    if len(dependencies.dangling_row):
        missing = int(dependencies.dangling_id[0])
        waiting = ids[dependencies.dangling_row].tolist()
        found.append(located.finding(LintCode.DEPENDENCY_DANGLING, waiting, missing=missing))
    if len(dependencies.self_row):
        found.append(located.finding(LintCode.DEPENDENCY_SELF, ids[dependencies.self_row].tolist()))
    if len(order) < len(ids):
        circle = cycle_of(dependencies, order)
        if circle:
            names = nodes.get_column("name").gather(circle[:_NODES_OF_A_CIRCLE]).to_list()
            shown = [f"{ids[row]} ({short(name or '')})" for row, name in zip(circle, names, strict=False)]
            more = [f"{len(circle) - len(shown):,} more"] if len(circle) > len(shown) else []
            cycle = " waits for ".join([*shown, *more, str(ids[circle[0]])])
            never = len(ids) - len(order)
            in_circle = ids[circle].tolist()
            fault = located.finding(LintCode.DEPENDENCY_CYCLE, in_circle, cycle=cycle, nodes=never)
            found.append(LintFinding(fault.code, fault.path, fault.nodes, 1, fault.details))
    if len(ids) and not len(order):
        found.append(located.finding(LintCode.NO_START_NODE, [], nodes=len(ids)))
    return found
