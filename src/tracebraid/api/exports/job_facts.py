"""Facts about a whole job that an export needs before any rank is written: clocks, collectives, critical path."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.analysis.collectives.transfers import collective_ranks, collectives
from tracebraid.analysis.time.step_windows import steps_refused
from tracebraid.api.exports.export import ExportOptions, StepNames, steps_of
from tracebraid.api.graphing import RankOfGraph, critical_path, graph_of_ranks, rank_of_graph
from tracebraid.api.job_answers import linked_parts, rank_parts
from tracebraid.errors import ArgumentError
from tracebraid.model.engine import InProcess, Job
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import CriticalPath
from tracebraid.model.linked_ranks import LinkedRanks, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import MATCHED_COLLECTIVES, MEMBERS


def joined_members(ranks: LinkedRanks, options: ExportOptions) -> pl.DataFrame:
    """Return the members of collectives with at least two known members: `rank`, `event_id`, `collective`, and
    whether it `is_first` and `is_last` to start.
    """
    members = ranks.members.filter(pl.col("collective").is_not_null())
    if options.step is not None:
        members = members.filter(options.is_step(pl.col("step")))
    order = pl.int_range(pl.len()).over("collective")
    count = pl.len().over("collective")
    return (
        members.sort("collective", "start_ns", "rank", "event_id")
        .filter(count > 1)
        .select(
            *("rank", "event_id", "collective"),
            (order == 0).alias("is_first"),
            (order == count - 1).alias("is_last"),
        )
    )


def collective_rates(ranks: LinkedRanks) -> pl.DataFrame:
    """Compute the bus bandwidth of active transfers by rank and time: `rank`, `ts_ns`, `bytes_per_s`.

    A collective counts on each of its ranks during its transfer: for `transfer_ns` before its end, without
    waiting. Concurrent transfers are added up.
    """
    rate = collectives(ranks).select("collective", "bus_bytes_per_s").drop_nulls()
    parts = (
        collective_ranks(ranks)
        .select("rank", "collective", "transfer_ns", "end_ns")
        .filter(pl.col("transfer_ns") > 0)
        .join(rate, on="collective", how="inner", maintain_order="left")
    )
    start, end, rate_of = (
        pl.col("end_ns") - pl.col("transfer_ns"),
        pl.col("end_ns"),
        pl.col("bus_bytes_per_s"),
    )
    begins = parts.select("rank", start.alias("ts_ns"), rate_of.alias("change"), pl.lit(1).alias("running"))
    ends = parts.select("rank", end.alias("ts_ns"), (-rate_of).alias("change"), pl.lit(-1).alias("running"))
    changes = (
        pl.concat([begins, ends])
        .group_by("rank", "ts_ns", maintain_order=True)
        .agg(pl.col("change").sum(), pl.col("running").sum())
        .sort("rank", "ts_ns")
    )
    running = pl.col("running").cum_sum().over("rank")
    # Sums of floats end beside 0 if nothing runs.
    value = pl.when(running > 0).then(pl.col("change").cum_sum().over("rank")).otherwise(0.0)
    return changes.select("rank", "ts_ns", value.alias("bytes_per_s"))


FIRST_PASS = 0.5
"""Share of the progress of the first of two passes over the ranks."""


class JobFacts(Struct, frozen=True, eq=False):
    """Facts about a job.

    Args:
        ranks: the readable ranks, on aligned clocks.
        numbers: the position of each rank among those shown.
        only: the only rank, where there is no other: it need not be read again.
        earliest_ns: start of the first event, on aligned clocks; 0 without events.
        members: `joined_members`.
        rates: `collective_rates`.
        path: the critical path; None if there is none.
    """

    ranks: LinkedRanks
    numbers: Mapping[int, int]
    only: LinkedTrace | None
    earliest_ns: int
    members: pl.DataFrame
    rates: pl.DataFrame
    path: CriticalPath | None

    @property
    def of_ranks(self) -> JobFacts:
        """Reduce it to what timelines of single ranks need, for worker processes."""
        ranks = dataclasses.replace(
            self.ranks, members=MEMBERS.empty(), collectives=MATCHED_COLLECTIVES.empty(), parts={}
        )
        return replace(self, ranks=ranks, only=None, path=None)


def job_facts(job: Job, options: ExportOptions) -> JobFacts:
    """Read each exported rank once."""
    alone = len(job.ranks) == 1
    # The only rank is asked here, whatever the engine, and written next: it is not read twice.
    first = dataclasses.replace(job, engine=InProcess()) if alone else job
    asked = partial(_facts_of_rank, options, keeps_linked=alone)
    found = list(first.with_progress(0.0, FIRST_PASS).each(asked))
    seen = StepNames(options, job.annotation)
    for of_rank in found:
        seen.see(of_rank.steps)
    seen.check()
    linked_ranks, path, findings = _joined(found, options)
    job.add_findings(findings)
    starts = [(of_rank.rank, of_rank.start_ns) for of_rank in found if of_rank.start_ns is not None]
    on_own_clocks = pl.DataFrame(starts, schema={"rank": pl.Int64, "ts_ns": pl.Int64}, orient="row")
    earliest = linked_ranks.aligned(on_own_clocks, "ts_ns").get_column("ts_ns").min()
    return JobFacts(
        linked_ranks,
        {of_rank.rank: number for number, of_rank in enumerate(found)},
        found[0].linked if len(found) == 1 else None,
        earliest if isinstance(earliest, int) else 0,
        joined_members(linked_ranks, options),
        collective_rates(linked_ranks),
        path,
    )


class _FactsOfRank(Struct, frozen=True, eq=False):
    """Facts about a rank.

    Args:
        rank: the rank.
        parts: the data for linking it with other ranks.
        graph: its part of the dependency graph; None if it cannot be built.
        steps: the names of its steps, if one is exported.
        start_ns: start of its first event, on its own clock; None without events.
        problem: why there is no graph, such as a missing library; empty if there is one.
        linked: the rank itself, if it is the only one.
    """

    rank: int
    parts: RankParts
    graph: RankOfGraph | None
    steps: tuple[str, ...]
    start_ns: int | None
    problem: str
    linked: LinkedTrace | None


def _facts_of_rank(options: ExportOptions, linked: LinkedTrace, *, keeps_linked: bool) -> _FactsOfRank:
    """Gather the facts about a rank; unreadable files raise here."""
    if linked.has_et:
        linked.compute_all()
    steps = steps_of(linked, options)
    start = linked.timeline.events.get_column("ts_ns").min()
    refusal = steps_refused(linked)
    problem = "" if refusal is None else refusal.problem
    graph = rank_of_graph(linked) if refusal is None else None
    parts = rank_parts(linked) if graph is None else graph.parts
    start_ns = start if isinstance(start, int) else None
    kept = linked if keeps_linked else None
    return _FactsOfRank(linked.rank, parts, graph, steps, start_ns, problem, kept)


def _joined(
    found: Sequence[_FactsOfRank], options: ExportOptions
) -> tuple[LinkedRanks, CriticalPath | None, tuple[Finding, ...]]:
    """Link the ranks; return them, the critical path over the shown ranks, and the reason if there is none."""
    problem = next((of_rank.problem for of_rank in found if of_rank.problem), "")
    graphs = [of_rank.graph for of_rank in found if of_rank.graph is not None]
    if not problem:
        try:
            graph = graph_of_ranks(graphs)
            path = critical_path(graph, step=options.step, replays=0, with_error=False)
        except ArgumentError as error:
            problem = str(error)
        else:
            return graph.ranks, path, ()
    without = Finding.of(FindingCode.NO_CRITICAL_PATH, problem=problem)
    return linked_parts([of_rank.parts for of_rank in found]), None, (without,)
