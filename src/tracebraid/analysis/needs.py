"""What does a trace lack for an analysis?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import polars as pl

from tracebraid.analysis.device.graph_events import has_graphs
from tracebraid.analysis.efficiency.calls import has_shapes
from tracebraid.analysis.efficiency.peaks import known_peaks
from tracebraid.analysis.inference.iterations import iterations
from tracebraid.analysis.ops.modules.module_tree import module_tree
from tracebraid.analysis.time.collective_events import collective_events
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Analysis, Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.step import PROFILER_STEP

__all__ = ["HAS", "has_key", "lacking", "lacking_of"]

_COUNTER_CATEGORIES = ["cuda_profiler_range", "hardware_counters"]


def lacking(
    analysis: Analysis | JobAnalysis, linked: LinkedTrace, annotation: str = PROFILER_STEP
) -> tuple[Need, ...]:
    """What of an analysis's needs and uses the trace does not have, in their order.

    Whether there are several ranks is not for a trace to say.

    Args:
        analysis: the analysis.
        linked: one rank.
        annotation: what marks a step.
    """
    wanted = [need for need in (*analysis.needs, *analysis.uses) if need is not Need.SEVERAL_RANKS]
    return lacking_of(wanted, linked, annotation)


def lacking_of(
    needs: Iterable[Need], linked: LinkedTrace, annotation: str = PROFILER_STEP
) -> tuple[Need, ...]:
    """What of some needs the trace does not have, in their order.

    Args:
        needs: what may be lacking.
        linked: one rank.
        annotation: what marks a step.
    """
    return tuple(need for need in needs if not _has(need, linked, annotation))


def has_key(need: Need) -> str:
    """The name of the question whether a rank has what may be needed."""
    return f"has.{need.name.lower()}"


def _has(need: Need, linked: LinkedTrace, annotation: str) -> bool:
    if need is Need.STEPS and annotation != PROFILER_STEP:
        return bool(step_windows(linked, annotation).height)
    return linked.answered(has_key(need), HAS[need])


def _has_shapes(linked: LinkedTrace) -> bool:
    return _any(linked, "host_ops", "input_dims")


def _has_stacks(linked: LinkedTrace) -> bool:
    return linked.timeline.tables["python_functions"].height > 0 or _any(linked, "host_ops", "call_stack")


def _has_annotations(linked: LinkedTrace) -> bool:
    return not linked.timeline.of_role(Role.ANNOTATION, Role.DEVICE_ANNOTATION).is_empty()


def _has_counters(linked: LinkedTrace) -> bool:
    return not linked.timeline.events.filter(as_text("category").is_in(_COUNTER_CATEGORIES)).is_empty()


def _has_rows(table: str) -> Callable[[LinkedTrace], bool]:
    return lambda linked: linked.timeline.tables[table].height > 0


def _has_collectives(linked: LinkedTrace) -> bool:
    """On a device kernels carry the arguments; on the host the ops around a collective do."""
    if linked.timeline.has_device:
        return linked.timeline.tables["collectives"].height > 0
    return not collective_events(linked).is_empty()


def _any(linked: LinkedTrace, table: str, column: str) -> bool:
    values = linked.timeline.tables[table].select(as_text(column).alias("value"))
    return not values.filter(pl.col("value").is_not_null() & (pl.col("value") != "")).is_empty()


HAS: dict[Need, Callable[[LinkedTrace], bool]] = {
    Need.EVENTS: lambda linked: linked.timeline.events.height > 0,
    Need.HOST_OPS: _has_rows("host_ops"),
    Need.DEVICE_WORK: lambda linked: linked.timeline.has_device,
    Need.STEPS: lambda linked: step_windows(linked).height > 0,
    Need.SHAPES: _has_shapes,
    Need.SHAPES_OF_EITHER: has_shapes,
    Need.STACKS: _has_stacks,
    Need.MODULES: lambda linked: module_tree(linked).source is not None,
    Need.ANNOTATIONS: _has_annotations,
    Need.ALLOCATIONS: lambda linked: linked.has_et or _has_rows("memory")(linked),
    Need.MEMORY: _has_rows("memory"),
    Need.SYNC_EVENTS: _has_rows("syncs"),
    Need.COMMUNICATION: lambda linked: not collective_events(linked).is_empty(),
    Need.COLLECTIVES: _has_collectives,
    Need.COUNTERS: _has_counters,
    Need.GRAPH_LAUNCHES: has_graphs,
    Need.EXECUTION_TRACE: lambda linked: linked.has_et,
    Need.DEVICE_PEAKS: lambda linked: known_peaks(linked) is not None,
    Need.SEVERAL_RANKS: lambda _: False,
    Need.INFERENCE_ITERATIONS: lambda linked: iterations(linked).height > 0,
}
"""Whether a trace has what may be needed; steps are those of `torch.profiler`."""
