"""The analyses of one rank, asked of a rank or of all ranks of a job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Concatenate, ParamSpec

import polars as pl

from tracebraid.analysis.catalog import ANALYSES
from tracebraid.analysis.collectives.collective_bandwidth import collective_bandwidth as _collective_bandwidth
from tracebraid.analysis.collectives.collective_fit import collective_fit as _collective_fit
from tracebraid.analysis.collectives.collective_imbalance import collective_imbalance as _collective_imbalance
from tracebraid.analysis.collectives.collective_ranks import collective_ranks as _collective_ranks
from tracebraid.analysis.collectives.collective_totals import collective_totals as _collective_totals
from tracebraid.analysis.collectives.collectives import collectives as _collectives
from tracebraid.analysis.collectives.matched_groups import matched_groups as _matched_groups
from tracebraid.analysis.efficiency.mfu import mfu as _mfu
from tracebraid.analysis.efficiency.op_costs import op_costs as _op_costs
from tracebraid.analysis.efficiency.recomputation import recomputation as _recomputation
from tracebraid.analysis.efficiency.roofline import roofline as _roofline
from tracebraid.analysis.inference.batch_sizes import batch_sizes as _batch_sizes
from tracebraid.analysis.inference.graph_replays import graph_replays as _graph_replays
from tracebraid.analysis.inference.inference_phases import inference_phases as _inference_phases
from tracebraid.analysis.inference.token_times import token_times as _token_times
from tracebraid.analysis.job_catalog import JOB_ANALYSES
from tracebraid.analysis.kernels.graphs.graph_kernels import graph_kernels as _graph_kernels
from tracebraid.analysis.kernels.kernel_durations import kernel_durations as _kernel_durations
from tracebraid.analysis.kernels.kernel_families import kernel_families as _kernel_families
from tracebraid.analysis.kernels.kernel_pace import kernel_pace as _kernel_pace
from tracebraid.analysis.kernels.kernels import kernels as _kernels
from tracebraid.analysis.kernels.kernels_by_op import kernels_by_op as _kernels_by_op
from tracebraid.analysis.kernels.launchers import launchers as _launchers
from tracebraid.analysis.kernels.sequences.kernel_sequences import kernel_sequences as _kernel_sequences
from tracebraid.analysis.kernels.sequences.op_kernel_sequences import (
    op_kernel_sequences as _op_kernel_sequences,
)
from tracebraid.analysis.kernels.short_kernels import short_kernels as _short_kernels
from tracebraid.analysis.launches.copies.copies import copies as _copies
from tracebraid.analysis.launches.copies.copy_bandwidth import copy_bandwidth as _copy_bandwidth
from tracebraid.analysis.launches.copies.copy_bandwidth_series import (
    copy_bandwidth_series as _copy_bandwidth_series,
)
from tracebraid.analysis.launches.counters import counters as _counters
from tracebraid.analysis.launches.launch_bound import launch_bound as _launch_bound
from tracebraid.analysis.launches.launch_events import launch_events as _launch_events
from tracebraid.analysis.launches.launches import launches as _launches
from tracebraid.analysis.launches.queues.full_queue import full_queue as _full_queue
from tracebraid.analysis.launches.queues.queue_lengths import queue_lengths as _queue_lengths
from tracebraid.analysis.launches.queues.queue_series import queue_series as _queue_series
from tracebraid.analysis.launches.syncs.sync_calls import sync_calls as _sync_calls
from tracebraid.analysis.launches.syncs.syncs import syncs as _syncs
from tracebraid.analysis.memory.activations import activations as _activations
from tracebraid.analysis.memory.allocations import allocations as _allocations
from tracebraid.analysis.memory.allocator import allocator as _allocator
from tracebraid.analysis.memory.allocator_calls import allocator_calls as _allocator_calls
from tracebraid.analysis.memory.memory_at_peak import memory_at_peak as _memory_at_peak
from tracebraid.analysis.memory.memory_growth import memory_growth as _memory_growth
from tracebraid.analysis.memory.memory_kept import memory_kept as _memory_kept
from tracebraid.analysis.memory.memory_peak import memory_peak as _memory_peak
from tracebraid.analysis.memory.memory_timeline import memory_timeline as _memory_timeline
from tracebraid.analysis.needs import lacking
from tracebraid.analysis.ops.annotations.annotation_kernels import annotation_kernels as _annotation_kernels
from tracebraid.analysis.ops.annotations.user_annotations import user_annotations as _user_annotations
from tracebraid.analysis.ops.modules.modules import modules as _modules
from tracebraid.analysis.ops.ops import ops as _ops
from tracebraid.analysis.ops.python_frames import python_frames as _python_frames
from tracebraid.analysis.ranks.clocks import clocks as _clocks
from tracebraid.analysis.ranks.late_arrivals import late_arrivals as _late_arrivals
from tracebraid.analysis.ranks.rank_steps import rank_steps as _rank_steps
from tracebraid.analysis.ranks.rank_waits import rank_waits as _rank_waits
from tracebraid.analysis.ranks.stragglers import stragglers as _stragglers
from tracebraid.analysis.time.breakdown import breakdown as _breakdown
from tracebraid.analysis.time.exposed_collectives import exposed_collectives as _exposed_collectives
from tracebraid.analysis.time.idle.idle_blame import idle_blame as _idle_blame
from tracebraid.analysis.time.idle.idle_causes import idle_causes as _idle_causes
from tracebraid.analysis.time.idle.idle_gaps import idle_gaps as _idle_gaps
from tracebraid.analysis.time.idle.stream_idle import stream_idle as _stream_idle
from tracebraid.analysis.time.overlap import overlap as _overlap
from tracebraid.analysis.time.step_spread import step_spread as _step_spread
from tracebraid.analysis.time.step_times import step_times as _step_times
from tracebraid.analysis.time.steps import steps as _steps
from tracebraid.analysis.validity.validity import validity as _validity
from tracebraid.api.job.whole_job import answer_of_job
from tracebraid.errors import ArgumentError
from tracebraid.model.job import Job
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Analysis, Answer, Need
from tracebraid.model.questions.job_analysis import JobAnalysis
from tracebraid.model.step import PROFILER_STEP

__all__ = [
    "activations",
    "allocations",
    "allocator",
    "allocator_calls",
    "analyses",
    "analyze",
    "annotation_kernels",
    "batch_sizes",
    "breakdown",
    "check_options",
    "clocks",
    "collective_bandwidth",
    "collective_fit",
    "collective_imbalance",
    "collective_ranks",
    "collective_totals",
    "collectives",
    "copies",
    "copy_bandwidth",
    "copy_bandwidth_series",
    "counters",
    "exposed_collectives",
    "full_queue",
    "graph_kernels",
    "graph_replays",
    "idle_blame",
    "idle_causes",
    "idle_gaps",
    "inference_phases",
    "kernel_durations",
    "kernel_families",
    "kernel_pace",
    "kernel_sequences",
    "kernels",
    "kernels_by_op",
    "late_arrivals",
    "launch_bound",
    "launch_events",
    "launchers",
    "launches",
    "matched_groups",
    "memory_at_peak",
    "memory_growth",
    "memory_kept",
    "memory_peak",
    "memory_timeline",
    "mfu",
    "modules",
    "op_costs",
    "op_kernel_sequences",
    "ops",
    "overlap",
    "python_frames",
    "queue_lengths",
    "queue_series",
    "rank_steps",
    "rank_waits",
    "recomputation",
    "roofline",
    "short_kernels",
    "step_spread",
    "step_times",
    "steps",
    "stragglers",
    "stream_idle",
    "sync_calls",
    "syncs",
    "token_times",
    "user_annotations",
    "validity",
]

_P = ParamSpec("_P")

_MOST_THRESHOLD = 2**63 - 1
"""Times and counts are 64-bit integers."""
_PEAKS = {"peak_flops", "peak_bandwidth"}
"""Options that stand for what the table of devices does not know."""


def _over_ranks(
    question: Callable[Concatenate[LinkedTrace, _P], pl.DataFrame],
) -> Callable[Concatenate[LinkedTrace | Job, _P], pl.DataFrame]:
    """A question about one rank, as one that may be asked of a job, too: the rows of all ranks, in one pass."""

    analysis = next(analysis for analysis in ANALYSES if analysis.answer is question)
    _, *options = inspect.signature(question).parameters.values()
    taken = inspect.Signature(options)

    @wraps(question)
    def ask(traces: LinkedTrace | Job, /, *args: _P.args, **kwargs: _P.kwargs) -> pl.DataFrame:
        given = taken.bind(*args, **kwargs).arguments
        if isinstance(traces, LinkedTrace):
            return analysis.answer_of(traces, **given)
        return traces.ask(partial(analysis.answer_of, **given))[0]

    traces = inspect.Parameter("traces", inspect.Parameter.POSITIONAL_ONLY, annotation="LinkedTrace | Job")
    ask.__signature__ = inspect.Signature([traces, *options], return_annotation="pl.DataFrame")  # type: ignore[attr-defined]
    ask.__module__ = __name__
    ask.__doc__ = (question.__doc__ or "").replace("linked: one rank.", "traces: a linked trace, or a job.")
    return ask


def _of_job(question: Callable[Concatenate[LinkedRanks, _P], pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    """A question about linked ranks, as one that may be asked of a job, or of a trace as a job of one rank."""
    analysis = next(analysis for analysis in JOB_ANALYSES if analysis.answer is question)

    @wraps(question)
    def ask(traces: LinkedTrace | Job, /, **options: object) -> pl.DataFrame:
        return answer_of_job(analysis, traces, options).frame

    _, *parameters = inspect.signature(question).parameters.values()
    traces = inspect.Parameter("traces", inspect.Parameter.POSITIONAL_ONLY, annotation="LinkedTrace | Job")
    keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    ask.__signature__ = inspect.Signature([traces, *keyword], return_annotation="pl.DataFrame")  # type: ignore[attr-defined]
    ask.__module__ = __name__
    ask.__doc__ = (question.__doc__ or "").replace(
        "ranks: the ranks of a job.", "traces: a linked trace, or a job."
    )
    return ask


validity = _over_ranks(_validity)
steps = _over_ranks(_steps)
step_times = _over_ranks(_step_times)
step_spread = _over_ranks(_step_spread)
breakdown = _over_ranks(_breakdown)
overlap = _over_ranks(_overlap)
exposed_collectives = _over_ranks(_exposed_collectives)
idle_causes = _over_ranks(_idle_causes)
idle_blame = _over_ranks(_idle_blame)
idle_gaps = _over_ranks(_idle_gaps)
stream_idle = _over_ranks(_stream_idle)
kernels = _over_ranks(_kernels)
kernel_families = _over_ranks(_kernel_families)
kernels_by_op = _over_ranks(_kernels_by_op)
launchers = _over_ranks(_launchers)
short_kernels = _over_ranks(_short_kernels)
kernel_durations = _over_ranks(_kernel_durations)
kernel_pace = _over_ranks(_kernel_pace)
kernel_sequences = _over_ranks(_kernel_sequences)
op_kernel_sequences = _over_ranks(_op_kernel_sequences)
graph_kernels = _over_ranks(_graph_kernels)
ops = _over_ranks(_ops)
user_annotations = _over_ranks(_user_annotations)
annotation_kernels = _over_ranks(_annotation_kernels)
modules = _over_ranks(_modules)
python_frames = _over_ranks(_python_frames)
launches = _over_ranks(_launches)
launch_events = _over_ranks(_launch_events)
launch_bound = _over_ranks(_launch_bound)
queue_lengths = _over_ranks(_queue_lengths)
queue_series = _over_ranks(_queue_series)
full_queue = _over_ranks(_full_queue)
copies = _over_ranks(_copies)
copy_bandwidth = _over_ranks(_copy_bandwidth)
copy_bandwidth_series = _over_ranks(_copy_bandwidth_series)
syncs = _over_ranks(_syncs)
sync_calls = _over_ranks(_sync_calls)
counters = _over_ranks(_counters)
op_costs = _over_ranks(_op_costs)
roofline = _over_ranks(_roofline)
mfu = _over_ranks(_mfu)
recomputation = _over_ranks(_recomputation)
memory_timeline = _over_ranks(_memory_timeline)
memory_peak = _over_ranks(_memory_peak)
memory_at_peak = _over_ranks(_memory_at_peak)
allocations = _over_ranks(_allocations)
activations = _over_ranks(_activations)
memory_growth = _over_ranks(_memory_growth)
memory_kept = _over_ranks(_memory_kept)
allocator = _over_ranks(_allocator)
allocator_calls = _over_ranks(_allocator_calls)
inference_phases = _over_ranks(_inference_phases)
token_times = _over_ranks(_token_times)
batch_sizes = _over_ranks(_batch_sizes)
graph_replays = _over_ranks(_graph_replays)


clocks = _of_job(_clocks)
matched_groups = _of_job(_matched_groups)
collectives = _of_job(_collectives)
collective_ranks = _of_job(_collective_ranks)
collective_totals = _of_job(_collective_totals)
collective_bandwidth = _of_job(_collective_bandwidth)
collective_fit = _of_job(_collective_fit)
collective_imbalance = _of_job(_collective_imbalance)
stragglers = _of_job(_stragglers)
rank_waits = _of_job(_rank_waits)
rank_steps = _of_job(_rank_steps)
late_arrivals = _of_job(_late_arrivals)


def analyses() -> tuple[Analysis | JobAnalysis, ...]:
    """All analyses: of each its name, its question, the table of its answer, its options, and what it needs.

    Examples:
        >>> import tracebraid
        >>> [analysis.question for analysis in tracebraid.analyses() if analysis.name == "launchers"]
        ["What launched the device's time: ops, annotations, graphs, or nothing that the trace knows?"]
    """
    return (*ANALYSES, *JOB_ANALYSES)


def analyze(name: str, traces: LinkedTrace | Job, **options: object) -> Answer:
    """Ask an analysis by its name, and learn what the traces lack for it.

    Args:
        name: the name of one of `analyses()`; `-` may stand for `_`.
        traces: a linked trace, or a job: the rows of all ranks, in one pass.
        options: those of the analysis.

    Raises:
        ArgumentError: there is no such analysis or option, or the option takes no such value.
        InputError: a file cannot be read.

    Examples:
        >>> import tracebraid
        >>> answer = tracebraid.analyze("kernels", tracebraid.open(tracebraid.demo_path()))
        >>> answer.frame.height, answer.is_unanswerable
        (0, True)
    """
    analysis = _named(name)
    check_options(analysis, options)
    if isinstance(analysis, JobAnalysis):
        return answer_of_job(analysis, traces, options)
    question = partial(_answer_of_rank, analysis, options)
    answers = [question(traces)] if isinstance(traces, LinkedTrace) else list(traces.each(question))
    lacks = {rank: needs for rank, needs, _ in answers}
    return Answer(analysis, pl.concat(frame for _, _, frame in answers), lacks)


def _answer_of_rank(
    analysis: Analysis, options: Mapping[str, object], linked: LinkedTrace
) -> tuple[int, tuple[Need, ...], pl.DataFrame]:
    """The rank, what it lacks for an analysis, and its answer."""
    missing = lacking(analysis, linked, str(options.get("annotation", PROFILER_STEP)))
    given = {Need.DEVICE_PEAKS} if options.keys() & _PEAKS else set()
    lacks = tuple(need for need in missing if need not in given)
    return linked.rank, lacks, analysis.answer_of(linked, **options)


def check_options(analysis: Analysis | JobAnalysis, options: Mapping[str, object]) -> None:
    """Refuse options that an analysis does not have, and values that are not of their types or out of range.

    Whole numbers are thresholds: lengths, counts and times, none of them negative.

    Raises:
        ArgumentError: names the option, and what the analysis has or takes.
    """
    parameters = inspect.signature(analysis.answer).parameters
    for option, value in options.items():
        if option not in analysis.options:
            have = ", ".join(analysis.options) or "none"
            raise ArgumentError(f"{analysis.name} has no option {option!r}; it has: {have}")
        kinds = str(parameters[option].annotation).split(" | ")
        if not any(_fits(value, kind) for kind in kinds):
            raise ArgumentError(f"{analysis.name}: {option} is {value!r}, and takes {' or '.join(kinds)}")
        if kinds == ["int"] and isinstance(value, int) and not 0 <= value <= _MOST_THRESHOLD:
            raise ArgumentError(f"{analysis.name}: {option} is {value!r}; give 0 to {_MOST_THRESHOLD:,}")


def _fits(value: object, kind: str) -> bool:
    """Whether a value is of a type as it is written in a signature; a whole number is a float, too."""
    if isinstance(value, bool):
        return kind == "bool"
    if kind == "float":
        return isinstance(value, int | float)
    if kind == "Iterable[str]":
        return isinstance(value, Iterable) and all(isinstance(item, str) for item in value)
    return isinstance(value, {"int": int, "str": str, "None": type(None)}.get(kind, ()))


def _named(name: str) -> Analysis | JobAnalysis:
    wanted = name.replace("-", "_")
    found = next((analysis for analysis in analyses() if analysis.name == wanted), None)
    if found is None:
        raise ArgumentError(
            f"there is no analysis {name!r}; there are: {', '.join(a.name for a in analyses())}"
        )
    return found
