"""`tracebraid link`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

import tracebraid
from tracebraid.api.checking import judge
from tracebraid.api.job_answers import linked_parts, on_reference_clock, rank_parts
from tracebraid.cli.commands import Group, command
from tracebraid.cli.job_options import JobOptions, path_or_url, with_job_options
from tracebraid.cli.matching import Match, matching_of
from tracebraid.cli.output import findings_data, output_width, progress, say, say_findings, say_json
from tracebraid.cli.parameters import Argument, Option
from tracebraid.errors import ArgumentError, CoverageError, InputError, OutputError
from tracebraid.exporters.et_plus import write_et_plus
from tracebraid.files import refuse_inputs
from tracebraid.model.coverage import Coverage
from tracebraid.model.engine import Job
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import BEST, Matching
from tracebraid.model.rank_files import Progress
from tracebraid.reports.machine import coverage_data
from tracebraid.reports.terminal import coverage_table, orphans_table

MinCoverage: TypeAlias = Annotated[
    float | None,
    Option(
        "--min-coverage",
        min=0.0,
        max=1.0,
        help="Exit with 1 if coverage of ET nodes, host ops, GPU events or GPU time is lower.",
    ),
]
Json: TypeAlias = Annotated[bool, Option("--json", help="Print JSON for machines.")]


@command(Group.RECORD, 5)
@with_job_options
def link(
    paths: Annotated[
        list[str],
        Argument(
            metavar="ET KINETO | DIR",
            help="An Execution Trace and a Kineto trace, or a folder.",
            parser=path_or_url,
        ),
    ],
    job_options: JobOptions,
    out: Annotated[
        Path | None,
        Option("-o", "--output", help="Write ET+ here: a file for a pair, a folder for a folder."),
    ] = None,
    min_coverage: MinCoverage = None,
    match: Match = "auto",
    iteration: Annotated[
        str,
        Option("--iteration", metavar="best|median|N", help="Iteration of the longer trace to link."),
    ] = BEST,
    align_clocks: Annotated[
        bool,
        Option(
            "--align-clocks",
            help="Write the ET+ of all ranks on the clock of the lowest rank; each trace is read twice.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Link Execution Traces and Kineto traces; report coverage, methods, and reasons for unlinked events."""
    if len(paths) > 2:
        raise ArgumentError("give an Execution Trace and a Kineto trace, or one folder")
    if align_clocks and (out is None or len(paths) > 1):
        raise ArgumentError("--align-clocks needs a folder and -o")
    matching = matching_of(match, job_options.annotation, iteration)
    with progress("linking") as update:
        links = link_all(
            Pairs(paths, out, matching, job_options=job_options, align_clocks=align_clocks), update
        )
    report(links, min_coverage, json)


def report(links: Links, min_coverage: float | None, json: bool) -> None:
    """Print link coverage and findings.

    Raises:
        InputError: a rank could not be read.
        CoverageError: coverage is below the required minimum.
    """
    ledger, findings = links.ledger, links.findings
    if json:
        ranks = [coverage_data(rank, coverage) for rank, coverage in ledger]
        say_json({"ranks": ranks, **findings_data(findings)})
    else:
        show_ledger(ledger)
        say_findings(findings)
    _check(ledger, findings, min_coverage)


def _check(ledger: Ledger, findings: Sequence[Finding], min_coverage: float | None) -> None:
    """Fail where a rank could not be read, or coverage is below the required minimum.

    A rank without Execution Trace has linked none of its host ops, if other ranks have one.
    """
    unread = [finding for finding in findings if finding.code is FindingCode.RANK_UNREADABLE]
    if unread:
        raise InputError(
            unread[0].path, f"{len(unread)} of {len(unread) + len(ledger)} ranks cannot be read", "See above"
        )
    any_et = any(coverage.has_et for _, coverage in ledger)
    shares = [(rank, coverage.share if coverage.has_et or not any_et else 0.0) for rank, coverage in ledger]
    below = [(rank, share) for rank, share in shares if min_coverage is not None and share < min_coverage]
    if below:
        shown = ", ".join(f"rank {rank} {share:.4f}" for rank, share in below)
        raise CoverageError(f"coverage is below {min_coverage}: {shown}")


