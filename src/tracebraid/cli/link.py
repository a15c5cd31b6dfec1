"""`tracebraid link`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tracebraid import api
from tracebraid.cli.matching import Match, matching_of
from tracebraid.cli.output import progress, say, say_findings, say_json
from tracebraid.cli.ranks import UNREADABLE, read_ranks
from tracebraid.cli.trace_link import (
    ChakraTraceLink,
    DeviceTrace,
    EtFile,
    ExactMatch,
    HostTrace,
    KinetoFile,
    LogLevel,
    Options,
    OutputFile,
    Rank,
    TraceLink,
    call_of,
)
from tracebraid.errors import CoverageError, InputError, OutputError
from tracebraid.model.coverage import Coverage
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import BEST, Matching
from tracebraid.reports.machine import coverage_data, finding_data
from tracebraid.reports.terminal import coverage_table, orphans_table

__all__ = ["Ledger", "link", "link_all", "show_ledger"]


def link(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="ET KINETO | DIR", help="An Execution Trace and a Kineto trace, or a folder."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write ET+ here: a file for a pair, a folder for a folder."),
    ] = None,
    min_coverage: Annotated[
        float | None,
        typer.Option(
            "--min-coverage",
            min=0.0,
            max=1.0,
            help="End with exit code 1 where less is linked: of ET nodes, host ops, GPU events or GPU time.",
        ),
    ] = None,
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
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    et_file: EtFile = None,
    kineto_file: KinetoFile = None,
    exact_match: ExactMatch = False,
    chakra_host_trace: HostTrace = None,
    chakra_device_trace: DeviceTrace = None,
    rank: Rank = None,
    output_file: OutputFile = None,
    log_level: LogLevel = None,
) -> None:
    """Link Execution Traces and Kineto traces, and say how much was linked, how, and why the rest was not."""
    trace_link = TraceLink(et_file, kineto_file, exact_match)
    chakra = ChakraTraceLink(chakra_host_trace, chakra_device_trace, rank, output_file)
    call = call_of(Options(paths, out, trace_link, chakra, log_level))
    matching = matching_of(match, annotation, iteration)
    with progress("linking") as update:
        ledger, findings = link_all(call.paths, call.out, update, call.write, matching)
    ledger, findings = call.named(ledger, findings)
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
    unread = [finding for finding in findings if finding.code == UNREADABLE]
    if unread:
        raise InputError(
            unread[0].path, f"{len(unread)} of {len(unread) + len(ledger)} ranks cannot be read", "See above"
        )
    any_et = any(coverage.has_et for _, coverage in ledger)
    shares = [(rank, one.share if one.has_et or not any_et else 0.0) for rank, one in ledger]
    below = [(rank, share) for rank, share in shares if min_coverage is not None and share < min_coverage]
    if below:
        told = ", ".join(f"rank {rank} {share:.4f}" for rank, share in below)
        raise CoverageError(f"coverage is below {min_coverage}: {told}")


Ledger: TypeAlias = "list[tuple[int, Coverage]]"


def link_all(
    paths: list[Path],
    out: Path | None,
    update: api.Progress,
    write: Callable[[LinkedTrace, Path], None] = api.write_et_plus,
    matching: Matching | None = None,
) -> tuple[Ledger, list[Finding]]:
    """Link a pair or all ranks of a folder, write ET+ where asked to, and keep the ledger and what was found."""
    ledger: Ledger = []
    findings: list[Finding] = []
    for linked, target in _ranks(_Pairs(paths, out, matching or Matching()), findings, update):
        ledger.append((linked.rank, linked.coverage))
        findings += api.judge(linked).findings
        if target is not None:
            write(linked, target)
    return ledger, findings


def show_ledger(ledger: Ledger) -> None:
    """Print how much was linked, and what was not."""
    say(*(table for table in (coverage_table(ledger), orphans_table(ledger)) if table is not None))


@dataclass(frozen=True)
class _Pairs:
    """What is to be linked, how, and where its ET+ goes."""

    paths: list[Path]
    out: Path | None
    matching: Matching


def _ranks(
    pairs: _Pairs, findings: list[Finding], update: api.Progress
) -> Iterator[tuple[LinkedTrace, Path | None]]:
    """Each rank's linked trace, and where its ET+ goes."""
    paths, out = pairs.paths, pairs.out
    if len(paths) == 2:
        if out is not None and out.exists() and any(path.exists() and out.samefile(path) for path in paths):
            raise OutputError(str(out), "this is one of the traces to read", "Write the ET+ to another file")
        yield api.link(paths[0], api.read_timeline(paths[1], progress=update), matching=pairs.matching), out
        return
    job = api.open(paths[0], matching=pairs.matching)
    findings += job.findings
    if out is not None:
        _make_folder(out)
    for linked in read_ranks(job, job.ranks, update, findings):
        if out is not None and linked.et is None:
            text = f"rank {linked.rank} has no Execution Trace, so no ET+ was written for it"
            findings.append(Finding("no-et-plus", text, linked.timeline.path))
        yield linked, None if out is None or linked.et is None else out / f"et_plus_{linked.rank}.json"


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            str(path), f"it cannot be made a folder ({error.strerror})", "Choose another place"
        ) from None
