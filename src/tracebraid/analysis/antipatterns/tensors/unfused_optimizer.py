"""An optimizer that launches its ops for each parameter alone."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.work_of_ops import work_of_ops
from tracebraid.analysis.efficiency.costs_by_shape import LATENCY_NS
from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.analysis.time.intervals import cover_of
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTOR", "LEAST_RUNS", "unfused_optimizer"]

LEAST_RUNS = 10
"""Runs of the same op in one step of the optimizer from which on it goes over parameters one by one."""

_STEP = r"^Optimizer\.step#"
_PER_PARAMETER = (
    r"^aten::(?:add|addcdiv|addcmul|clamp_min|copy|div|lerp|maximum|mul|neg|pow|"
    r"reciprocal|rsqrt|sign|sqrt|sub|zero)_?$"
)
"""Elementwise ops of which optimizers are made, on one tensor each; `_foreach_` and `_fused_` ops take lists."""

_Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def unfused_optimizer(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Steps of an optimizer in which an elementwise op runs `LEAST_RUNS` times or more, on one tensor each.

    An occurrence lasts from the first to the last work of these ops. Fused, it takes at least as long as the most
    expensive of the ops over all parameters, without the `LATENCY_NS` that each small kernel takes anyway. So it
    saves at most the time of these ops and the idle time between them, less that.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    ops = _ops_of_steps(linked)
    work = work_of_ops(linked, annotation, ops.get_column("op_event")).filter(~pl.col("leaves"))
    work = work.join(ops, on="op_event", how="inner", maintain_order="left")
    counted = work.filter(pl.len().over("optimizer", "name") >= LEAST_RUNS)
    needed = pl.max_horizontal(pl.col("dur_ns") - LATENCY_NS * pl.max_horizontal("kernels", 1), 0)
    least = counted.group_by("optimizer", "name").agg(needed.sum().alias("least_ns"))
    least = least.group_by("optimizer").agg(pl.col("least_ns").max())
    found = (
        counted.sort("start_ns", "op_event")
        .group_by("optimizer", maintain_order=True)
        .agg(
            pl.col("start_ns", "op_event", "event_id").first(),
            pl.col("end_ns").max(),
            pl.col("alone_ns").sum(),
            pl.col("title").first().alias("op"),
            pl.col("name").mode().sort().first().alias("subject"),
        )
        .join(least, on="optimizer", how="left", maintain_order="left")
    )
    saving = pl.col("alone_ns") + pl.Series("idle_ns", _idle(linked, found)) - pl.col("least_ns")
    return evidence_of(
        linked,
        annotation,
        found.with_columns(saving.alias("saving_ns"), pl.col("optimizer").alias("host_event")),
    )


def _ops_of_steps(linked: LinkedTrace) -> pl.DataFrame:
    """The elementwise ops that an optimizer's step calls itself: op_event, name, optimizer (its event), title."""
    names = host_names(linked)
    is_step = flags_by_name(names.get_column("name"), lambda name: name.str.contains(_STEP))
    elementwise = flags_by_name(names.get_column("name"), lambda name: name.str.contains(_PER_PARAMETER))
    tree = host_ops(linked)
    is_op = names.select(as_text("category").is_in(categories_of(Role.OP))).to_series().fill_null(value=False)
    own = is_op.to_numpy() & ~is_step
    # Called by the step itself: the op around it is no op of ATen but an annotation.
    outer = tree.enclosing
    within = own[outer] & (outer != np.arange(len(outer)))
    step = tree.nearest(is_step)
    chosen = np.asarray(own & elementwise & ~within & (step >= 0))
    rows = np.flatnonzero(chosen)
    return names[rows].select(
        pl.col("event_id").alias("op_event"),
        as_text("name"),
        pl.Series("optimizer", tree.event_id[step[rows]], dtype=pl.Int64),
        names.get_column("name").gather(step[rows]).cast(pl.String).alias("title"),
    )


def _idle(linked: LinkedTrace, found: pl.DataFrame) -> _Ints:
    if not linked.timeline.has_device:
        return np.zeros(found.height, dtype=np.int64)
    starts, ends = (found.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    work = work_events(linked)
    begins, lasts = (work.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    idle: _Ints = ends - starts - cover_of(begins, begins + lasts).within(starts, ends)
    return idle


DETECTOR = Detector(
    "unfused-optimizer",
    "an optimizer that goes over the parameters one by one",
    "fused=True of the optimizer, or foreach=True; else torch.compile its step",
    unfused_optimizer,
    (Need.ANNOTATIONS,),
)
