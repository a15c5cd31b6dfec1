"""`JobPlan`: what of a job is simulated: its ranks, its groups and what each rank communicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from tracebraid.model.chakra.chakra_rank import AttributeValue
from tracebraid.model.chakra.codes import Dialect, MissingRanks
from tracebraid.model.finding import Finding
from tracebraid.model.schema.chakra import CHAKRA_COMMUNICATION

__all__ = ["JobPlan", "PlanOptions", "PlannedGroup", "PlannedRank"]


@dataclass(frozen=True)
class PlanOptions:
    """How a job becomes a plan.

    Args:
        missing: what becomes of ranks of the world that have no trace.
        dialect: which types of communication the nodes may have.
        world_size: ranks that are simulated, at least those of the traces' world; None: as many as these.
        steps: names of the steps that are simulated; None: all of the traces.
        least_confidence: members that were matched with less are not simulated together, 0 to 1.
    """

    missing: MissingRanks = MissingRanks.REFUSE
    dialect: Dialect = Dialect.CHAKRA
    world_size: int | None = None
    steps: tuple[str, ...] | None = None
    least_confidence: float = 0.5


@dataclass(frozen=True)
class PlannedRank:
    """A rank that is simulated.

    Args:
        rank: its number in the simulation, dense from 0 up: that of its file.
        world_rank: its number in the job.
        source: the rank, by its number in the job, of whose trace its work is; another one where it is missing.
    """

    rank: int
    world_rank: int
    source: int

    @property
    def is_replica(self) -> bool:
        """Whether it has no trace of its own."""
        return self.source != self.world_rank


@dataclass(frozen=True)
class PlannedGroup:
    """A process group that is simulated.

    Args:
        number: its number; 0: all ranks, which needs no entry in a comm-group file.
        ranks: the simulated ranks, in the order of the group.
        world_ranks: the job's numbers of all of its ranks; those that are missing may be left out of `ranks`.
        name: what the traces call it; of a group of missing ranks as that which it was made from; None: unknown.
        description: likewise.
    """

    number: int
    ranks: tuple[int, ...]
    world_ranks: tuple[int, ...]
    name: str | None = None
    description: str | None = None


@dataclass(frozen=True, eq=False)
class JobPlan:
    """What of a job is simulated.

    Args:
        options: how it was made.
        traced_world: ranks of the job, as the traces say.
        ranks: the ranks that are simulated, in the order of their numbers.
        groups: the groups that they communicate in, in the order of their numbers.
        communication: `CHAKRA_COMMUNICATION` of all ranks, with `rank`, by rank and order.
        counts: what was mapped to what, and how often: of all ranks together.
        findings: what was noticed.
    """

    options: PlanOptions
    traced_world: int
    ranks: tuple[PlannedRank, ...]
    groups: tuple[PlannedGroup, ...]
    communication: pl.DataFrame
    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        """What it is, in brief."""
        return (
            f"JobPlan(ranks={len(self.ranks)}, groups={len(self.groups)}, "
            f"communication={self.communication.height}, findings={len(self.findings)})"
        )

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of the job that have no trace, by their numbers in the job."""
        known = {rank.source for rank in self.ranks}
        return tuple(number for number in range(self.traced_world) if number not in known)

    def of_source(self, source: int) -> tuple[PlannedRank, ...]:
        """The simulated ranks whose work is of the trace of a rank: itself and those that replicate it."""
        return tuple(rank for rank in self.ranks if rank.source == source)

    def communication_of(self, rank: int) -> pl.DataFrame:
        """`CHAKRA_COMMUNICATION` of a simulated rank, by its dense number."""
        return CHAKRA_COMMUNICATION.conform(self.communication.filter(pl.col("rank") == rank))

    def comm_groups(self) -> dict[str, list[int]]:
        """The content of a comm-group file: the ranks of each group, by its number as text."""
        return {str(group.number): list(group.ranks) for group in self.groups if group.number}

    def attributes(self) -> tuple[tuple[str, AttributeValue], ...]:
        """What the metadata of each file says of the plan: the same for all ranks and every engine."""
        replicas = sum(rank.is_replica for rank in self.ranks)
        return (
            ("missing_ranks", self.options.missing.value),
            ("dialect", self.options.dialect.value),
            ("traced_world_size", self.traced_world),
            ("world_size", len(self.ranks)),
            ("replicated_ranks", replicas),
            *((f"communication.{name}", count) for name, count in self.counts.items()),
        )

    def facts(self) -> dict[str, object]:
        """What is what, for people and programs: ranks, groups and what was mapped."""
        return {
            "missing_ranks": self.options.missing.value,
            "dialect": self.options.dialect.value,
            "traced_world_size": self.traced_world,
            "world_size": len(self.ranks),
            "ranks": [
                {"rank": rank.rank, "world_rank": rank.world_rank, "source": rank.source}
                for rank in self.ranks
            ],
            "groups": [
                {
                    "pg_name": str(group.number),
                    "name": group.name,
                    "description": group.description,
                    "ranks": list(group.ranks),
                    "world_ranks": list(group.world_ranks),
                }
                for group in self.groups
            ],
            "communication": dict(self.counts),
        }
