"""Advice: what could be saved in a rank or a job, the most first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from statistics import fmean, median

import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

import tracebraid.graph
from tracebraid.analysis.antipatterns.catalog import rank_detectors
from tracebraid.analysis.antipatterns.known_detectors import (
    FOUND,
    KnownDetectors,
    RankEvidence,
    evidence_of_job,
    evidence_of_rank,
    gathered_of,
    known_detectors,
)
from tracebraid.analysis.antipatterns.ranking import DEFAULT_MIN_SAVING as DEFAULT_MIN_SAVING
from tracebraid.analysis.antipatterns.ranking import (
    REMOVED,
    ProfilerCost,
    counted_windows,
    estimated,
    min_saving_of,
    profiler_cost,
    ranked,
    windows_to_save_in,
)
from tracebraid.analysis.device import device_events
from tracebraid.analysis.efficiency.roofline import known_peaks, limit_of, transfers_of
from tracebraid.analysis.memory.memory_growth import growth_by_step
from tracebraid.analysis.needs import lacking_of
from tracebraid.analysis.wrappers import wrappers_of
from tracebraid.api.graphing import graph_beside
from tracebraid.api.job_answers import rank_parts
from tracebraid.graph.critical_path.step_bounds import step_bounds
from tracebraid.graph.host_causes import compute_function
from tracebraid.graph.latest_edges import step_accounts
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.analysis import Need
from tracebraid.model.answers.graph import ACCOUNTING, StepCause
from tracebraid.model.answers.job import ADVICE, ADVICE_BY_STEP, ADVICE_EVIDENCE, ADVICE_SITES
from tracebraid.model.declared import declared
from tracebraid.model.device_peaks import WAIT
from tracebraid.model.engine import Job, Questions
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.gaps import FoundGap, is_hidden
from tracebraid.model.graph import DependencyGraph
from tracebraid.model.linked_ranks import Gather, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import (
    Advice,
    AnyDetector,
    Growth,
    JobDetector,
    Limit,
    PathDetector,
    Removal,
    Transfers,
    Wrapper,
)
from tracebraid.model.step import PROFILER_STEP
from tracebraid.simulation.counterfactual import gains_of
from tracebraid.simulation.unrecorded import without_recording


class RankAdvice(Struct, frozen=True, eq=False):
    """Data of a rank that is kept for advice.

    Args:
        rank: the rank.
        found: what detectors found on it.
        parts: what links it with the others; None where there are no detectors of a job.
        gathered: what detectors of a job take of it, in the order of `KnownDetectors.gathers`: functions that another
            process made of its own are not those of this one. None of a detector that failed.
        profiler: what the profiler cost; None: the capture did not measure it.
        growth: by how much its memory grows in each step; None: it does not, or that is unknown.
        precisions: in which its device computes; None: it is unknown.
        unlaunched: how much of its device's work has no launch in the trace, 0 to 1.
        limit: what bounds most of what its device computes; None: unknown.
        transfers: how fast its collectives are; None: unknown.
        wrappers: what distributes its model over ranks.
        gaps: what its trace shows not at all, or not as it was.
    """

    rank: int
    found: RankEvidence
    parts: RankParts | None
    gathered: tuple[pl.DataFrame | None, ...] = ()
    profiler: ProfilerCost | None = None
    growth: Growth | None = None
    precisions: frozenset[str] | None = None
    unlaunched: float = 0.0
    limit: Limit | None = None
    transfers: Transfers | None = None
    wrappers: frozenset[Wrapper] = frozenset()
    gaps: tuple[FoundGap, ...] = ()


def advise(traces: LinkedTrace | Job, min_saving: str | float = DEFAULT_MIN_SAVING) -> Advice:
    """List possible savings, largest first: causes, evidence, and changes.

    Each rank is read once, and what was found on it is kept with the job. Detectors of installed packages are asked,
    too: entry points of `tracebraid.detectors`.

    Args:
        traces: a linked trace, or a job.
        min_saving: the least that an advice must save: a share of the step (`1%`, or 0.01), or a time for each step
            (`0.5ms`).

    Raises:
        ArgumentError: `min_saving` is neither a share nor a time.
        InputError: a file cannot be read.

    Example::

        advice = tracebraid.advise(tracebraid.open("traces/"))
        print(advice.items.select("detector", "op", "saving_per_step_ns"))
    """
    job = Job.of(traces)
    advice = advice_beside(job, {}, min_saving)
    job.add_findings(advice.findings)
    return advice


def advice_beside(job: Job, questions: Questions, min_saving: str | float = DEFAULT_MIN_SAVING) -> Advice:
    """Do as `advise` in one pass with other questions, whose answers `Job.take` then has."""
    min_saving_of(min_saving)
    known = all_detectors().for_ranks(len(job.ranks))
    # A package may be installed between two questions: then other detectors are asked.
    key = (rank_advice, job.annotation, known.of_ranks, known.of_job)
    asked: Questions = {key: partial(rank_advice, known=known)}
    graph = graph_beside(job, {**asked, **questions})
    return advice_of_ranks([of_rank[key] for of_rank in job.take(asked)], known, graph, min_saving)


def detectors() -> tuple[AnyDetector, ...]:
    """All detectors, those of installed packages among them: of each its name, what is wrong, and what mends it."""
    return tuple(all_detectors().by_name.values())


def all_detectors() -> KnownDetectors:
    """All detectors, those of the critical path and of installed packages among them."""
    of_path = declared(tracebraid.graph, PathDetector)
    return known_detectors(sorted(of_path, key=lambda detector: detector.name))


def check_min_saving(min_saving: str | float) -> None:
    """Check the least saving before anything is read."""
    min_saving_of(min_saving)


def rank_advice(linked: LinkedTrace, known: KnownDetectors) -> RankAdvice:
    """Data of a rank that is kept for advice."""
    found = _evidence(linked, known)
    found = replace(found, evidence=linked.compacted(found.evidence), windows=linked.compacted(found.windows))
    cost, growth = profiler_cost(linked, counted_windows(found.windows)), growth_by_step(linked)
    peaks = known_peaks(linked)
    precisions = None if peaks is None else frozenset(precision.value for precision in peaks.flops_per_s)
    limits = (limit_of(linked), transfers_of(linked))
    facts = (precisions, _unlaunched(linked), *limits, wrappers_of(linked), linked.gaps)
    if not known.of_job:
        return RankAdvice(linked.rank, found, None, (), cost, growth, *facts)
    taken, findings = gathered_of(linked, known)
    kept = {gather: linked.compacted(frame) for gather, frame in taken.items()}
    found = replace(found, findings=(*found.findings, *findings))
    gathered = tuple(kept.get(gather) for gather in known.gathers)
    parts = rank_parts(linked)
    return RankAdvice(linked.rank, found, parts, gathered, cost, growth, *facts)


def _evidence(linked: LinkedTrace, known: KnownDetectors) -> RankEvidence:
    """Results of detectors on a rank, for built-in ones from the store if available."""
    if linked.annotation != PROFILER_STEP or known.of_ranks != rank_detectors():
        return evidence_of_rank(linked, known)
    lacks = {detector.name: lacking_of(detector.needs, linked) for detector in rank_detectors()}
    evidence, windows = (linked.answered(key, ask) for key, ask in ADVICE_QUESTIONS.items())
    return RankEvidence(evidence, windows, lacks)


def _found(linked: LinkedTrace) -> pl.DataFrame:
    return evidence_of_rank(linked, KnownDetectors(rank_detectors())).evidence


def _windows(linked: LinkedTrace) -> pl.DataFrame:
    return windows_to_save_in(linked)


ADVICE_QUESTIONS: Mapping[str, Callable[[LinkedTrace], pl.DataFrame]] = {
    "advice.evidence": _found,
    "advice.windows": _windows,
}
"""Results of built-in detectors on a rank, with the default annotation."""


def advice_of_ranks(
    ranks: Sequence[RankAdvice],
    known: KnownDetectors,
    graph: DependencyGraph | None,
    min_saving: str | float = DEFAULT_MIN_SAVING,
) -> Advice:
    """The advice from what was kept of each rank."""
    least = min_saving_of(min_saving)
    gaps = tuple(found for rank in ranks for found in rank.gaps)
    if is_hidden(Need.DEVICE_WORK, gaps):
        # What the host did meanwhile bounds nothing.
        return _unknown(ranks, known, gaps)
    evidence, findings = _evidence_of_all(ranks, known)
    judged = _Judged(evidence, _windows_of_all(ranks), _profiler(ranks))
    if graph is not None:
        judged = _judged_on_path(judged, graph, known)
    estimator = partial(estimated, gains=judged.gains, profiler=judged.profiler)
    every = _within_path(judged.evidence, judged.accounts, known)
    found = ranked(every, judged.windows, least, estimator, known.by_name, judged.device_windows)
    step_ns = _step_ns(judged.accounts) or found.step_ns
    own_step_ns = step_ns * judged.profiler.own
    transfers = (rank.transfers for rank in ranks if rank.transfers is not None)
    return Advice(
        _with_shares(found.items, own_step_ns),
        found.by_step,
        found.sites,
        judged.recorded_at(found.evidence),
        known.by_name,
        tuple(rank.rank for rank in ranks),
        found.steps,
        judged.recorded_step_ns or step_ns,
        own_step_ns,
        judged.accounts,
        growth=tuple(rank.growth for rank in ranks if rank.growth is not None),
        precisions=ranks[0].precisions if ranks and len({rank.precisions for rank in ranks}) == 1 else None,
        lacks=_lacks(ranks),
        findings=tuple(dict.fromkeys(findings)),
        unlaunched=max((rank.unlaunched for rank in ranks), default=0.0),
        limit=next((rank.limit for rank in ranks if rank.limit is not None), None),
        transfers=max(transfers, key=lambda each: each.bytes_per_s, default=None),
        by_device=judged.by_device,
        compute_site=judged.compute_site,
        wrappers=frozenset().union(*(rank.wrappers for rank in ranks)),
        gaps=gaps,
    )


def _evidence_of_all(
    ranks: Sequence[RankAdvice], known: KnownDetectors
) -> tuple[pl.DataFrame, list[Finding]]:
    """Evidence of each rank and of the linked ranks, with findings."""
    evidence = [rank.found.evidence for rank in ranks]
    findings = [*known.findings, *(finding for rank in ranks for finding in rank.found.findings)]
    with_parts = [rank for rank in ranks if rank.parts is not None]
    if with_parts:
        lists = zip(known.gathers, zip(*(rank.gathered for rank in with_parts), strict=True), strict=True)
        everywhere = {gather for gather, frames in lists if all(frame is not None for frame in frames)}
        linked = link_ranks([_parts(rank, known, everywhere) for rank in with_parts])
        of_job, failed = evidence_of_job(linked, known.with_gathers(everywhere))
        evidence.append(of_job)
        findings += [*linked.findings, *failed]
    return pl.concat(evidence), findings


def _no_gains(_: pl.DataFrame) -> pl.DataFrame:
    """Advice without a graph."""
    return pl.DataFrame(
        schema={"item": pl.Int64, "gain_ns": pl.Int64, "device_gain_ns": pl.Int64, "host_events": pl.Float64}
    )


def _as_recorded(evidence: pl.DataFrame) -> pl.DataFrame:
    return evidence


class _Judged(Struct, frozen=True, eq=False):
    """Evidence with the steps that it is judged by; the defaults are those without a graph.

    Args:
        evidence: all occurrences.
        windows: the steps of the hosts.
        profiler: what the profiler costs.
        device_windows: the steps as they end on the devices.
        accounts: `ACCOUNTING`.
        by_device: whether it counts what a device does before what its host does at the same time.
        compute_site: the user's function in which much is computed.
        recorded_step_ns: mean time of a step as recorded, if the graph is without the recording; else 0.
        gains: replays the graph without the occurrences of items.
        recorded_at: moves evidence to the times as recorded.
    """

    evidence: pl.DataFrame
    windows: pl.DataFrame
    profiler: ProfilerCost
    device_windows: pl.DataFrame | None = None
    accounts: pl.DataFrame = field(default_factory=ACCOUNTING.empty)
    by_device: bool = False
    compute_site: tuple[str, float] | None = None
    recorded_step_ns: float = 0.0
    gains: Callable[[pl.DataFrame], pl.DataFrame] = _no_gains
    recorded_at: Callable[[pl.DataFrame], pl.DataFrame] = _as_recorded


def _judged_on_path(judged: _Judged, graph: DependencyGraph, known: KnownDetectors) -> _Judged:
    """Judge evidence by the critical path, without what recording costs where that is known."""
    removals = {each.name: each.removes for each in known.by_name.values() if each.removes is not None}
    judged = replace(judged, evidence=_placed(judged.evidence, graph))
    unrecorded = without_recording(graph)
    if unrecorded is not None:
        idle = [name for name, removes in removals.items() if removes is Removal.HOST]
        judged = replace(
            judged,
            evidence=unrecorded.occurrences(judged.evidence, idle),
            windows=unrecorded.moved(judged.windows),
            profiler=REMOVED,
            recorded_step_ns=_recorded_step_ns(graph, judged.windows),
            recorded_at=unrecorded.recorded_at,
        )
        graph = unrecorded.graph
    steps = judged.windows.get_column("step").unique().drop_nulls().to_list()
    found = step_accounts(graph, steps)
    of_path = [pl.DataFrame(schema=FOUND)] + [
        detector.detect(graph, found.path).with_columns(pl.lit(detector.name).alias("detector"))
        for detector in known.of_path
    ]
    device_windows = _device_windows(graph, judged.windows)
    return replace(
        judged,
        evidence=pl.concat([judged.evidence, _placed(pl.concat(of_path), graph)]),
        windows=_from_their_starts(judged.windows, device_windows),
        device_windows=device_windows,
        accounts=found.table,
        by_device=found.by_device,
        compute_site=compute_function(graph, found.path),
        gains=partial(gains_of, graph, removals),
    )


def _with_shares(items: pl.DataFrame, step_ns: float) -> pl.DataFrame:
    """Items with their share of a step; none saves more than that."""
    savings = pl.col("saving_per_step_ns", "saving_low_per_step_ns", "saving_high_per_step_ns")
    share = (pl.col("saving_per_step_ns") / max(step_ns, 1.0)).clip(0.0, 1.0)
    return items.with_columns(savings.clip(upper_bound=step_ns), share.alias("share"))


def _windows_of_all(ranks: Sequence[RankAdvice]) -> pl.DataFrame:
    return counted_windows(pl.concat([rank.found.windows for rank in ranks]))


def _unknown(ranks: Sequence[RankAdvice], known: KnownDetectors, gaps: tuple[FoundGap, ...]) -> Advice:
    """The advice of ranks that do not show what bounds them: none."""
    return Advice(
        ADVICE.empty(),
        ADVICE_BY_STEP.empty(),
        ADVICE_SITES.empty(),
        ADVICE_EVIDENCE.empty(),
        known.by_name,
        tuple(rank.rank for rank in ranks),
        _windows_of_all(ranks).get_column("step").drop_nulls().n_unique(),
        0.0,
        0.0,
        ACCOUNTING.empty(),
        lacks=_lacks(ranks),
        findings=tuple(dict.fromkeys(known.findings)),
        gaps=gaps,
    )


def _placed(evidence: pl.DataFrame, graph: DependencyGraph) -> pl.DataFrame:
    """Evidence with whether its event runs on a device: `on_device`."""
    events = graph.activities.filter(pl.col("stream").is_not_null()).select("rank", "event_id")
    of_device = events.drop_nulls().unique().with_columns(pl.lit(value=True).alias("on_device"))
    found = evidence.join(of_device, on=["rank", "event_id"], how="left", maintain_order="left")
    return found.with_columns(pl.col("on_device").fill_null(value=False))


def _within_path(every: pl.DataFrame, accounts: pl.DataFrame, known: KnownDetectors) -> pl.DataFrame:
    """Waits between ranks that no replay can take away, at most what the job's path does besides the host's code."""
    names = [
        name for name, each in known.by_name.items() if isinstance(each, JobDetector) and each.removes is None
    ]
    of_job = accounts.filter(pl.col("of_rank").is_null())
    is_host = as_text("cause").is_in([StepCause.HOST.value, StepCause.LAUNCH.value])
    if of_job.is_empty():
        return every
    at_most = of_job.filter(~is_host).get_column("ns").sum()
    all_ns = pl.col("saving_ns").sum().over("detector", "rank")
    share = (
        pl.when(as_text("detector").is_in(names) & (all_ns > at_most)).then(at_most / all_ns).otherwise(1.0)
    )
    saving = (pl.col("saving_ns") * share).floor().cast(pl.Int64)
    return every.with_columns(saving.alias("saving_ns")).filter(pl.col("saving_ns") > 0)


def _recorded_step_ns(graph: DependencyGraph, windows: pl.DataFrame) -> float:
    """Mean time of a step of the job as recorded."""
    names = windows.get_column("step").unique().to_list()
    spans = [bound.end_ns - bound.start_ns for bound in step_bounds(graph) if bound.step in names]
    return fmean(spans) if spans else 0.0


def _unlaunched(linked: LinkedTrace) -> float:
    """Share of a rank's device time without a launch in the trace."""
    work = device_events(linked).filter(pl.col("kind") != WAIT)
    total = int(work.get_column("dur_ns").sum())
    return int(work.filter(pl.col("call_event").is_null()).get_column("dur_ns").sum()) / max(total, 1)


