"""The timeline of a job, for Perfetto and other viewers: all ranks in a trace, on aligned clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tracebraid.api.exports.job_facts import FIRST_PASS, JobFacts, job_facts
from tracebraid.api.exports.options import Exported, ExportOptions, ask_each
from tracebraid.api.exports.rank_timeline import rank_timeline
from tracebraid.exporters.perfetto.chrome import chrome_chunks
from tracebraid.exporters.perfetto.content import Process
from tracebraid.exporters.perfetto.path_process import path_process
from tracebraid.exporters.perfetto.protobuf import protobuf_chunks
from tracebraid.files import write_whole
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["write_chrome", "write_perfetto"]


def write_perfetto(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the timeline as Perfetto's protobuf, as gzip where the path ends in `.gz`.

    Times are those of the reference's clock; where some are below 0, which Perfetto takes none of, all are moved.
    """
    return _write(job, path, options, lambda shown, earliest: protobuf_chunks(shown, min(0, earliest)))


def write_chrome(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the timeline as Chrome JSON, as gzip where the path ends in `.gz`."""
    return _write(job, path, options, chrome_chunks)


def _write(
    job: Job,
    path: Path,
    options: ExportOptions,
    chunks: Callable[[Iterable[Process], int], Iterator[bytes]],
) -> Exported:
    facts = job_facts(job, options)
    shown = _Shown(job, options, facts)
    write_whole(path, chunks(shown.processes(), facts.earliest_ns), overwrite=False)
    findings = tuple(dict.fromkeys((*shown.findings, *facts.findings)))
    return Exported.of(path, shown.slices, findings)


@dataclass
class _Shown:
    """What is written: the critical path, then each rank, which is read when its turn comes.

    Args:
        job: the ranks.
        options: which of them.
        facts: what is known of the whole job.
        slices: how many slices were made so far.
        ranks: how many ranks.
        findings: what was noticed so far.
    """

    job: Job
    options: ExportOptions
    facts: JobFacts
    slices: int = 0
    ranks: int = 0
    findings: list[Finding] = field(default_factory=list)

    def processes(self) -> Iterator[Process]:
        """The processes, one after the other."""
        path = None if self.facts.path is None else path_process(self.facts.path, len(self.job.ranks))
        if path is not None:
            yield self._counted(path)
        for process in self._ranks():
            yield self._counted(process)

    def _ranks(self) -> Iterator[Process]:
        only = self.facts.only
        if only is None:
            yield from ask_each(self.job, self._second_half(), self._process, self.findings)
            return
        yield self._process(only)
        self.findings += [*self.job.findings, *only.known_findings]

    def _process(self, linked: LinkedTrace) -> Process:
        process = rank_timeline(linked, self.facts, self.options, self.ranks)
        self.ranks += 1
        return process

    def _counted(self, process: Process) -> Process:
        self.slices += len(process.slices)
        return process

    def _second_half(self) -> ExportOptions:
        progress = self.options.progress
        if progress is None:
            return self.options
        return replace(self.options, progress=lambda done: progress(FIRST_PASS + done * (1 - FIRST_PASS)))
