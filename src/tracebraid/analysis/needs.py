"""Check whether a trace holds the data that an analysis needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import polars as pl

from tracebraid.analysis.device import device_events_by_step, has_graphs
from tracebraid.analysis.time.collective_events import collective_events
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.analysis import Analysis, Need
from tracebraid.model.category import Category, Role
from tracebraid.model.expressions import as_text
from tracebraid.model.gaps import Gap
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import CallAction, call_does

_COUNTER_CATEGORIES = {Category.CUDA_PROFILER_RANGE.value, Category.HARDWARE_COUNTERS.value}


def lacking(analysis: Analysis, linked: LinkedTrace) -> tuple[Need, ...]:
    """Return the needs and uses of an analysis that the trace does not meet, in order.

    Whether there are several ranks is not for a trace to say. Where a gap hides any of them, that is all there is to
    say.
    """
    wanted = [need for need in (*analysis.needs, *analysis.uses) if need is not Need.SEVERAL_RANKS]
    if linked.hidden.intersection(wanted):
        return (Need.LOST,)
    return lacking_of(wanted, linked)


def lacking_of(needs: Iterable[Need], linked: LinkedTrace) -> tuple[Need, ...]:
    """Return the needs that the trace does not meet, in order."""
    return tuple(need for need in needs if not _has(need, linked))


def has_key(need: Need) -> str:
    """The name of the question whether a rank has what may be needed."""
    return f"has.{need.name.lower()}"


def _has(need: Need, linked: LinkedTrace) -> bool:
    return need not in linked.hidden and linked.answered(has_key(need), lambda rank: rank.derived(HAS[need]))


def _has_shapes(linked: LinkedTrace) -> bool:
    return _any(linked, "host_ops", "input_dims")


def _has_stacks(linked: LinkedTrace) -> bool:
    return linked.timeline.tables["python_functions"].height > 0 or _any(linked, "host_ops", "call_stack")


def _has_annotations(linked: LinkedTrace) -> bool:
    return not linked.timeline.of_role(Role.ANNOTATION, Role.DEVICE_ANNOTATION).is_empty()


def _has_known_ops(linked: LinkedTrace) -> bool:
    names = linked.timeline.of_role(Role.OP).get_column("name").unique().cast(pl.String)
    return names.is_empty() or bool(names.str.starts_with("aten::").any())


def _has_launches(linked: LinkedTrace) -> bool:
    """Traces without work of a device lack that, and not its launches."""
    work = device_events_by_step(linked)
    return work.is_empty() or work.get_column("call_event").null_count() < work.height


def _has_known_calls(linked: LinkedTrace) -> bool:
    if not linked.timeline.has_device:
        return True
    calls = linked.timeline.of_role(Role.CALL).select(as_text("name")).unique()
    return not calls.filter(
        pl.any_horizontal(call_does(pl.col("name"), each) for each in CallAction)
    ).is_empty()


def _has_counters(linked: LinkedTrace) -> bool:
    return not linked.timeline.categories.isdisjoint(_COUNTER_CATEGORIES)


def _has_rows(table: str) -> Callable[[LinkedTrace], bool]:
    return lambda linked: linked.timeline.tables[table].height > 0


def _has_collectives(linked: LinkedTrace) -> bool:
    """On a device kernels carry the arguments; on the host the ops around a collective do."""
    if linked.timeline.has_device:
        return linked.timeline.tables["collectives"].height > 0
    return not collective_events(linked).is_empty()


# What most analyses do not need is loaded where it is asked for: it stands beside the formulas of all ops.


def _has_shapes_of_either(linked: LinkedTrace) -> bool:
    from tracebraid.analysis.efficiency.calls import has_shapes

    return has_shapes(linked)


def _has_known_kernels(linked: LinkedTrace) -> bool:
    from tracebraid.model.kernel_family import family_of_kernel_name

    work = linked.timeline.of_role(Role.DEVICE_WORK).get_column("name").unique().cast(pl.String)
    return work.is_empty() or any(family_of_kernel_name(name) is not None for name in work)


def _has_peaks(linked: LinkedTrace) -> bool:
    from tracebraid.analysis.efficiency.roofline import known_peaks

    return known_peaks(linked) is not None


def _has_modules(linked: LinkedTrace) -> bool:
    from tracebraid.analysis.ops.modules import module_tree

    return module_tree(linked).source is not None


def _has_iterations(linked: LinkedTrace) -> bool:
    from tracebraid.analysis.inference.phases import iterations

    return iterations(linked).height > 0


def _any(linked: LinkedTrace, table: str, column: str) -> bool:
    values = linked.timeline.tables[table].select(as_text(column).alias("value"))
    return not values.filter(pl.col("value").is_not_null() & (pl.col("value") != "")).is_empty()


HAS: dict[Need, Callable[[LinkedTrace], bool]] = {
    Need.EVENTS: lambda linked: linked.timeline.events.height > 0,
    Need.HOST_OPS: _has_rows("host_ops"),
    Need.KNOWN_OPS: _has_known_ops,
    Need.DEVICE_WORK: lambda linked: linked.timeline.has_device,
    Need.LAUNCHES: _has_launches,
    Need.KNOWN_KERNELS: _has_known_kernels,
    Need.KNOWN_CALLS: _has_known_calls,
    Need.STEPS: lambda linked: step_windows(linked).height > 0,
    Need.SHAPES: _has_shapes,
    Need.SHAPES_OF_EITHER: _has_shapes_of_either,
    Need.STACKS: _has_stacks,
    Need.MODULES: _has_modules,
    Need.ANNOTATIONS: _has_annotations,
    Need.ALLOCATIONS: lambda linked: linked.has_et or _has_rows("memory")(linked),
    Need.MEMORY: _has_rows("memory"),
    Need.SYNC_EVENTS: _has_rows("syncs"),
    Need.COMMUNICATION: lambda linked: not collective_events(linked).is_empty(),
    Need.KNOWN_COMMUNICATION: lambda linked: all(
        found.gap is not Gap.COMMUNICATION_UNSEEN for found in linked.gaps
    ),
    Need.COLLECTIVES: _has_collectives,
    Need.COUNTERS: _has_counters,
    Need.GRAPH_LAUNCHES: has_graphs,
    Need.EXECUTION_TRACE: lambda linked: linked.has_et,
    Need.DEVICE_PEAKS: _has_peaks,
    Need.LOST: lambda linked: not linked.hidden,
    Need.SEVERAL_RANKS: lambda _: False,
    Need.INFERENCE_ITERATIONS: _has_iterations,
}
"""Needs that a trace meets; steps are those of `torch.profiler`."""
