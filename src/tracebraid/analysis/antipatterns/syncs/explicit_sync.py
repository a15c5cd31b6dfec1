"""Does the program wait for the device by itself: `torch.cuda.synchronize()`, `event.synchronize()`?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.syncs.host_waits import Waiting, waits_for
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["EXPLICIT_SYNC"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    return waits_for(linked, annotation, Waiting.EXPLICIT)


EXPLICIT_SYNC = Detector(
    "explicit-sync",
    "the program asks the host to wait for the device",
    "Remove torch.cuda.synchronize() and event.synchronize() from the step; measure times with events, and read those "
    "behind the step",
    _detect,
    (Need.DEVICE_WORK,),
)
