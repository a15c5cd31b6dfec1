"""The analyses of collectives over all ranks."""

from __future__ import annotations

from tracebraid.analysis.collectives.collective_bandwidth import collective_bandwidth
from tracebraid.analysis.collectives.collective_fit import collective_fit
from tracebraid.analysis.collectives.collective_imbalance import collective_imbalance
from tracebraid.analysis.collectives.collective_ranks import collective_ranks
from tracebraid.analysis.collectives.collective_totals import collective_totals
from tracebraid.analysis.collectives.collectives import collectives
from tracebraid.analysis.collectives.matched_groups import matched_groups
from tracebraid.model.answers import (
    COLLECTIVE_BANDWIDTH,
    COLLECTIVE_FIT,
    COLLECTIVE_IMBALANCE,
    COLLECTIVE_RANKS,
    COLLECTIVE_TOTALS,
    COLLECTIVES,
    MATCHED_GROUPS,
)
from tracebraid.model.questions.analysis import Family, Need
from tracebraid.model.questions.job_analysis import JobAnalysis

__all__ = ["ANALYSES"]

_NEEDS = (Need.COMMUNICATION,)
_USES = (Need.SEVERAL_RANKS, Need.STEPS, Need.COLLECTIVES)
_SIZES = (Need.SEVERAL_RANKS, Need.COLLECTIVES)

ANALYSES: tuple[JobAnalysis, ...] = (
    JobAnalysis("collectives", Family.COLLECTIVES, collectives, COLLECTIVES, needs=_NEEDS, uses=_USES),
    JobAnalysis(
        "collective_ranks", Family.COLLECTIVES, collective_ranks, COLLECTIVE_RANKS, needs=_NEEDS, uses=_USES
    ),
    JobAnalysis(
        "collective_totals",
        Family.COLLECTIVES,
        collective_totals,
        COLLECTIVE_TOTALS,
        needs=_NEEDS,
        uses=_USES,
    ),
    JobAnalysis(
        "collective_bandwidth",
        Family.COLLECTIVES,
        collective_bandwidth,
        COLLECTIVE_BANDWIDTH,
        needs=_NEEDS,
        uses=_USES,
    ),
    JobAnalysis(
        "collective_fit", Family.COLLECTIVES, collective_fit, COLLECTIVE_FIT, needs=_NEEDS, uses=_SIZES
    ),
    JobAnalysis(
        "collective_imbalance",
        Family.COLLECTIVES,
        collective_imbalance,
        COLLECTIVE_IMBALANCE,
        needs=_NEEDS,
        uses=_USES,
    ),
    JobAnalysis(
        "matched_groups", Family.COLLECTIVES, matched_groups, MATCHED_GROUPS, needs=_NEEDS, uses=_SIZES
    ),
)
