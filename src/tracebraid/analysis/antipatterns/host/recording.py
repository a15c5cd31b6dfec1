"""Does the step save checkpoints, log, print, or compute metrics?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import idle_after
from tracebraid.analysis.antipatterns.host.ranges import HostWork, ranges_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["RECORDING"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    found = ranges_of(linked, HostWork.RECORDS)
    return evidence_of(linked, annotation, idle_after(linked, annotation, found))


RECORDING = Detector(
    "recording",
    "the step saves, logs, prints or computes metrics",
    "Record every some hundred steps, behind the step or in another thread (torch.distributed.checkpoint.async_save), "
    "with values that are on the host already",
    _detect,
    (Need.EVENTS,),
)
