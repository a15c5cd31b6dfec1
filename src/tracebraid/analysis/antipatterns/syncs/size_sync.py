"""Does the program use ops whose output has a size that depends on values: `nonzero`, masks, `unique`?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.syncs.host_waits import Waiting, waits_for
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["SIZE_SYNC"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    return waits_for(linked, annotation, Waiting.SIZE)


SIZE_SYNC = Detector(
    "size-sync",
    "the host waits for a size that depends on the data",
    "Avoid boolean masks, nonzero and unique in the step: torch.where, masked_fill, or an upper bound for the size "
    "(nonzero_static)",
    _detect,
    (Need.DEVICE_WORK,),
)
