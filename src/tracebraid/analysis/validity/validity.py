"""Can the figures of each step be trusted?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers import VALIDITY
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["validity"]


def validity(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """What speaks against the figures of a step: `model.answers.VALIDITY`.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_validity, annotation)


def _validity(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    return VALIDITY.empty()
