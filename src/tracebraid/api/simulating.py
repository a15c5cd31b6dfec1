"""Simulations of a job: its dependency graph replayed with other work."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial

import polars as pl
from msgspec.structs import replace

from tracebraid.analysis.inference.markers import PATTERN_GROUPS
from tracebraid.analysis.memory.memory_use import memory_at_peak
from tracebraid.api.graphing import graph_of
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.graph import SweepBy
from tracebraid.model.engine import Job
from tracebraid.model.graph import Change, DependencyGraph, WhatIf
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.serving import Serving, ServingPolicy
from tracebraid.simulation.changes.verbs import On, change_of, verb_named, verbs
from tracebraid.simulation.serving import Length, Load, predict_serving
from tracebraid.simulation.step_times import measured_steps
from tracebraid.simulation.stragglers import job_operations, straggler_metrics_of, straggler_table
from tracebraid.simulation.sweep import DEFAULT_GROUPS, sweep_of
from tracebraid.simulation.what_if import predict_changes


def straggler_metrics(traces: LinkedTrace | Job | DependencyGraph) -> pl.DataFrame:
    """Compute a job's slowdown by stragglers, with its ranks, stages and kinds of operation: `STRAGGLER_METRICS`.

    Ideal work of an operation is the mean over the same operation of all ranks and steps, of communication the
    median; `docs/what_if.md` defines equal operations. The metrics are those of "Understanding Stragglers
    in Large Model Training Using What-if Analysis" (OSDI 2025).

    Args:
        traces: a job, a linked trace, or the dependency graph of one.

    Raises:
        InputError: a file cannot be read.
    """
    graph = graph_of(traces)
    return straggler_table(straggler_metrics_of(graph, job_operations(graph)))


def sweep(
    traces: LinkedTrace | Job | DependencyGraph,
    *,
    by: str | Collection[str] = (),
    groups: int = DEFAULT_GROUPS,
) -> pl.DataFrame:
    """Rank what to optimise: gain of a step if each op, kernel, module, ... were 10, 50, 100 % faster: `SWEEP`.

    Args:
        traces: a job, a linked trace, or the dependency graph of one.
        by: how work is grouped (a value of `SweepBy`, such as `family`, or several); empty: in all ways.
        groups: number of groups to compute, those with most work on the critical path; positive.

    Raises:
        ArgumentError: the grouping is unknown, or `groups` is not positive.
        InputError: a file cannot be read.
    """
    known = {kind.value: kind for kind in SweepBy}
    names = [by] if isinstance(by, str) else by
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ArgumentError(f"work is not grouped by {unknown[0]}, but by any of: {', '.join(known)}")
    if groups < 1:
        raise ArgumentError(f"groups is {groups}, but a sweep needs one group at least")
    graph = graph_of(traces)
    chosen = [known[name] for name in names] or list(SweepBy)
    return sweep_of(graph, by=chosen, groups=groups)


def what_if(traces: LinkedTrace | Job | DependencyGraph, *changes: str | Change) -> WhatIf:
    """Predict the effect of changes: replay the job from its dependencies with and without them.

    Args:
        traces: a job, a linked trace, or the dependency graph of one.
        changes: the changes in order, as text (`"scale 0.5 family=gemm"`) or as a `Change`.

    Raises:
        ArgumentError: no change is given, or one is invalid, selects nothing, or is impossible.
        InputError: a file cannot be read.

    Example::

        found = tracebraid.what_if(tracebraid.open("traces/"), "bandwidth 2", "remove op=aten::item")
        print(found.gain, found.gain_low_ns, found.gain_high_ns)
        print(found.steps.filter(pl.col("rank").is_null()))
    """
    asked = [_change(change) for change in changes]
    graph = graph_of(traces)
    at_peak = None
    if not isinstance(traces, DependencyGraph) and any(
        verb_named(each.verb).on is On.SHAPES for each in asked
    ):
        (at_peak,) = Job.of(traces).ask(memory_at_peak)
    return predict_changes(graph, asked, at_peak)


def serving(
    traces: LinkedTrace | Job,
    *,
    rates: Sequence[float] = (),
    max_batch: int | Sequence[int] = (),
    prompt_tokens: Length | None = None,
    output_tokens: Length | None = None,
    policy: str | None = None,
    step_tokens: int | None = None,
    step_pattern: str | None = None,
    requests: int = 5000,
    scale: float = 1.0,
    seed: int = 0,
) -> Serving:
    """Predict an inference server under load: time per token by batch size, latency by arrival rate, capacity.

    The time of a step is fitted to the iterations of the traces, as `analyses.inference_phases` finds them, and
    requests are simulated that arrive at random (Poisson). Every rank is a server; steps of all ranks count alike.

    Args:
        traces: a job, or a linked trace.
        rates: requests that arrive in a second; empty: a sweep up to the capacity.
        max_batch: sequences that are served at once at most, one or several; empty: as many as in the trace.
        prompt_tokens: length of prompts: a number, a list, or text: `64-512` (any of these), `32,512` (either), `~128`
            (geometric with this mean). 0: no prefill. None: as in the trace.
        output_tokens: length of outputs alike; None: the mean of the trace.
        policy: a value of `ServingPolicy`; None: `mixed` if steps of the trace are, else `prefill-first`.
        step_tokens: prompt tokens of a step at most; None: the most in the trace. A longer prompt has its own step.
        step_pattern: regular expression for names of annotations that are steps, with named groups: `decode`
            (sequences that decode), `prompts`, `prompt_tokens`, `cached_tokens` (in the caches of all sequences that
            decode). None: annotations of engines, or shapes.
        requests: requests to simulate for each rate, at least 100.
        scale: factor on all measured times, such as that of a faster device.
        seed: of the random numbers; the same seed gives the same answer.

    Raises:
        ArgumentError: an argument makes no sense.
        InputError: a file cannot be read, or too few steps have a known batch.

    Example::

        found = tracebraid.serving(tracebraid.open("traces/"), max_batch=[8, 32], output_tokens="~200")
        print(found.capacity)
        print(found.rates.select("max_batch", "rate", "queue_grows", "ttft_p95_ns", "tpot_p95_ns"))
    """
    sizes = [max_batch] if isinstance(max_batch, int) else list(max_batch)
    limits = {"rates": (rates, 1e-9), "max_batch": (sizes, 1), "scale": ([scale], 1e-9)}
    limits |= {"requests": ([requests], 100), "step_tokens": ([1 if step_tokens is None else step_tokens], 1)}
    for name, (values, least) in limits.items():
        wrong = [value for value in values if not least <= value < float("inf")]
        if wrong:
            raise ArgumentError(f"{name} is {wrong[0]}; it must be at least {least:g}")
    known = {each.value: each for each in ServingPolicy}
    if policy is not None and policy not in known:
        raise ArgumentError(f"there is no policy {policy!r}; there are {', '.join(known)}")
    _check_pattern(step_pattern)
    load = Load(
        rates=rates,
        max_batch=sizes,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        policy=None if policy is None else known[policy],
        step_tokens=step_tokens,
        requests=requests,
        scale=scale,
        seed=seed,
    )
    job = Job.of(traces)
    steps = pl.concat(job.each(partial(measured_steps, pattern=step_pattern)))
    return replace(predict_serving(steps, load, job.path), findings=job.findings)


def _check_pattern(pattern: str | None) -> None:
    """Check that a pattern of steps can be read.

    Raises:
        ArgumentError: it is no regular expression, or has no group of the known names.
    """
    if pattern is None:
        return
    try:
        groups = set(re.compile(pattern).groupindex)
    except re.error as error:
        raise ArgumentError(f"{pattern!r} is no regular expression: {error}") from error
    unknown = sorted(groups - set(PATTERN_GROUPS))
    if unknown or "decode" not in groups:
        names = ", ".join(PATTERN_GROUPS)
        raise ArgumentError(
            f"{pattern!r} has {f'a group {unknown[0]!r}' if unknown else 'no group decode'}; its named groups are: "
            rf"{names}, such as 'decode (?P<decode>\d+)'"
        )


def changes_help() -> str:
    """List the verbs of changes with what they take, for the help of a command."""
    return ", ".join(verb.usage for verb in verbs().values())


def _change(change: str | Change) -> Change:
    """Parse a change if it is text."""
    if isinstance(change, str):
        return change_of(change)
    if not isinstance(change, Change):
        raise ArgumentError(
            f'{change!r} is no change; give each as text of its own, such as "scale 0.5 family=gemm"'
        )
    return change
