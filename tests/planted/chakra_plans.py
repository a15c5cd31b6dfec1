"""Plans of made jobs, and a simulator that does nothing but wait: which ranks never end?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import polars as pl

from tests.unit.linking.ranks.made_members import MadeJob, facts
from tracebraid.chakra import Dialect, MissingRanks
from tracebraid.chakra.plan.job_plan import plan_job
from tracebraid.chakra.plan.world import JobPlan, PlanOptions
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.schema.links import MEMBERS

SHRINK, REPLICATE = MissingRanks.SHRINK, MissingRanks.REPLICATE


def linked_job(job: MadeJob, present: Sequence[int] | None = None) -> LinkedRanks:
    """The ranks of a job that have a trace, linked with each other."""
    ranks = list(range(job.world)) if present is None else list(present)
    rows = job.frame().select(*MEMBERS.polars_schema()) if job.rows else MEMBERS.empty()
    parts = [RankParts(facts([rank], job.world), rows.filter(pl.col("rank") == rank)) for rank in ranks]
    return link_ranks(parts)


def plan_of(
    job: MadeJob,
    present: Sequence[int] | None = None,
    missing: MissingRanks = MissingRanks.REFUSE,
    dialect: Dialect = Dialect.ASTRA_SIM,
    **options: Any,
) -> JobPlan:
    return plan_job("job", linked_job(job, present), PlanOptions(missing, dialect, **options))


def stuck_ranks(plan: JobPlan) -> list[int]:
    """The ranks that never end, where each does its communication in its order, one after the other.

    A send ends at once, a receive when its send was made, a collective when all ranks of its group are at it.
    """
    lanes = [plan.communication_of(rank.rank).sort("order").rows(named=True) for rank in plan.ranks]
    groups = {number: tuple(ranks) for number, ranks in plan.comm_groups().items()}
    world = tuple(range(len(plan.ranks)))
    at = [0] * len(lanes)
    sent: Counter[tuple[int, int, int, int]] = Counter()
    moved = True
    while moved:
        moved = False
        for rank, lane in enumerate(lanes):
            while at[rank] < len(lane) and _can_pass(rank, lanes, at, groups, world, sent):
                moved = True
    return [rank for rank, lane in enumerate(lanes) if at[rank] < len(lane)]


def _can_pass(
    rank: int,
    lanes: list[list[dict[str, Any]]],
    at: list[int],
    groups: dict[str, tuple[int, ...]],
    world: tuple[int, ...],
    sent: Counter[tuple[int, int, int, int]],
) -> bool:
    """Lets a rank, or all ranks of its collective, pass what is next, if it can be passed."""
    node = lanes[rank][at[rank]]
    if node["type"] == "COMM_SEND_NODE":
        sent[rank, node["comm_dst"], node["comm_tag"], node["comm_size"]] += 1
        at[rank] += 1
        return True
    if node["type"] == "COMM_RECV_NODE":
        key = (node["comm_src"], rank, node["comm_tag"], node["comm_size"])
        if not sent[key]:
            return False
        sent[key] -= 1
        at[rank] += 1
        return True
    members = world if node["pg_name"] is None else groups[node["pg_name"]]
    assert rank in members
    what = ("type", "comm_type", "comm_size", "pg_name")
    there = [lanes[other][at[other]] for other in members if at[other] < len(lanes[other])]
    if len(there) < len(members) or any(
        [one[name] for name in what] != [node[name] for name in what] for one in there
    ):
        return False
    for other in members:
        at[other] += 1
    return True


def disagreements(plan: JobPlan) -> list[tuple[object, ...]]:
    """Collectives whose members have another order number, or that not all ranks of their group have."""
    by_order = defaultdict(set)
    rows = plan.communication.filter(pl.col("type") == "COMM_COLL_NODE")
    for rank, order, group in rows.select("rank", "order", "pg_name").iter_rows():
        by_order[order, group].add(rank)
    world = list(range(len(plan.ranks)))
    groups = plan.comm_groups()
    return [
        key for key, ranks in by_order.items() if ranks != set(world if key[1] is None else groups[key[1]])
    ]
