"""When did each step run?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers import STEPS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["steps"]


def steps(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The occurrences of an annotation on the host, in the order of their starts: `model.answers.STEPS`.

    Args:
        linked: one rank.
        annotation: its name, with or without the `#` and number behind it.
    """
    return answer(STEPS, step_windows(linked, annotation), linked, annotation)
