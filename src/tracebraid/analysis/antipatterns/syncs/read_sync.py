"""Does the program copy tensors to the host and wait: `.cpu()`, `.tolist()`, `.to("cpu")`?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.syncs.host_waits import Waiting, waits_for
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["READ_SYNC"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    return waits_for(linked, annotation, Waiting.READ)


READ_SYNC = Detector(
    "read-sync",
    "a tensor is copied to the host, and the host waits for it",
    "Copy with non_blocking=True into pinned memory, and read it a step later; or leave it on the device",
    _detect,
    (Need.DEVICE_WORK,),
)
