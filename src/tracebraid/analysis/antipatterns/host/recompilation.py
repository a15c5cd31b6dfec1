"""Is anything compiled anew behind the first step?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import idle_after
from tracebraid.analysis.antipatterns.host.ranges import HostWork, ranges_of
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["RECOMPILATION"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    first_end = step_windows(linked, annotation).get_column("end_ns").head(1)
    found = ranges_of(linked, HostWork.COMPILES)
    later = found.filter(pl.col("start_ns") >= pl.lit(first_end).first())
    return evidence_of(linked, annotation, idle_after(linked, annotation, later))


RECOMPILATION = Detector(
    "recompilation",
    "something is compiled anew in a later step",
    "Find out what changes with TORCH_LOGS=recompiles: mark changing sizes with torch._dynamo.mark_dynamic, keep "
    "Python values out of compiled functions",
    _detect,
    (Need.STEPS,),
)