def _device_windows(graph: DependencyGraph, windows: pl.DataFrame) -> pl.DataFrame:
    """The steps of the hosts as they end on the devices: each from the end of the one before on, as in the accounting.

    A rank of which several steps have one name keeps those of its host.
    """
    found = [windows.clear()]
    for (rank,), rows in windows.group_by("rank", maintain_order=True):
        assert isinstance(rank, int)
        names = rows.get_column("step").to_list()
        bounds = sorted(step_bounds(graph, rank), key=lambda bound: bound.end_ns)
        starts = [bound.start_ns for bound in bounds[:1]] + [bound.end_ns for bound in bounds[:-1]]
        steps = [(bound.step, start, bound.end_ns) for bound, start in zip(bounds, starts, strict=True)]
        kept = [(rank, *step) for step in steps if step[0] in names and step[1] < step[2]]
        if len(kept) == len(names):
            own = pl.DataFrame(kept, schema=windows.schema, orient="row")
            rows = graph.ranks.unaligned(own, "start_ns", "end_ns").select(windows.columns)
        found.append(rows)
    return pl.concat(found)


def _from_their_starts(windows: pl.DataFrame, device_windows: pl.DataFrame) -> pl.DataFrame:
    """The steps of the hosts; the first of each rank from when it has begun on all ranks, as in the accounting."""
    begins = device_windows.group_by("rank").agg(pl.col("start_ns").min().alias("begins"))
    is_first = pl.col("start_ns") == pl.col("start_ns").min().over("rank")
    start = pl.when(is_first).then(pl.max_horizontal("start_ns", "begins")).otherwise("start_ns")
    cut = windows.join(begins, on="rank", how="left", maintain_order="left").with_columns(
        pl.min_horizontal(start, "end_ns").alias("start_ns")
    )
    return cut.select(windows.columns)


