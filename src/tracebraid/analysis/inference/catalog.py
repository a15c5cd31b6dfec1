"""The analyses of inference."""

from __future__ import annotations

from tracebraid.analysis.inference.batch_sizes import batch_sizes
from tracebraid.analysis.inference.graph_replays import graph_replays
from tracebraid.analysis.inference.inference_phases import inference_phases
from tracebraid.analysis.inference.token_times import token_times
from tracebraid.model.answers.inference import BATCH_SIZES, GRAPH_REPLAYS, INFERENCE_PHASES, TOKEN_TIMES
from tracebraid.model.questions.analysis import Analysis, Family, Need

__all__ = ["ANALYSES"]

_NEEDS = (Need.INFERENCE_ITERATIONS,)

ANALYSES = (
    Analysis(
        "inference_phases",
        Family.INFERENCE,
        inference_phases,
        INFERENCE_PHASES,
        needs=_NEEDS,
        uses=(Need.DEVICE_WORK,),
    ),
    Analysis(
        "token_times", Family.INFERENCE, token_times, TOKEN_TIMES, needs=_NEEDS, uses=(Need.DEVICE_WORK,)
    ),
    Analysis("batch_sizes", Family.INFERENCE, batch_sizes, BATCH_SIZES, needs=_NEEDS),
    Analysis("graph_replays", Family.INFERENCE, graph_replays, GRAPH_REPLAYS, needs=(Need.GRAPH_LAUNCHES,)),
)
