"""`tracebraid chakra-trace-link`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tracebraid.cli.commands import Group, command
from tracebraid.cli.link import Json, Links, MinCoverage, link_all, report
from tracebraid.cli.output import progress
from tracebraid.cli.trace_link import pairs_of
from tracebraid.compat.link_call import LinkCall, LogLevel
from tracebraid.model.coverage import Coverage
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.matching import Matching

HostTrace: TypeAlias = Annotated[
    Path, typer.Option("--chakra-host-trace", metavar="ET", help="The Execution Trace.")
]
DeviceTrace: TypeAlias = Annotated[
    Path, typer.Option("--chakra-device-trace", metavar="KINETO", help="The Kineto trace.")
]
OutputFile: TypeAlias = Annotated[
    Path, typer.Option("--output-file", metavar="FILE", help="Where ET+ is written.")
]
Rank: TypeAlias = Annotated[
    int | None,
    typer.Option("--rank", min=0, help="The rank, where the Kineto trace has none."),
]


def call_of_chakra_trace_link(host_trace: Path, device_trace: Path, out: Path, rank: int | None) -> LinkCall:
    """Arguments of chakra_trace_link."""
    return LinkCall(host_trace, device_trace, out, rank=rank)


def with_rank(
    call: LinkCall, ledger: list[tuple[int, Coverage]], findings: list[Finding]
) -> tuple[list[tuple[int, Coverage]], list[Finding]]:
    """Both with the rank that was named, where the trace has none; a finding more where it has another."""
    if call.rank is None or not ledger:
        return ledger, findings
    if any(finding.code is FindingCode.RANK_UNKNOWN for finding in findings):
        known = [finding for finding in findings if finding.code is not FindingCode.RANK_UNKNOWN]
        return [(call.rank, coverage) for _, coverage in ledger], known
    recorded = ledger[0][0]
    if recorded == call.rank:
        return ledger, findings
    details = {"case": FindingCase.OPTION, "rank": recorded, "named": call.rank}
    return ledger, [*findings, Finding(FindingCode.RANKS_DIFFER, str(call.kineto), details=details)]


@command(Group.REPLACEMENT, 2)
def chakra_trace_link(
    chakra_host_trace: HostTrace,
    chakra_device_trace: DeviceTrace,
    output_file: OutputFile,
    rank: Rank = None,
    log_level: LogLevel = None,
    min_coverage: MinCoverage = None,
    json: Json = False,
) -> None:
    """Link traces and write ET+ for Chakra's converter, with the options of Chakra's chakra_trace_link."""
    call = call_of_chakra_trace_link(chakra_host_trace, chakra_device_trace, output_file, rank)
    with progress("linking") as update:
        links = link_all(pairs_of(call, Matching()), update)
    report(Links(*with_rank(call, links.ledger, links.findings)), min_coverage, json)