def _step_ns(accounts: pl.DataFrame) -> float:
    """Mean step time of the job; 0: nothing is accounted for."""
    of_job = accounts.filter(pl.col("of_rank").is_null())
    total = of_job.get_column("ns").sum()
    return int(total) / max(of_job.get_column("step").n_unique(), 1)


def _profiler(ranks: Sequence[RankAdvice]) -> ProfilerCost:
    """Cost of the profiler on the median rank."""
    known = [rank.profiler for rank in ranks if rank.profiler is not None]
    if not known:
        return ProfilerCost()
    return ProfilerCost(
        median(cost.event_ns for cost in known),
        median(cost.pace for cost in known),
        median(cost.own for cost in known),
    )


def _parts(rank: RankAdvice, known: KnownDetectors, gathers: Collection[Gather]) -> RankParts:
    """Parts of a rank, with the tables gathered from all ranks."""
    assert rank.parts is not None, "only such ranks are linked"
    taken = zip(known.gathers, rank.gathered, strict=True)
    kept = {gather: frame for gather, frame in taken if gather in gathers and frame is not None}
    return replace(rank.parts, gathered=kept)


def _lacks(ranks: Sequence[RankAdvice]) -> Mapping[str, Mapping[int, tuple[Need, ...]]]:
    found: dict[str, dict[int, tuple[Need, ...]]] = {}
    for rank in ranks:
        for name, needs in rank.found.lacks.items():
            if needs:
                found.setdefault(name, {})[rank.rank] = needs
    return found
