"""Does the step wait for the DataLoader?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import idle_after
from tracebraid.analysis.antipatterns.host.ranges import HostWork, ranges_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["DATA_LOADER"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    found = ranges_of(linked, HostWork.LOADS)
    return evidence_of(linked, annotation, idle_after(linked, annotation, found))


DATA_LOADER = Detector(
    "data-loader",
    "the step waits for the next batch",
    "Give the DataLoader more workers (num_workers, prefetch_factor, persistent_workers=True), pin_memory=True, and "
    "less work for each sample",
    _detect,
    (Need.EVENTS,),
)
