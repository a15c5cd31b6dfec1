"""`tracebraid chakra-trace-link`."""

from __future__ import annotations

from tracebraid.cli.link import Json, Links, MinCoverage, link_all, report
from tracebraid.cli.output import progress
from tracebraid.cli.trace_link import pairs_of
from tracebraid.compat.chakra_trace_link import (
    DeviceTrace,
    HostTrace,
    OutputFile,
    Rank,
    call_of_chakra_trace_link,
    with_rank,
)
from tracebraid.compat.link_call import LogLevel
from tracebraid.model.matching import Matching

__all__ = ["chakra_trace_link"]


def chakra_trace_link(
    chakra_host_trace: HostTrace,
    chakra_device_trace: DeviceTrace,
    output_file: OutputFile,
    rank: Rank = None,
    log_level: LogLevel = None,
    min_coverage: MinCoverage = None,
    json: Json = False,
) -> None:
    """Link as Chakra's chakra_trace_link does, with its options: write ET+ for Chakra's converter."""
    call = call_of_chakra_trace_link(chakra_host_trace, chakra_device_trace, output_file, rank)
    with progress("linking") as update:
        links = link_all(pairs_of(call, Matching()), update)
    report(Links(*with_rank(call, links.ledger, links.findings)), min_coverage, json)
