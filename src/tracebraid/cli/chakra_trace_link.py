"""`tracebraid chakra-trace-link`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tracebraid.cli.commands import Group, command
from tracebraid.cli.link import Json, Links, MinCoverage, Pairs, link_all, report
from tracebraid.cli.output import progress
from tracebraid.cli.parameters import Option
from tracebraid.cli.trace_link import LogLevel
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode


@command(Group.REPLACEMENT, 2)
def chakra_trace_link(
    chakra_host_trace: Annotated[
        Path, Option("--chakra-host-trace", metavar="ET", help="The Execution Trace.")
    ],
    chakra_device_trace: Annotated[
        Path, Option("--chakra-device-trace", metavar="KINETO", help="The Kineto trace.")
    ],
    output_file: Annotated[Path, Option("--output-file", metavar="FILE", help="Where ET+ is written.")],
    rank: Annotated[
        int | None, Option("--rank", min=0, help="The rank, where the Kineto trace has none.")
    ] = None,
    log_level: LogLevel = None,
    min_coverage: MinCoverage = None,
    json: Json = False,
) -> None:
    """Link traces and write ET+ for Chakra's converter, with the options of Chakra's chakra_trace_link."""
    with progress("linking") as update:
        links = link_all(Pairs([str(chakra_host_trace), str(chakra_device_trace)], output_file), update)
    if rank is not None and links.ledger:
        links = with_rank(links, rank, str(chakra_device_trace))
    report(links, min_coverage, json)


def with_rank(links: Links, named: int, kineto: str) -> Links:
    """The links with the rank that was named, where the trace has none; a finding more where it has another."""
    if any(finding.code is FindingCode.RANK_UNKNOWN for finding in links.findings):
        known = [finding for finding in links.findings if finding.code is not FindingCode.RANK_UNKNOWN]
        return Links([(named, coverage) for _, coverage in links.ledger], known)
    recorded = links.ledger[0][0]
    if recorded == named:
        return links
    details = {"case": FindingCase.OPTION, "rank": recorded, "named": named}
    return Links(links.ledger, [*links.findings, Finding(FindingCode.RANKS_DIFFER, kineto, details=details)])
