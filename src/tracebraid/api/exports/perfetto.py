"""The timeline of a job, for Perfetto and other viewers: all ranks in a trace, on aligned clocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tracebraid.api.exports.job_facts import FIRST_PASS, JobFacts, job_facts
from tracebraid.api.exports.options import Exported, ExportOptions, ask_each
from tracebraid.api.exports.rank_timeline import rank_timeline
from tracebraid.errors import InputError
from tracebraid.exporters.perfetto.chrome import CHROME
from tracebraid.exporters.perfetto.path_process import path_process
from tracebraid.exporters.perfetto.protobuf import PROTOBUF
from tracebraid.exporters.perfetto.timeline_form import TimelineForm
from tracebraid.files import parts_folder, write_whole, writing
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["write_chrome", "write_perfetto"]

_CHUNK_BYTES = 1 << 20


def write_perfetto(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the timeline as Perfetto's protobuf, as gzip where the path ends in `.gz`.

    Times are those of the reference's clock; where some are below 0, which Perfetto takes none of, all are moved.
    """
    facts = job_facts(job, options)
    return _write(_Shown(job, options, facts, PROTOBUF, min(0, facts.earliest_ns)), path)


def write_chrome(job: Job, path: Path, options: ExportOptions) -> Exported:
    """Write the timeline as Chrome JSON, as gzip where the path ends in `.gz`."""
    facts = job_facts(job, options)
    return _write(_Shown(job, options, facts, CHROME, facts.earliest_ns), path)


def _write(shown: _Shown, path: Path) -> Exported:
    with parts_folder(path) as folder:
        write_whole(path, shown.form.chunks(shown.processes(folder), shown.base_ns), overwrite=False)
    findings = tuple(dict.fromkeys((*shown.findings, *shown.facts.findings)))
    return Exported.of(path, shown.slices, findings)


@dataclass
class _Shown:
    """What is written: the critical path, then each rank, which is read when its turn comes.

    Args:
        job: the ranks.
        options: which of them.
        facts: what is known of the whole job.
        form: the format.
        base_ns: what times are relative to.
        slices: how many slices were made so far.
        findings: what was noticed so far.
    """

    job: Job
    options: ExportOptions
    facts: JobFacts
    form: TimelineForm
    base_ns: int
    slices: int = 0
    findings: list[Finding] = field(default_factory=list)

    def processes(self, folder: Path) -> Iterator[Iterable[bytes]]:
        """The chunks of each process, one after the other.

        Args:
            folder: a rank's are written there, wherever the work on it runs, and taken away from there.
        """
        path = None if self.facts.path is None else path_process(self.facts.path, len(self.job.ranks))
        if path is not None:
            self.slices += len(path.slices)
            yield self.form.process(path, self.base_ns)
        only = self.facts.only
        if only is not None:
            process = rank_timeline(only, self.facts, self.options, 0)
            self.slices += len(process.slices)
            yield self.form.process(process, self.base_ns)
            self.findings += [*self.job.findings, *only.known_findings]
            return
        options = replace(self.options, progress=None)
        asked = _OfRank(options, self.facts.of_ranks, self.form, self.base_ns, folder)
        for part, slices in ask_each(self.job, self._second_half(), asked, self.findings):
            self.slices += slices
            yield _chunks_of(part)

    def _second_half(self) -> ExportOptions:
        progress = self.options.progress
        if progress is None:
            return self.options
        return replace(self.options, progress=lambda done: progress(FIRST_PASS + done * (1 - FIRST_PASS)))


@dataclass(frozen=True, eq=False)
class _OfRank:
    """The question about a rank: its process in a new file, and how many slices that has."""

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
    """The bytes of a file, which is deleted behind them."""
    with writing(part):
        with part.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
        part.unlink()
