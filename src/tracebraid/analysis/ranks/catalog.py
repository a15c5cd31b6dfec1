"""The analyses of ranks against each other."""

from __future__ import annotations

from tracebraid.analysis.ranks.clocks import clocks
from tracebraid.analysis.ranks.late_arrivals import late_arrivals
from tracebraid.analysis.ranks.lateness.rank_segments import rank_segments
from tracebraid.analysis.ranks.rank_steps import rank_steps, steps_of_rank
from tracebraid.analysis.ranks.rank_waits import rank_waits
from tracebraid.analysis.ranks.stragglers import stragglers
from tracebraid.model.answers import LATE_ARRIVALS, RANK_STEPS, RANK_WAITS, STRAGGLERS
from tracebraid.model.questions.analysis import Family, Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.schema.ranks import CLOCKS

__all__ = ["ANALYSES"]

_ACROSS = (Need.SEVERAL_RANKS, Need.COMMUNICATION)

ANALYSES: tuple[JobAnalysis, ...] = (
    JobAnalysis("clocks", Family.RANKS, clocks, CLOCKS, needs=_ACROSS),
    JobAnalysis(
        "rank_steps",
        Family.RANKS,
        rank_steps,
        RANK_STEPS,
        gathers=(steps_of_rank,),
        needs=(Need.STEPS,),
        uses=_ACROSS,
    ),
    JobAnalysis("rank_waits", Family.RANKS, rank_waits, RANK_WAITS, needs=_ACROSS, uses=(Need.STEPS,)),
    JobAnalysis(
        "late_arrivals",
        Family.RANKS,
        late_arrivals,
        LATE_ARRIVALS,
        gathers=(rank_segments,),
        needs=_ACROSS,
        uses=(Need.STEPS,),
    ),
    JobAnalysis(
        "stragglers",
        Family.RANKS,
        stragglers,
        STRAGGLERS,
        gathers=(rank_segments,),
        needs=_ACROSS,
        uses=(Need.STEPS,),
    ),
)