Ledger: TypeAlias = "list[tuple[int, Coverage]]"


def show_ledger(ledger: Ledger) -> None:
    """Print link coverage and orphans."""
    say(
        *(
            table
            for table in (coverage_table(ledger, output_width()), orphans_table(ledger))
            if table is not None
        )
    )


Write: TypeAlias = Callable[[LinkedTrace, Path], None]
"""Function that writes an ET+."""


class Pairs(Struct, frozen=True):
    """Pairs to link, the method, and the destination of ET+.

    Args:
        paths: a pair, or one folder or Kineto trace.
        out: destination of ET+: a file for a pair, a folder for a folder; None: not written.
        matching: how the traces of a pair are matched.
        write: writes the ET+ of a pair.
        job_options: options for opening a folder.
        align_clocks: whether ET+ uses the clock of the lowest rank; ranks with unknown clocks keep their own.
    """

    paths: list[str]
    out: Path | None
    matching: Matching = Matching()
    write: Write = write_et_plus
    job_options: JobOptions = JobOptions()
    align_clocks: bool = False


class LinkedRank(Struct, frozen=True):
    """Coverage and findings of a linked rank."""

    rank: int
    coverage: Coverage
    findings: tuple[Finding, ...]


class Links(Struct, frozen=True):
    """Coverage of each rank, and findings."""

    ledger: Ledger
    findings: list[Finding]

    @classmethod
    def of(cls, ranks: Sequence[LinkedRank], job: Job | None = None) -> Links:
        """Collect the ranks of a job; None for a single pair."""
        of_ranks = (finding for rank in ranks for finding in rank.findings)
        findings = dict.fromkeys((*(() if job is None else job.findings), *of_ranks))
        return cls([(rank.rank, rank.coverage) for rank in ranks], list(findings))


def link_all(pairs: Pairs, update: Progress) -> Links:
    """Link a pair or all ranks of a folder, and write ET+ if requested."""
    paths, out = pairs.paths, pairs.out
    if len(paths) == 2:
        if out is not None:
            refuse_inputs(out, paths)
        timeline = tracebraid.read_timeline(paths[1], progress=update)
        return Links.of(
            [_link_rank(tracebraid.link(paths[0], timeline, matching=pairs.matching), out, pairs.write)]
        )
    job = pairs.job_options.open(str(paths[0]), update, pairs.matching)
    if out is not None:
        _make_folder(out)
    if not pairs.align_clocks:
        return Links.of(list(job.each(partial(link_into, folder=out))), job)
    # Clocks are known when all ranks have been read.
    ranks = linked_parts(list(job.with_progress(0.0, 0.5).each(rank_parts)))
    job.add_findings(ranks.findings)
    second = job.with_progress(0.5, 1.0)
    aligned = second.each(lambda linked: link_into(on_reference_clock(linked, ranks), out))
    return Links.of(list(aligned), job)


def link_into(linked: LinkedTrace, folder: Path | None) -> LinkedRank:
    """Link a rank of a folder, and write its ET+ if a folder is given."""
    if folder is None:
        return _link_rank(linked, None)
    if linked.has_et:
        return _link_rank(linked, folder / f"et_plus_{linked.rank}.json")
    unwritten = Finding.of(FindingCode.NO_ET_PLUS, linked.timeline.path, rank=linked.rank)
    rank = _link_rank(linked, None)
    return replace(rank, findings=(unwritten, *rank.findings))


def _link_rank(linked: LinkedTrace, out: Path | None, write: Write = write_et_plus) -> LinkedRank:
    """Link a rank, and write its ET+ if requested; the result holds no traces."""
    coverage = linked.coverage
    if out is not None:
        write(linked, out)
    return LinkedRank(linked.rank, coverage, judge(linked).findings)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            str(path), f"it cannot be made a folder ({error.strerror})", "Choose another path"
        ) from None
