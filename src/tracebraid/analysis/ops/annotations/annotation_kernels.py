"""Which kernels run in which annotations, all that are around the launch?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.ops.annotations.annotation_tree import annotation_paths
from tracebraid.analysis.ops.launch_rows import launched
from tracebraid.analysis.statistics import max_of, mean_of, min_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import ANNOTATION_KERNELS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["annotation_kernels"]


def annotation_kernels(
    linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP, with_doubtful: bool = False
) -> pl.DataFrame:
    """Device events by the annotations around their launch, the longest in total first: `ANNOTATION_KERNELS`.

    Each device event counts in one row. Steps are no annotations here. What a thread of autograd launches lies in the
    annotations that are open meanwhile on the thread of the forward pass.

    Args:
        linked: one rank.
        per_step: rows for each step in which the work was launched, instead of over all.
        annotation: what marks a step, see `steps`.
        with_doubtful: the work of doubtful steps counts in means, too.
    """
    events = launched(linked, StepOptions(annotation, per_step, with_doubtful))
    if events.is_empty():
        return ANNOTATION_KERNELS.empty()
    path, texts, paths = annotation_paths(linked, annotation)
    names = pl.DataFrame(
        {"path": range(-1, len(texts)), "annotations": [None, *texts], "depth": np.r_[0, paths.depth + 1]},
        schema={"path": pl.Int64, "annotations": pl.String, "depth": pl.Int64},
    )
    duration, total = pl.col("dur_ns"), pl.col("total_ns")
    of_step = total.sum().over("step")
    return (
        events.with_columns(pl.Series("path", np.r_[path, -1][events.get_column("row").to_numpy()]))
        .group_by("step", "path", "kind", "name")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            duration.sum().alias("total_ns"),
            mean_of(duration.filter("in_means")),
            min_of(duration),
            max_of(duration),
        )
        .join(names, on="path", how="left")
        .with_columns(pl.when(of_step > 0).then(total / of_step).alias("share"))
        .sort("total_ns", "annotations", "name", "kind", descending=[True, False, False, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(ANNOTATION_KERNELS, frame, linked, annotation))
    )
