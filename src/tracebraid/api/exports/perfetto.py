"""The timeline of a job, for Perfetto and other viewers: all ranks in a trace, on aligned clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.analysis.device import stream_names
from tracebraid.analysis.host.host_trees import call_sites
from tracebraid.analysis.launches.copies import copy_bandwidth_series
from tracebraid.analysis.launches.queues import queue_series
from tracebraid.analysis.memory.memory_use import memory_timeline
from tracebraid.analysis.ops.modules import module_tree
from tracebraid.api.exports.export import Exported, ExportOptions, events_of_step
from tracebraid.api.exports.job_facts import FIRST_PASS, JobFacts, job_facts
from tracebraid.api.job_answers import on_reference_clock
from tracebraid.errors import InputError
from tracebraid.exporters.perfetto.chrome import CHROME, gathered
from tracebraid.exporters.perfetto.content import Counter, Process, Unit, path_process
from tracebraid.exporters.perfetto.protobuf import PROTOBUF, TimelineForm
from tracebraid.exporters.perfetto.rank_process import RankContext, rank_process
from tracebraid.files import parts_folder, write_whole, writing
from tracebraid.model.engine import Job
from tracebraid.model.linked_trace import LinkedTrace

Align: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]
"""Function that moves `ts_ns` from a rank's own clock to the reference clock."""


class _Series(Struct, frozen=True):
    """Counters of a table: one for each combination of some columns.

    Args:
        name: format of the counter's name, with these columns as fields.
        by: the columns.
        value: the column of values.
        unit: its unit.
    """

    name: str
    by: Sequence[str]
    value: str
    unit: Unit


_QUEUE = _Series("queue, device {} stream {}", ("device", "stream"), "length", Unit.COUNT)
_ALLOCATED = _Series("memory allocated, device {}", ("device",), "allocated_bytes", Unit.BYTES)
_RESERVED = _Series("memory reserved, device {}", ("device",), "reserved_bytes", Unit.BYTES)
_COPIES = _Series("{1}, device {0}", ("device", "name"), "bytes_per_s", Unit.BYTES_PER_S)
_OCCUPANCY = _Series(
    "occupancy, device {} stream {}", ("device", "stream"), "occupancy_percent", Unit.PERCENT
)
_COLLECTIVES = _Series("bus bandwidth of collectives", (), "bytes_per_s", Unit.BYTES_PER_S)


def rank_counters(linked: LinkedTrace, align: Align, rates: pl.DataFrame) -> list[Counter]:
    """Compute counters: queues by stream, memory by device, bandwidth of copies and collectives, occupancy."""
    memory = align(memory_timeline(linked))
    tables = (
        (_QUEUE, align(queue_series(linked))),
        (_ALLOCATED, memory),
        (_RESERVED, memory),
        (_COPIES, align(copy_bandwidth_series(linked))),
        (_COLLECTIVES, rates),
        (_OCCUPANCY, align(_occupancy(linked))),
    )
    return [counter for series, table in tables for counter in _counters(series, table)]


def _counters(series: _Series, table: pl.DataFrame) -> Iterator[Counter]:
    rows = table.filter(pl.col(series.value).is_not_null())
    parts = rows.partition_by(series.by, maintain_order=True) if series.by else [rows]
    for part in parts:
        if part.is_empty():
            continue
        # Of changes at one moment the last row holds; a stable sort keeps it the last.
        part = part.sort("ts_ns", maintain_order=True)
        name = series.name.format(*(part.item(0, column) for column in series.by))
        values = part.get_column(series.value).to_numpy()
        yield Counter(name, series.unit, part.get_column("ts_ns").to_numpy(), values)


def _occupancy(linked: LinkedTrace) -> pl.DataFrame:
    """Return Kineto's estimate for each kernel over time: `device`, `stream`, `ts_ns`, the value."""
    timeline = linked.timeline
    work = timeline.device_work.select("event_id", "device", "occupancy_percent").drop_nulls(
        "occupancy_percent"
    )
    of_event = timeline.events[work.get_column("event_id")].select("lane", "ts_ns", "dur_ns")
    stream = stream_names(linked).gather(of_event.get_column("lane")).alias("stream")
    known = work.hstack([*of_event.get_columns(), stream]).with_columns(pl.col("device").fill_null(-1))
    end = pl.col("ts_ns") + pl.col("dur_ns")
    zero = pl.lit(0.0).alias("occupancy_percent")
    # At the moment at which a kernel ends and the next starts, the start stands behind.
    ends = known.select("device", "stream", end.alias("ts_ns"), zero)
    starts = known.select("device", "stream", "ts_ns", "occupancy_percent")
    return pl.concat([ends, starts]).sort("device", "stream", "ts_ns", maintain_order=True)


