"""What a check keeps of a rank: its own faults, its communication, and what that waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from tracebraid.chakra.checking.astra_sim import astra_faults, ready_faults
from tracebraid.chakra.checking.communication import (
    COMMUNICATION_TYPES,
    communication_faults,
    communication_of,
)
from tracebraid.chakra.checking.lint_located import Located
from tracebraid.chakra.checking.node_faults import dependency_faults, node_faults
from tracebraid.chakra.checking.skeleton import Skeleton, skeleton_of
from tracebraid.chakra.dependencies import rank_dependencies, run_order
from tracebraid.model.chakra.chakra_rank import ChakraRank
from tracebraid.model.chakra.lint import CheckedChakraRank, LintFinding
from tracebraid.model.chakra.lint_code import LintCode, Simulator
from tracebraid.model.finding import Finding

__all__ = ["RankFacts", "rank_facts"]

_COLUMNS = (
    *("node_id", "name", "type", "duration_micros", "is_cpu_op", "comm_type", "comm_size"),
    *("comm_src", "comm_dst", "comm_tag", "pg_name"),
)


@dataclass(frozen=True, eq=False)
class RankFacts:
    """What a check keeps of a rank.

    Args:
        checked: the rank in numbers.
        findings: its own faults.
        communication: the nodes that communicate, in the order in which they are issued where nothing holds the rank
            up: `entry` (of the skeleton; null: it never runs), `lane_order` (of what is ready the lane takes the
            least), `node_id`, `type`, `comm_type`, `comm_size`, `src`, `dst`, `comm_tag`, `group`.
        skeleton: what communication waits for.
    """

    checked: CheckedChakraRank
    findings: tuple[LintFinding, ...]
    communication: pl.DataFrame
    skeleton: Skeleton


def rank_facts(rank: ChakraRank, path: str, simulator: Simulator | None = None) -> RankFacts:
    """The facts of a rank.

    Args:
        rank: its nodes.
        path: of its file.
        simulator: whose own limits are checked as well; None: what Chakra allows is right.
    """
    located = Located(rank.rank, path)
    nodes = rank.nodes.select(_COLUMNS).with_columns(pl.col("type").cast(pl.String))
    dependencies = rank_dependencies(rank)
    order = run_order(dependencies)
    found = [*node_faults(nodes, located), *dependency_faults(nodes, dependencies, order, located)]
    communication = communication_of(nodes, rank.rank)
    found += communication_faults(communication, located)
    kind = np.zeros(nodes.height, dtype=np.int8)
    rows = communication.get_column("row").to_numpy()
    is_collective = (communication.get_column("type") == COMMUNICATION_TYPES[0]).to_numpy()
    kind[rows] = np.where(is_collective, 1, 2)
    duration = nodes.get_column("duration_micros").fill_null(0).clip(lower_bound=0).to_numpy()
    skeleton = skeleton_of(dependencies, order, kind, duration)
    issued = _issued(communication, skeleton)
    found += _order_faults(issued, located)
    if simulator is Simulator.ASTRA_SIM:
        found += astra_faults(nodes, communication, located)
        found += ready_faults(dependencies, order, located)
    counts = [int((communication.get_column("type") == name).sum()) for name in COMMUNICATION_TYPES]
    checked = CheckedChakraRank(
        rank.rank, path, nodes.height, len(rank.data_deps) + len(rank.ctrl_deps), *counts
    )
    damage = [_of_file(finding, path) for finding in rank.findings]
    kept = issued.drop("row", "start_us", "level", "is_cpu_op", "comm_src", "comm_dst", "is_group_number")
    return RankFacts(checked, (*damage, *found), kept, skeleton)


def _of_file(finding: Finding, path: str) -> LintFinding:
    """What the reader noticed."""
    problem = f"{finding.where}: {finding.message}" if finding.where else finding.message
    code = LintCode.FILE_NOTED if finding.loss is None else LintCode.FILE_DAMAGED
    return LintFinding(code, path, (), finding.count, {"problem": problem})


def _issued(communication: pl.DataFrame, skeleton: Skeleton) -> pl.DataFrame:
    """In the order of the earliest start; what waits for each other keeps its order, all else that of ids."""
    entries = pl.DataFrame(
        {
            "row": skeleton.row,
            "entry": np.arange(len(skeleton.row)),
            "start_us": skeleton.start_us,
            "level": skeleton.level,
        }
    )
    joined = communication.drop("name", "duration_micros", "pg_name").join(entries, on="row", how="left")
    # Of what is ready the lane takes the smallest id.
    joined = joined.sort("start_us", "node_id", nulls_last=True).with_row_index("lane_order")
    return joined.sort("start_us", "level", "lane_order", nulls_last=True)


def _order_faults(issued: pl.DataFrame, located: Located) -> list[LintFinding]:
    """Whether the collectives of a rank have a first and a next, whatever time they take."""
    collectives = issued.filter((pl.col("type") == COMMUNICATION_TYPES[0]) & pl.col("entry").is_not_null())
    if collectives.select("group", "comm_type", "comm_size").n_unique() < 2:
        return []
    at_once = collectives.filter(pl.col("level").is_duplicated())
    if not at_once.height:
        return []
    first = at_once.filter(pl.col("level") == at_once.item(0, "level")).get_column("node_id").to_list()
    later = at_once.filter(pl.col("level") != at_once.item(0, "level")).get_column("node_id").to_list()
    return [located.finding(LintCode.ORDER_BY_TIME, [*first, *later])]
