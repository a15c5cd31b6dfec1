"""A rank of a job as a process of its timeline."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tracebraid.analysis.host.call_sites import call_sites
from tracebraid.analysis.ops.modules.module_tree import module_tree
from tracebraid.api.exports.job_facts import JobFacts
from tracebraid.api.exports.options import ExportOptions
from tracebraid.api.exports.rank_counters import rank_counters
from tracebraid.api.exports.steps import events_of_step
from tracebraid.api.job.aligning import on_reference_clock
from tracebraid.exporters.perfetto.content import Counter, Process
from tracebraid.exporters.perfetto.json_text import gathered
from tracebraid.exporters.perfetto.rank_process import RankContext, rank_process
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["rank_timeline"]


def rank_timeline(linked: LinkedTrace, facts: JobFacts, options: ExportOptions, number: int) -> Process:
    """A rank as a process, on the clock of the job's reference.

    Args:
        linked: the rank.
        facts: what is known of the whole job.
        options: which of its steps are shown.
        number: its place among the processes.
    """
    of_rank = pl.col("rank") == linked.rank
    events = on_reference_clock(linked, facts.ranks).timeline.events
    if options.step is not None:
        events = events[events_of_step(linked, options)]

    def align(frame: pl.DataFrame) -> pl.DataFrame:
        own = frame.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias("rank"))
        return facts.ranks.aligned(own, "ts_ns")

    counters = rank_counters(linked, options.annotation, align, facts.rates.filter(of_rank))
    if options.step is not None:
        counters = _within(counters, events)
    context = RankContext(
        number,
        events,
        _surroundings(linked),
        facts.members.filter(of_rank).drop("rank"),
        counters,
        _labels(linked, facts.ranks.ranks.filter(of_rank)),
    )
    return rank_process(linked, context)


def _surroundings(linked: LinkedTrace) -> pl.DataFrame:
    """Each host event's module and call site: `event_id` and an argument each, null where they are unknown."""
    modules = module_tree(linked)
    module = gathered(modules.paths.texts(modules.names, "/"), modules.path)
    sites = call_sites(linked).rename({"call_site": "call site"})
    return sites.with_columns(module.alias("module"))


def _labels(linked: LinkedTrace, facts: pl.DataFrame) -> list[str]:
    """Host, process and devices, as far as the trace says them."""
    host, process = facts.select("host", "process_id").row(0)
    known = [host, None if process is None else f"pid {process}", *linked.timeline.device_names]
    return [label for label in known if label]


def _within(counters: list[Counter], events: pl.DataFrame) -> list[Counter]:
    """The changes of counters from the first start of some events to their last end."""
    starts = events.get_column("ts_ns").to_numpy()
    if not len(starts):
        return []
    start, stop = starts.min(), (starts + events.get_column("dur_ns").to_numpy()).max()
    found = []
    for counter in counters:
        shown = (counter.ts_ns >= start) & (counter.ts_ns <= stop)
        if shown.any():
            found.append(replace(counter, ts_ns=counter.ts_ns[shown], values=counter.values[shown]))
    return found
