"""The verdict on a run: one to three sentences on what bounds the step, how much, where, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from tracebraid.model.analysis import Need
from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.efficiency import Bound
from tracebraid.model.answers.graph import START_UP, StepCause
from tracebraid.model.kernel_family import KernelFamily
from tracebraid.model.printable import printable
from tracebraid.model.quantities import duration, percent, ranges, size
from tracebraid.model.questions import Advice
from tracebraid.model.step import PROFILER_STEP
from tracebraid.reports.findings import gap_lines
from tracebraid.reports.names import capitalised, shortened

_WORTH = 0.05
"""Minimum share of the step for an item to be mentioned."""
_MUCH_LESS = 0.8
_UNKNOWN = 0.4
"""Share of unexplained time from which the verdict is uncertain."""
_UNLAUNCHED = 0.25
"""Share of device work without a launch from which the causes of waiting are unknown."""
_BOUND = 0.5
_NETWORK = 0.25
"""Minimum share of the step for a statement about the network."""
_GB = 1e9
_NAMED = 3
_PROMINENT = 0.1
NAME_SHOWN = 160
"""Maximum characters of a name, as templates of kernels are long; JSON has all."""
_OF_DEVICE = (StepCause.COMPUTE, StepCause.COPY)
_HALF = 0.5
_SITES_MATTER = (StepCause.HOST, StepCause.RANK_WAIT, StepCause.COMMUNICATION)
"""Causes whose location matters, even beside an item that names its own."""
CAUSES = {
    StepCause.COMPUTE: "compute",
    StepCause.COPY: "copies",
    StepCause.COMMUNICATION: "communication",
    StepCause.RANK_WAIT: "waiting for other ranks",
    StepCause.HOST: "host code",
    StepCause.LAUNCH: "launch latency",
    StepCause.BLOCKED: "waiting for something not in the trace",
    StepCause.UNKNOWN: "unexplained",
}

_SHOWN_BY = {
    StepCause.COMPUTE: "kernels",
    StepCause.COPY: "copies",
    StepCause.COMMUNICATION: "collectives",
    StepCause.RANK_WAIT: "stragglers",
    StepCause.HOST: "ops",
    StepCause.LAUNCH: "launches",
}
"""The analysis that shows more of a cause."""

OF_PROGRAM = {
    Need.DEVICE_WORK: "no device work",
    Need.COMMUNICATION: "no communication that is recognised",
}
"""Needs that depend on the program, whatever is captured."""

_THREAD = re.compile(r"[Tt]hread \d+( \(.*\))?")
_FAMILIES = {family.value: code_name(family) for family in KernelFamily}


def verdict(advice: Advice) -> list[str]:
    """Return the sentences of the verdict, the worst gap first; [] without a dependency graph."""
    doubt = gap_lines(found.finding for found in advice.gaps)
    if advice.is_unknown:
        return [*doubt, "What bounds the steps is not known."]
    if advice.accounting.is_empty():
        return []
    shares = cause_shares(advice.of_job)
    unknown = shares.get(StepCause.BLOCKED, 0.0) + shares.get(StepCause.UNKNOWN, 0.0)
    lines = [lead(advice)]
    if advice.by_device:
        lines.append(
            "What the device does counts first here: much of the critical path is on threads that show nothing, so it "
            "does not say what waits for the host."
        )
    of_host = shares.get(StepCause.HOST, 0.0) + shares.get(StepCause.LAUNCH, 0.0)
    if advice.unlaunched >= _UNLAUNCHED and of_host + unknown >= _UNLAUNCHED:
        lines.append(
            f"The trace does not show what bounds it: {percent(advice.unlaunched)} of the device's work has no launch "
            "in it. Capture from the first iteration on, with the calls of the host."
        )
        unknown = 1.0
    elif unknown >= _UNKNOWN:
        lines.append(
            "The trace does not show what bounds it: what it waits for was not recorded. Capture all ranks and "
            "streams, from the first iteration on."
        )
    items = [
        row for row in advice.items.iter_rows(named=True) if row["under"] is None and row["share"] >= _WORTH
    ]
    lines += _start_up(advice)
    lines += _mostly(advice, shares, sum(row["share"] for row in items))
    if items:
        lines.append(_first(advice, items[0]))
        lines += _next(advice, items)
    elif _unrecorded(advice) >= _UNKNOWN:
        lines.append(
            f"The trace does not show what the host does in {percent(_unrecorded(advice))} of {_whole(advice)}: "
            "capture with stacks."
        )
    elif unknown < _UNKNOWN:
        lines.append(
            f"No change was found that would save {_WORTH * 100:.0f} % of {_whole(advice)} or more"
            f"{_look(advice, shares)}."
        )
        lines += [*_not_looked_for(advice), *_limit(advice, shares)]
    lines += _growth(advice)
    lines += _network(advice, shares)
    if advice.steps == 1:
        lines.append("There is one step alone: what it has once others may not have. Capture several.")
    return [printable(line) for line in (*doubt, *lines)]


def lead(advice: Advice) -> str:
    """Say how long a step takes, and what of."""
    what = "Step time" if advice.steps else "No step is marked; the trace takes"
    return f"{what} {duration(advice.step_ns)}{_own(advice)}: {_parts(cause_shares(advice.of_job))}."


def _unrecorded(advice: Advice) -> float:
    """Return the share of host code of which no function, op or annotation of the program is recorded."""
    name = pl.col("name")
    unnamed = name.is_null() | name.str.starts_with(f"{PROFILER_STEP}#")
    unnamed |= name.str.contains(f"^(?:{_THREAD.pattern})$")
    of_host = advice.of_job.filter(pl.col("cause") == StepCause.HOST.value, unnamed.fill_null(value=True))
    return int(of_host.get_column("ns").sum()) / max(int(advice.of_job.get_column("ns").sum()), 1)


def _look(advice: Advice, shares: dict[StepCause, float]) -> str:
    """Name the analysis that shows more of the largest cause."""
    analysis = _SHOWN_BY.get(next(iter(shares)))
    if analysis == "kernels" and Need.DEVICE_WORK in advice.unavailable_by_need:
        analysis = "ops"
    return f": `tracebraid analyze {analysis}` shows where it goes" if analysis else ""


def _start_up(advice: Advice) -> list[str]:
    """Return a sentence if the recording begins before the first device use, which other steps do not include."""
    of_job = advice.of_job
    started = int(of_job.filter(pl.col("name") == START_UP).get_column("ns").sum())
    share = started / max(int(of_job.get_column("ns").sum()), 1)
    if share < _WORTH:
        return []
    return [
        f"The recording begins before warm-up: {percent(share)} of {_whole(advice)} is {START_UP}, and no saving. "
        "Record from the fourth iteration on."
    ]


def _limit(advice: Advice, shares: dict[StepCause, float]) -> list[str]:
    """State how close the device is to its peak, if it takes most of the time."""
    limit = advice.limit
    if shares.get(StepCause.COMPUTE, 0.0) < _BOUND:
        return []
    if limit is None and advice.precisions is None and Need.DEVICE_WORK not in advice.unavailable_by_need:
        return ["The trace names no device whose peaks are known: --device NAME says how near they are."]
    if limit is None or limit.known < _BOUND:
        return []
    peak = "memory bandwidth" if limit.bound == Bound.MEMORY.value else "matrix units"
    return [
        f"{percent(limit.share)} of what the device computes is bound by its {peak}, "
        f"at {percent(limit.reached)} of the peak."
    ]


def _network(advice: Advice, shares: dict[StepCause, float]) -> list[str]:
    """State the bandwidth of collectives, if they take much of the step."""
    transfers = advice.transfers
    of_network = shares.get(StepCause.COMMUNICATION, 0.0) + shares.get(StepCause.RANK_WAIT, 0.0)
    if transfers is None or of_network < _NETWORK:
        return []
    rate = f"Collectives of 1 MiB or more reach {transfers.bytes_per_s / _GB:.3g} GB/s"
    missing = (transfers.world_size or 0) - len(advice.ranks)
    if missing > 0:
        return [
            f"{rate} on the ranks that are here, waiting included: a slow link, or one of the {missing} other ranks "
            "that is late. Capture all ranks."
        ]
    return [f"{rate} on the rank that waits least: compare that with the link."]


def _own(advice: Advice) -> str:
    """State the step time without the profiler, if it is much less."""
    if advice.own_step_ns > advice.step_ns * _MUCH_LESS:
        return ""
    return f" (about {duration(advice.own_step_ns)} without the profiler)"


def _growth(advice: Advice) -> list[str]:
    """State whether memory grows in each step: a leak costs no time until memory runs out."""
    if not advice.growth:
        return []
    most = max(advice.growth, key=lambda growth: growth.bytes_per_step)
    whose = "of the device" if most.on_device else "of the process"
    on = f" on rank {most.rank}" if len(advice.ranks) > 1 else ""
    grows = f"Memory {whose} grows by {size(most.bytes_per_step)} in each step{on}"
    if most.op:
        return [f"{grows}, most of it allocated by {most.op}: see `tracebraid analyze memory_kept`."]
    return [f"{grows}, which may be a leak. Capture ten steps with --memory to see what is kept."]


def cause_shares(accounting: pl.DataFrame) -> dict[StepCause, float]:
    """Return the share of each cause over all steps, largest first."""
    total = int(accounting.get_column("ns").sum())
    by_cause = (
        accounting.group_by("cause").agg(pl.col("ns").sum()).sort("ns", "cause", descending=[True, False])
    )
    return {StepCause(cause): ns / max(total, 1) for cause, ns in by_cause.iter_rows()}


def _parts(shares: dict[StepCause, float]) -> str:
    """List the important causes with their shares."""
    named = [f"{percent(share)} {CAUSES[cause]}" for cause, share in shares.items() if share >= _WORTH]
    return ", ".join(named[:_NAMED]) or "no cause stands out"


def _mostly(advice: Advice, shares: dict[StepCause, float], saved: float) -> list[str]:
    """Name the largest parts of the largest cause; beside items only if they are prominent and locate it.

    What a device does is named too where items save (`saved`) less than half of it.
    """
    cause = next(iter(shares))
    has_items = saved > (_HALF * shares[cause] if cause in _OF_DEVICE else 0.0)
    if cause in (StepCause.BLOCKED, StepCause.UNKNOWN) or (has_items and cause not in _SITES_MATTER):
        return []
    least = _PROMINENT if has_items else 0.0
    names = [(name, share) for name, share in _names(advice, cause) if share >= least]
    named = ", ".join(f"{name} ({percent(share)})" for name, share in names)
    is_most = sum(share for _, share in names) >= _HALF * shares[cause]
    said = f"mostly {named}" if is_most else f"{named} and others"
    lines = [f"{capitalised(CAUSES[cause])}: {said}."] if named else []
    if cause is StepCause.COMPUTE and advice.compute_site is not None:
        function, share = advice.compute_site
        lines.append(f"{percent(share)} is computed in {shortened(function, NAME_SHOWN)}.")
    return lines


def _names(advice: Advice, cause: StepCause) -> list[tuple[str, float]]:
    """Name the parts of a cause with their shares of the step, largest first."""
    of_job = advice.of_job
    total = max(int(of_job.get_column("ns").sum()), 1)
    in_steps = pl.col("name").str.starts_with(f"{PROFILER_STEP}#").fill_null(False)  # says nothing of where
    said = in_steps | (pl.col("name") == START_UP).fill_null(value=False)
    names = of_job.filter(pl.col("cause") == cause.value, ~said).group_by("name").agg(pl.col("ns").sum())
    first = names.sort("ns", "name", descending=[True, False]).head(_NAMED)
    return [(_name(name or "unnamed"), ns / total) for name, ns in first.iter_rows()]


def _name(name: str) -> str:
    """What people call what takes time: a kernel's family, or a thread of which nothing else is recorded."""
    if _THREAD.fullmatch(name):
        return shortened(f"nothing recorded on {name[0].lower()}{name[1:]}", NAME_SHOWN)
    return shortened(_FAMILIES.get(name, name), NAME_SHOWN)


