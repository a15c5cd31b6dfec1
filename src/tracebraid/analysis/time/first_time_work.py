"""What that is done only once ran in each step: compiling, allocating device memory, loading modules?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers.time import FirstTimeWork
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["first_time_work"]

_NAMES = {
    # torch.compile's own timers, its Python frames, Triton's compiler, and CUPTI's name for the driver's compiler.
    FirstTimeWork.COMPILE: (
        r"\(dynamo_timed\)|_dynamo/convert_frame\.py|_inductor/compile_fx\.py|triton/compiler/compiler\.py"
        r"|^Driver Compiler$"
    ),
    FirstTimeWork.MODULE_LOAD: r"^(?:cu|hip)ModuleLoad|^(?:cu|cuda|hip)LibraryLoad"
    r"|^Lazy Function Loading$|^Runtime Triggered Module Loading$",
}


def first_time_work(
    linked: LinkedTrace, annotation: str = PROFILER_STEP
) -> dict[FirstTimeWork, NDArray[np.bool_]]:
    """For each kind of such work whether it began in each of the `step_windows`.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    windows = step_windows(linked, annotation)
    starts, ends = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    events = linked.timeline.events.select("name", "ts_ns")
    text = as_text("name")
    names = events.select(pl.col("name").unique())
    found = {}
    does = {kind: text.str.contains(pattern) for kind, pattern in _NAMES.items()}
    # The caching allocator asks the device only for what it does not have yet.
    does[FirstTimeWork.DEVICE_MALLOC] = call_does(text, CallAction.ALLOCATE_ON_DEVICE)
    for kind in FirstTimeWork:
        known = names.filter(does[kind])
        moments = events.join(known, on="name", how="semi").get_column("ts_ns").sort().to_numpy()
        found[kind] = np.searchsorted(moments, ends) > np.searchsorted(moments, starts)
    return found
