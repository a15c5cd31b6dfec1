"""`tracebraid trace-link`."""

from __future__ import annotations

from tracebraid.cli.commands import Group, command
from tracebraid.cli.link import Json, MinCoverage, Pairs, link_all, report
from tracebraid.cli.output import progress
from tracebraid.compat.link_call import LinkCall, LogLevel
from tracebraid.compat.trace_link import Annotation, EtFile, ExactMatch, KinetoFile, call_of_trace_link
from tracebraid.model.matching import Matching


@command(Group.REPLACEMENT, 1)
def trace_link(
    et_file: EtFile,
    kineto_file: KinetoFile,
    annotation: Annotation = None,
    exact_match: ExactMatch = False,
    log_level: LogLevel = None,
    min_coverage: MinCoverage = None,
    json: Json = False,
) -> None:
    """Link traces and write <ET>_plus.json beside the Execution Trace, with the options of et_replay's trace_link."""
    call = call_of_trace_link(et_file, kineto_file)
    with progress("linking") as update:
        links = link_all(pairs_of(call, Matching(annotation=annotation)), update)
    report(links, min_coverage, json)


def pairs_of(call: LinkCall, matching: Matching) -> Pairs:
    """Translate a peer's command line into pairs to link."""
    return Pairs([str(call.et), str(call.kineto)], call.out, matching, call.write)
