"""Which iterations of a language model read prompts (prefill), and which make tokens (decode)?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.inference.iterations import iterations_by_step
from tracebraid.model.answers.inference import INFERENCE_PHASES
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["inference_phases"]


def inference_phases(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The iterations of a language model, in the order of their starts: `model.answers.INFERENCE_PHASES`.

    Annotations of vLLM, SGLang, ATOM and TensorRT-LLM say what an iteration is; without any, annotations that say
    `prefill` or `decode`; without any, the shapes of attention. A trace of training has no iterations.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    return answer(INFERENCE_PHASES, iterations_by_step(linked, annotation), linked, annotation)
