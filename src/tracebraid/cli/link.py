"""`tracebraid link`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tracebraid import api
from tracebraid.cli.job_options import JobOptions, path_or_url, with_job_options
from tracebraid.cli.matching import Match, matching_of
from tracebraid.cli.output import progress, say, say_findings, say_json
from tracebraid.cli.ranks import UNREADABLE, ask_ranks_silently
from tracebraid.errors import CoverageError, InputError, OutputError
from tracebraid.files import refuse_inputs
from tracebraid.model.coverage import Coverage
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import BEST, Matching
from tracebraid.reports.machine import coverage_data, finding_data
from tracebraid.reports.terminal import coverage_table, orphans_table

__all__ = [
    "Json",
    "Ledger",
    "LinkedRank",
    "Links",
    "MinCoverage",
    "Pairs",
    "Write",
    "link",
    "link_all",
    "link_into",
    "report",
    "show_ledger",
]

MinCoverage: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--min-coverage",
        min=0.0,
        max=1.0,
        help="End with exit code 1 where less is linked: of ET nodes, host ops, GPU events or GPU time.",
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@with_job_options
def link(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="ET KINETO | DIR",
            help="An Execution Trace and a Kineto trace, or a folder.",
            parser=path_or_url,
        ),
    ],
    job_options: JobOptions,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write ET+ here: a file for a pair, a folder for a folder."),
    ] = None,
    min_coverage: MinCoverage = None,
    match: Match = "auto",
    annotation: Annotated[
        str | None,
        typer.Option(
            "--annotation", metavar="NAME", help="What marks an iteration, where one trace has more of them."
        ),
    ] = None,
    iteration: Annotated[
        str,
        typer.Option(
            "--iteration", metavar="best|median|N", help="Which iteration of the longer trace to link."
        ),
    ] = BEST,
    align_clocks: Annotated[
        bool,
        typer.Option(
            "--align-clocks",
            help="Write the ET+ of all ranks of a folder on the clock of the lowest: each trace is read twice.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Link Execution Traces and Kineto traces, and say how much was linked, how, and why the rest was not."""
    if len(paths) > 2:
        raise typer.BadParameter("give an Execution Trace and a Kineto trace, or one folder")
    if align_clocks and (out is None or len(paths) > 1):
        raise typer.BadParameter("--align-clocks takes a folder, and -o")
    matching = matching_of(match, annotation, iteration)
    with progress("linking") as update:
        links = link_all(
            Pairs(paths, out, matching, job_options=job_options, align_clocks=align_clocks), update
        )
    report(links, min_coverage, json)


def report(links: Links, min_coverage: float | None, json: bool) -> None:
    """Print how much was linked and what was noticed.

    Raises:
        InputError: a rank could not be read.
        CoverageError: less was linked than asked for.
    """
    ledger, findings = links.ledger, links.findings
    if json:
        ranks = [coverage_data(rank, coverage) for rank, coverage in ledger]
        say_json({"ranks": ranks, "findings": [finding_data(finding) for finding in findings]})
    else:
        show_ledger(ledger)
        say_findings(findings)
    _check(ledger, findings, min_coverage)


def _check(ledger: Ledger, findings: list[Finding], min_coverage: float | None) -> None:
    """Fail where a rank could not be read, or less was linked than asked for.

    A rank without Execution Trace has linked none of its host ops, if other ranks have one.
    """
    unread = [finding for finding in findings if finding.code is UNREADABLE]
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
    """Print how much was linked, and what was not."""
    say(*(table for table in (coverage_table(ledger), orphans_table(ledger)) if table is not None))


Write: TypeAlias = Callable[[LinkedTrace, Path], None]
"""Writes an ET+."""


@dataclass(frozen=True)
class Pairs:
    """What is to be linked, how, and where its ET+ goes.

    Args:
        paths: a pair, or one folder or Kineto trace.
        out: where ET+ goes, a file for a pair and a folder for a folder; None for nowhere.
        matching: how the two of a pair are matched.
        write: writes the ET+ of a pair.
        job_options: how a folder is opened.
        align_clocks: whether ET+ is on the clock of the lowest rank; of ranks whose clock is unknown on their own.
    """

    paths: list[str]
    out: Path | None
    matching: Matching = Matching()  # noqa: RUF009 - it is frozen
    write: Write = api.write_et_plus
    job_options: JobOptions = JobOptions()  # noqa: RUF009 - it is frozen
    align_clocks: bool = False


@dataclass(frozen=True)
class LinkedRank:
    """What is kept of a rank that was linked: how much was, and what was noticed."""

    rank: int
    coverage: Coverage
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Links:
    """What was linked: how much of each rank, and what was noticed."""

    ledger: Ledger
    findings: list[Finding]

    def add(self, rank: LinkedRank) -> None:
        """Add a rank."""
        self.ledger.append((rank.rank, rank.coverage))
        self.findings.extend(rank.findings)


def link_all(pairs: Pairs, update: api.Progress) -> Links:
    """Link a pair or all ranks of a folder, and write ET+ where asked to."""
    links = Links([], [])
    for rank in _ranks(pairs, update, links.findings):
        links.add(rank)
    return links


def _ranks(pairs: Pairs, update: api.Progress, findings: list[Finding]) -> Iterator[LinkedRank]:
    """What is to be kept of each rank, one after the other."""
    paths, out = pairs.paths, pairs.out
    if len(paths) == 2:
        if out is not None:
            refuse_inputs(out, paths)
        timeline = api.read_timeline(paths[1], progress=update)
        yield _link_rank(api.link(paths[0], timeline, matching=pairs.matching), out, pairs.write)
        return
    job = pairs.job_options.open(str(paths[0]), pairs.matching)
    findings += job.findings
    if out is not None:
        _make_folder(out)
    if not pairs.align_clocks:
        yield from ask_ranks_silently(job, job.ranks, partial(link_into, folder=out), update, findings)
        return
    # Clocks are known when all ranks have been read; what is noticed about their files is said by the second pass.
    first = ask_ranks_silently(job, job.ranks, api.rank_parts, lambda share: update(share / 2), [])
    ranks = api.linked_parts(list(first))
    findings += ranks.findings
    yield from ask_ranks_silently(
        job,
        job.ranks,
        lambda linked: link_into(api.on_reference_clock(linked, ranks), out),
        lambda share: update(0.5 + share / 2),
        findings,
    )


def link_into(linked: LinkedTrace, folder: Path | None) -> LinkedRank:
    """Link a rank of a folder, and write its ET+ into a folder where one is named."""
    if folder is None:
        return _link_rank(linked, None)
    if linked.has_et:
        return _link_rank(linked, folder / f"et_plus_{linked.rank}.json")
    unwritten = Finding.of(FindingCode.NO_ET_PLUS, linked.timeline.path, rank=linked.rank)
    rank = _link_rank(linked, None)
    return replace(rank, findings=(unwritten, *rank.findings))


def _link_rank(linked: LinkedTrace, out: Path | None, write: Write = api.write_et_plus) -> LinkedRank:
    """Link a rank, and write its ET+ where that is asked for; what is kept does not hold the traces."""
    coverage = linked.coverage
    if out is not None:
        write(linked, out)
    return LinkedRank(linked.rank, coverage, api.judge(linked).findings)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            str(path), f"it cannot be made a folder ({error.strerror})", "Choose another path"
        ) from None
