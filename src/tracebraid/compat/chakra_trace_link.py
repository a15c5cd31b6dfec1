"""The command line of Chakra's chakra_trace_link."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from tracebraid.compat.link_call import LinkCall
from tracebraid.model.coverage import Coverage
from tracebraid.model.finding import Finding

__all__ = ["DeviceTrace", "HostTrace", "OutputFile", "Rank", "call_of_chakra_trace_link", "with_rank"]

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
    """What chakra_trace_link is asked for."""
    return LinkCall(host_trace, device_trace, out, rank=rank)


def with_rank(
    call: LinkCall, ledger: list[tuple[int, Coverage]], findings: list[Finding]
) -> tuple[list[tuple[int, Coverage]], list[Finding]]:
    """Both with the rank that was named, where the trace has none; a finding more where it has another."""
    if call.rank is None or not ledger:
        return ledger, findings
    if any(finding.code == "rank-unknown" for finding in findings):
        known = [finding for finding in findings if finding.code != "rank-unknown"]
        return [(call.rank, coverage) for _, coverage in ledger], known
    recorded = ledger[0][0]
    if recorded == call.rank:
        return ledger, findings
    text = f"this is rank {recorded} by the trace, and rank {call.rank} by --rank; taken as rank {recorded}"
    return ledger, [*findings, Finding("ranks-differ", text, str(call.kineto))]
