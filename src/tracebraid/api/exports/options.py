"""What is exported, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tracebraid.api.exports.chakra_options import ChakraOptions
from tracebraid.api.job.readable_ranks import ask_ranks
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rank_files import Progress
from tracebraid.model.step import PROFILER_STEP

__all__ = ["ExportOptions", "Exported", "ask_each"]

T = TypeVar("T")


@dataclass(frozen=True)
class ExportOptions:
    """What is exported.

    Args:
        rank: only this rank; None: all.
        step: only this step: its number, or its name; None: all.
        annotation: what marks a step, see `steps`.
        top: of a graph of ops only so many that take the most time, with what they launched and what encloses them;
            None: all.
        near: of a graph of ops only those of this name, with what is in them, what encloses them, and what is an edge
            away; None: all.
        chakra: how a Chakra trace is made, where that is the format; None: as by default.
        progress: is called with the share of the ranks that is read, 0 to 1; None: nobody asks.
    """

    rank: int | None = None
    step: str | None = None
    annotation: str = PROFILER_STEP
    progress: Progress | None = None
    top: int | None = None
    near: str | None = None
    chakra: ChakraOptions | None = None

    @property
    def step_names(self) -> list[str]:
        """What the step may be called, where only one is exported; no step has a name that is no text."""
        names = [] if self.step is None else [self.step, f"{self.annotation}#{self.step}"]
        return [name for name in names if not any("\ud800" <= letter <= "\udfff" for letter in name)]


@dataclass(frozen=True)
class Exported:
    """What was written.

    Args:
        path: the new file or folder.
        files: how many files.
        size_bytes: of all of them on disk.
        rows: rows of tables, slices of a timeline, stacks, or nodes; None where nothing was counted.
        findings: what was noticed; ranks that cannot be read are left out, with a finding each.
    """

    path: Path
    files: int
    size_bytes: int
    rows: int | None = None
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, path: Path, rows: int | None = None, findings: tuple[Finding, ...] = ()) -> Exported:
        """What stands there now: a file, or a folder of files."""
        files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
        return cls(path, len(files), sum(file.stat().st_size for file in files), rows, findings)


def ask_each(
    job: Job, options: ExportOptions, question: Callable[[LinkedTrace], T], findings: list[Finding]
) -> Iterator[T]:
    """Ask the ranks that are exported, one after the other; one that cannot be read is left out.

    Args:
        job: the ranks.
        options: which of them.
        question: what is asked of each; what it returns should not hold the linked trace.
        findings: what was noticed in the files is added, and a finding for each rank that is left out.

    Raises:
        ArgumentError: there is no such rank.
        InputError: no rank can be read.
    """
    if options.rank is not None:
        job.check_rank(options.rank)
    ranks = job.ranks if options.rank is None else [options.rank]
    findings += job.findings
    yield from ask_ranks(job, ranks, question, options.progress or (lambda _: None), findings)
