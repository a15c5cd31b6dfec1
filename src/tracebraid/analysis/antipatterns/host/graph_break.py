"""Does the host interpret Python between compiled regions of a step?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import idle_after, is_on_device
from tracebraid.analysis.event_names import event_names
from tracebraid.analysis.time.intervals import cover_of
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["GRAPH_BREAK"]

_REGION = "Torch-Compiled Region"
_BACKWARD = "autograd::engine::evaluate_function"


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    if not any(name.startswith(_REGION) for name in event_names(linked)):
        return evidence_of(linked, annotation, _NONE)
    ops = linked.timeline.of_role(Role.OP, Role.ANNOTATION).select(
        "event_id", as_text("name"), "lane", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("stop_ns")
    )
    found = _between_regions(linked, annotation, ops)
    return evidence_of(
        linked,
        annotation,
        idle_after(linked, annotation, found) if is_on_device(linked) else _outside_of_ops(found, ops),
    )


def _between_regions(linked: LinkedTrace, annotation: str, ops: pl.DataFrame) -> pl.DataFrame:
    """From the end of each region to the next one of its thread and step, where no backward pass begins between."""
    regions = ops.filter(pl.col("name").str.starts_with(_REGION)).sort("lane", "ts_ns", "event_id")
    regions = step_of_moments(regions, step_windows(linked, annotation))
    before = pl.col("stop_ns").cum_max().shift(1).over("lane")
    found = regions.with_columns(
        before.alias("start_ns"), pl.col("step").shift(1).over("lane").alias("step_before")
    ).filter((pl.col("start_ns") < pl.col("ts_ns")) & pl.col("step").eq_missing(pl.col("step_before")))
    backward = np.sort(ops.filter(pl.col("name").str.starts_with(_BACKWARD)).get_column("ts_ns").to_numpy())
    starts, ends = (found.get_column(name).to_numpy() for name in ("start_ns", "ts_ns"))
    alone = np.searchsorted(backward, starts) == np.searchsorted(backward, ends)
    return found.filter(pl.Series(alone)).select(
        "start_ns", pl.col("ts_ns").alias("end_ns"), "event_id", pl.lit(_REGION).alias("op")
    )


def _outside_of_ops(found: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Without a device ops between regions compute: what could be saved is the rest."""
    computing = ops.filter(pl.col("name").str.starts_with("aten::"))
    cover = cover_of(*(computing.get_column(name).to_numpy() for name in ("ts_ns", "stop_ns")))
    starts, ends = (found.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    return found.with_columns(pl.Series("saving_ns", ends - starts - cover.within(starts, ends)))


_NONE = pl.DataFrame(
    schema={"start_ns": pl.Int64, "end_ns": pl.Int64, "saving_ns": pl.Int64, "event_id": pl.Int64}
)

GRAPH_BREAK = Detector(
    "graph-break",
    "Python runs between the compiled regions of a step",
    "Find graph breaks with TORCH_LOGS=graph_breaks and remove them (print, .item(), calls of other libraries), or "
    "compile what encloses the regions, with fullgraph=True",
    _detect,
    (Need.STEPS,),
)
