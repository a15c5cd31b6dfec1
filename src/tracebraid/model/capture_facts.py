"""Facts about its process that `capture` writes into a Kineto trace and its manifest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tracebraid.model.timeline import Timeline

METADATA = "tracebraid"
"""Member of the trace that contains the facts."""

COSTS = "recording_costs"
"""Member of the manifest, and of the facts once it is read, that contains `RecordingCosts`."""

PROCESS = "process_"
"""Name of the folder of a further process of a rank, without its number."""

INPUTS_OF_OP = 4
"""Inputs, scalars included, that the cost of an operator covers: those of `aten::add` with a result."""

GARBAGE = "Garbage collection"
"""The annotation with which `capture` marks collections of all objects by Python's garbage collector."""

OP_WEIGHT = 4.0
"""Cost of an op for the profiler, in Python functions (python -m benchmarks overhead)."""

_MOST = 2**63 - 1
"""Largest number that a fact may be."""

_MOST_COST_NS = 1_000_000.0
"""Largest cost of an event that is believed: a hundred times the slowest measured (python -m benchmarks overhead)."""


class ThreadFacts(Struct, frozen=True):
    """Scheduling of a thread while the window was recorded: differences of its counters from begin to end.

    Args:
        tid: its number in the system.
        name: its name in the system, at most 15 characters.
        cpu_ns: time on a core.
        run_queue_wait_ns: time in which it could run and had no core.
        voluntary_switches: how often it gave its core up, to wait.
        involuntary_switches: how often its core was given to another thread.
    """

    tid: int
    name: str
    cpu_ns: int
    run_queue_wait_ns: int
    voluntary_switches: int
    involuntary_switches: int


class EventCost(Struct, frozen=True):
    """Cost of recording an event of a kind, in ns of the thread's time.

    Args:
        low_ns: 10th percentile of the repetitions.
        median_ns: their median.
        high_ns: 90th percentile.
        inside: share of it that lies between the event's own start and end.
    """

    low_ns: float
    median_ns: float
    high_ns: float
    inside: float = 0.5


class RecordingCosts(Struct, frozen=True):
    """Costs of recording by kind of event; None: not measured.

    Args:
        op: an operator with up to `INPUTS_OF_OP` inputs.
        tensor: each further input of an operator, such as those of a list.
        annotation: a `record_function`.
        python: a Python function, where stacks are recorded.
        builtin: a function that Python calls and that is not written in Python, where stacks are recorded.
    """

    op: EventCost | None = None
    tensor: EventCost | None = None
    annotation: EventCost | None = None
    python: EventCost | None = None
    builtin: EventCost | None = None


class CaptureFacts(Struct, frozen=True):
    """Facts about the process of a trace; None if not recorded.

    Args:
        untraced_step_median_ns: a step that was not recorded.
        untraced_steps: how many of these there are.
        untraced_step_q1_ns: their first quartile.
        untraced_step_q3_ns: their third quartile.
        cpus: processors of the machine.
        cores: processors that the process may use.
        cpu_quota_cores: CPU time per time that its control group allows; None: no limit.
        threads: threads of PyTorch's own pool.
        cpu_ns: CPU time of the process while it was recorded.
        window_ns: how long it was recorded.
        voluntary_switches: how often its threads gave a core up meanwhile, to wait.
        involuntary_switches: how often a thread's core was given to another thread meanwhile.
        run_queue_wait_ns: time in which its threads could run and had no core, all together.
        throttled_ns: time for which its control group was stopped meanwhile, as its quota was used up.
        of_threads: the same of each thread that lived from begin to end.
        torch: the version of torch.
        resident_bytes: resident memory at the ends of the last steps before the recording.
        device_bytes: what PyTorch had allocated on its device then.
        costs: what recording cost; None: not measured.
    """

    untraced_step_median_ns: int | None = None
    untraced_steps: int | None = None
    untraced_step_q1_ns: int | None = None
    untraced_step_q3_ns: int | None = None
    cpus: int | None = None
    cores: int | None = None
    cpu_quota_cores: float | None = None
    threads: int | None = None
    cpu_ns: int | None = None
    window_ns: int | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    run_queue_wait_ns: int | None = None
    throttled_ns: int | None = None
    of_threads: tuple[ThreadFacts, ...] = ()
    torch: str | None = None
    resident_bytes: tuple[int, ...] = ()
    device_bytes: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    costs: RecordingCosts | None = None


_COUNTS = tuple(name for name, kind in CaptureFacts.__annotations__.items() if kind == "int | None")


def capture_facts_of(timeline: Timeline) -> CaptureFacts:
    """Read the facts about a trace's process; empty if another program wrote it, or values have wrong types."""
    facts = timeline.header.get(METADATA)
    if not isinstance(facts, dict):
        return CaptureFacts()
    counts: dict[str, Any] = {name: facts[name] for name in _COUNTS if _is_count(facts.get(name))}
    lists: dict[str, Any] = {name: _numbers(facts.get(name)) for name in ("resident_bytes", "device_bytes")}
    torch, quota = facts.get("torch"), _amount(facts.get("cpu_quota_cores"))
    return CaptureFacts(
        **counts,
        **lists,
        cpu_quota_cores=quota or None,
        steps=_steps(facts.get("steps")),
        of_threads=_threads(facts.get("of_threads")),
        torch=torch if isinstance(torch, str) else None,
        costs=recording_costs(facts.get(COSTS)),
    )


def recording_costs(values: object) -> RecordingCosts | None:
    """Read costs of recording; a kind whose cost is no plausible one is left out; None if none remains."""
    if not isinstance(values, dict):
        return None
    kinds = {name: _cost(values.get(name)) for name in RecordingCosts.__struct_fields__}
    return RecordingCosts(**kinds) if any(kinds.values()) else None


def _cost(values: object) -> EventCost | None:
    if not isinstance(values, dict):
        return None
    low, median, high, inside = (
        _amount(values.get(name)) for name in ("low_ns", "median_ns", "high_ns", "inside")
    )
    if low is None or median is None or high is None or inside is None:
        return None
    is_plausible = low <= median <= high <= _MOST_COST_NS and inside <= 1
    return EventCost(low, median, high, inside) if is_plausible else None


def _amount(value: object) -> float | None:
    """Return a number that is finite and not negative; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _MOST and math.isfinite(value) else None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _threads(values: object) -> tuple[ThreadFacts, ...]:
    """The threads of which every fact is a count."""
    rows = [row for row in values if isinstance(row, dict)] if isinstance(values, list) else []
    return tuple(_thread(row) for row in rows if _is_thread(row))


def _is_thread(row: Mapping[str, Any]) -> bool:
    counts = (row.get(name) for name in ThreadFacts.__struct_fields__ if name != "name")
    return isinstance(row.get("name"), str) and all(map(_is_count, counts))


def _thread(row: Mapping[str, Any]) -> ThreadFacts:
    return ThreadFacts(**{name: row[name] for name in ThreadFacts.__struct_fields__})


def _steps(values: Any) -> tuple[int, ...]:
    """The numbers of the window's steps, each of which the trace describes."""
    listed = values if isinstance(values, list) else []
    return _numbers([value.get("step") for value in listed if isinstance(value, dict)])


def _numbers(values: Any) -> tuple[int, ...]:
    """The values, if all are numbers; else none."""
    if not isinstance(values, list) or not all(map(_is_count, values)):
        return ()
    return tuple(values)
