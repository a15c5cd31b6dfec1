"""What of a job is simulated: a plan for all ranks, from what their traces say of each other."""

from __future__ import annotations

from tracebraid.analysis.collectives.transfers.transfers import members_with_waits
from tracebraid.exporters.chakra.plan.job_plan import plan_job
from tracebraid.graph.joining.members import LEAST_CONFIDENCE
from tracebraid.model.chakra.job_plan import JobPlan, PlanOptions
from tracebraid.model.linked_ranks import LinkedRanks

__all__ = ["plan_of_ranks"]


def plan_of_ranks(path: str, ranks: LinkedRanks, options: PlanOptions) -> JobPlan:
    """The plan of a job: which ranks are simulated, their groups, and what each communicates in which order.

    Args:
        path: what was opened, for messages.
        ranks: the ranks that have a trace, linked with each other.
        options: what becomes of missing ranks, and which types of communication there may be.

    Raises:
        InputError: ranks are missing, and may not be, or cannot be replicated.
        ArgumentError: the world is asked to be smaller than it is.
    """
    return plan_job(path, ranks, members_with_waits(ranks), options, LEAST_CONFIDENCE)
