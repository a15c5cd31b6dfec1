"""Context of each event for analyses: its step, its module, its launch."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.answering import StepOptions
from tracebraid.analysis.kernels.kernels import device_work_of
from tracebraid.analysis.ops.modules import module_tree
from tracebraid.analysis.ops.op_times import host_times, launched
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rows import at_rows
from tracebraid.model.schema.context import DEVICE_CONTEXT, HOST_CONTEXT

_Ints = NDArray[np.int64]
_SEPARATOR = "/"
"""Between the modules of a path, as in `modules`."""
_BY_STEP = StepOptions(per_step=True)


def host_context(linked: LinkedTrace) -> pl.DataFrame:
    """The step and module of each host event: `model.schema.context.HOST_CONTEXT`."""
    times = host_times(linked, _BY_STEP).select("step")
    event = linked.host_tree.get_column("event_id")
    module = _modules_of_rows(linked, np.arange(len(event)))
    return HOST_CONTEXT.conform(times.with_columns(event, module))


def device_context(linked: LinkedTrace) -> pl.DataFrame:
    """Launch, step and module of each device event: `model.schema.context.DEVICE_CONTEXT`."""
    work = device_work_of(linked, _BY_STEP)
    if work.is_empty():
        return DEVICE_CONTEXT.empty()
    rows = launched(linked).get_column("row").to_numpy()
    return DEVICE_CONTEXT.conform(work.with_columns(_modules_of_rows(linked, rows)))


def _modules_of_rows(linked: LinkedTrace, rows: _Ints) -> pl.Series:
    """The path of the module of each row of `host_tree`; null for -1, and for those in none."""
    tree = module_tree(linked)
    if tree.source is None:
        return pl.Series("module", [None] * len(rows), dtype=pl.String)
    paths = pl.Series("module", tree.paths.texts(tree.names, _SEPARATOR), dtype=pl.String)
    return at_rows(paths, np.r_[tree.path, -1][rows])
