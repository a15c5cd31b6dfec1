"""Does the program read single values from the device: `.item()`, `float(tensor)`, `if tensor:`?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.syncs.host_waits import Waiting, waits_for
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["ITEM_SYNC"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    return waits_for(linked, annotation, Waiting.ITEM)


ITEM_SYNC = Detector(
    "item-sync",
    "a value is read from the device in the step",
    "Keep the value on the device (add losses up as tensors), and read it every some hundred steps, or behind the step",
    _detect,
    (Need.DEVICE_WORK,),
)