def rank_timeline(linked: LinkedTrace, facts: JobFacts, options: ExportOptions, number: int) -> Process:
    """Convert a rank to a process on the job's reference clock."""
    of_rank = pl.col("rank") == linked.rank
    events = on_reference_clock(linked, facts.ranks).timeline.events
    if options.step is not None:
        events = events[events_of_step(linked, options)]

    def align(frame: pl.DataFrame) -> pl.DataFrame:
        own = frame.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias("rank"))
        return facts.ranks.aligned(own, "ts_ns")

    counters = rank_counters(linked, align, facts.rates.filter(of_rank))
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
    """Return each host event's module and call site: `event_id` and an argument each, null if unknown."""
    modules = module_tree(linked)
    module = gathered(modules.paths.texts(modules.names, "/"), modules.path)
    sites = call_sites(linked).rename({"call_site": "call site"})
    return sites.with_columns(module.alias("module"))


def _labels(linked: LinkedTrace, facts: pl.DataFrame) -> list[str]:
    """Return labels for host, process and devices, if known."""
    host, process = facts.select("host", "process_id").row(0)
    known = [host, None if process is None else f"pid {process}", *linked.timeline.device_names]
    return [label for label in known if label]


def _within(counters: list[Counter], events: pl.DataFrame) -> list[Counter]:
    """Return the changes of counters between the first start and the last end of some events."""
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


_CHUNK_BYTES = 1 << 20


def write_perfetto(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the timeline as Perfetto's protobuf, gzipped if the path ends in `.gz`.

    Times are on the reference clock, shifted if any is negative, since Perfetto accepts none.
    """
    facts = job_facts(job, options)
    return _write(_Shown(job, options, facts, PROTOBUF, min(0, facts.earliest_ns)), path)


def write_chrome(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the timeline as Chrome JSON, gzipped if the path ends in `.gz`."""
    facts = job_facts(job, options)
    return _write(_Shown(job, options, facts, CHROME, facts.earliest_ns), path)


def _write(shown: _Shown, path: Path) -> Exported:
    with parts_folder(path) as folder:
        write_whole(path, shown.form.chunks(shown.processes(folder), shown.base_ns), overwrite=False)
    return Exported.of(path, shown.slices)


class _Shown(Struct):
    """The written processes: the critical path, then each rank, which is read in turn.

    Args:
        job: the ranks.
        options: the options of the export.
        facts: facts about the whole job.
        form: the format.
        base_ns: origin of times.
        slices: the number of slices so far.
    """

    job: Job
    options: ExportOptions
    facts: JobFacts
    form: TimelineForm
    base_ns: int
    slices: int = 0

    def processes(self, folder: Path) -> Iterator[Iterable[bytes]]:
        """Yield the chunks of each process in turn."""
        path = None if self.facts.path is None else path_process(self.facts.path, len(self.job.ranks))
        if path is not None:
            self.slices += len(path.slices)
            yield self.form.process(path, self.base_ns)
        only = self.facts.only
        if only is not None:
            process = rank_timeline(only, self.facts, self.options, 0)
            self.slices += len(process.slices)
            yield self.form.process(process, self.base_ns)
            self.job.add_findings(only.known_findings)
            return
        asked = _OfRank(self.options, self.facts.of_ranks, self.form, self.base_ns, folder)
        for part, slices in self.job.with_progress(FIRST_PASS, 1.0).each(asked):
            self.slices += slices
            yield _chunks_of(part)


class _OfRank(Struct, frozen=True, eq=False):
    """Question about a rank: its process in a new file, and the number of slices."""

    options: ExportOptions
    facts: JobFacts
    form: TimelineForm
    base_ns: int
    folder: Path

    def __call__(self, linked: LinkedTrace) -> tuple[Path, int]:
        if linked.rank not in self.facts.numbers:
            # What could not be read before, such as an Execution Trace of another program, says why again.
            linked.compute_all()
            raise InputError(
                linked.timeline.path, "it could not be read before, and now it can be", "Export again"
            )
        process = rank_timeline(linked, self.facts, self.options, self.facts.numbers[linked.rank])
        part = self.folder / f"rank_{linked.rank}"
        with writing(part), part.open("wb") as file:
            file.writelines(self.form.process(process, self.base_ns))
        return part, len(process.slices)


def _chunks_of(part: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, then delete it."""
    with writing(part):
        with part.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
        part.unlink()
