"""One judgement of a rank's traces, for all that link them."""

from __future__ import annotations

from dataclasses import replace

from tracebraid.errors import ProgramError
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.judgement import Judgement
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.validation.identity import pair_findings

__all__ = ["judge", "link_and_judge"]


def judge(linked: LinkedTrace) -> Judgement:
    """Whether the two traces of a rank link, how, and how likely that is right; `check` and `link` both ask this.

    Its findings are those of what was read and computed so far, and of the links.
    """
    judged = pair_findings(linked)
    return Judgement.of(linked, [*linked.known_findings, *judged])


def link_and_judge(linked: LinkedTrace, matching: Matching) -> tuple[LinkedTrace, Judgement]:
    """A rank with all of its stages; where two programs are refused, what ids link, with that as a finding.

    Args:
        linked: a rank.
        matching: how its two traces are matched.

    Raises:
        InputError: the Execution Trace cannot be read.
        ArgumentError: there is not the annotation or iteration that `matching` asks for.
    """
    try:
        linked.stages.host_links()
    except ProgramError as error:
        linked = link_traces(linked.timeline, linked.stages.et, replace(matching, match="exact"))
        linked.stages.host_links()
        refusal = Finding.of(FindingCode.ANOTHER_PROGRAM, error.path, problem=error.problem)
        return linked, Judgement.of(linked, [*linked.all_findings, refusal])
    return linked, judge(linked.compute_all())