def _first(advice: Advice, row: dict[str, Any]) -> str:
    """Describe the first item: problem, place and saving."""
    title = advice.detectors[row["detector"]].title
    saved = f"{duration(row['saving_per_step_ns'])} ({percent(row['share'])})"
    low, high = duration(row["saving_low_per_step_ns"]), duration(row["saving_high_per_step_ns"])
    return f"Fix first: {title}{_site(row, advice.ranks)}. Saves about {saved}, between {low} and {high}."


def _site(row: dict[str, Any], ranks: Sequence[int]) -> str:
    """Locate an item: ranks, and the line, else the op."""
    sites = [text for text in (row["subject"] or row["op"], row["call_site"] or row["op"]) if text]
    named = [shortened(text, NAME_SHOWN) for text in dict.fromkeys(sites)]
    own = row["ranks"]
    on = f" on {'rank' if len(own) == 1 else 'ranks'} {ranges(own)}" if len(own) < len(ranks) else ""
    return f"{on}: {', at '.join(named)}" if named else on


def _next(advice: Advice, items: list[dict[str, Any]]) -> list[str]:
    if len(items) == 1:
        nothing = f"Nothing else was found that would save {_WORTH * 100:.0f} % of {_whole(advice)} or more."
        return [nothing, *_not_looked_for(advice)]
    second = items[1]
    title = advice.detectors[second["detector"]].title
    saved = f"{duration(second['saving_per_step_ns'])} ({percent(second['share'])})"
    return [f"Next: {title}{_site(second, advice.ranks)}, about {saved}."]


def _not_looked_for(advice: Advice) -> list[str]:
    """Say how many causes could not be looked for, and what the traces lack for most of them."""
    by_need = advice.unavailable_by_need
    of_program = {*OF_PROGRAM, *([Need.COLLECTIVES] if Need.COMMUNICATION in by_need else [])}
    lacks = {need: names for need, names in by_need.items() if need not in of_program}
    if not lacks:
        return []
    most = max(lacks, key=lambda need: len(lacks[need]))
    count = sum(map(len, lacks.values()))
    mostly = "mostly because" if len(lacks) > 1 else "because"
    return [f"Not looked for: {count:,} of {len(advice.detectors):,} causes, {mostly} {most.missing}."]


def _whole(advice: Advice) -> str:
    return "the step" if advice.steps else "the trace"
