"""One judgement of a rank's traces, for all that link them."""

from __future__ import annotations

from dataclasses import replace

from tracebraid.api.traces import link
from tracebraid.errors import ProgramError
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.judgement import Judgement
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import Matching
from tracebraid.model.timeline import Timeline
from tracebraid.validation.identity import pair_findings

__all__ = ["judge", "link_and_judge"]


def judge(linked: LinkedTrace) -> Judgement:
    """Whether the two traces of a rank link, how, and how likely that is right; `check` and `link` both ask this.

    Its findings are those of what was read and computed so far, and of the links.
    """
    judged = pair_findings(linked)
    return Judgement.of(linked, [*linked.known_findings, *judged])


def link_and_judge(
    et: ExecutionTrace | str | None, timeline: Timeline, matching: Matching
) -> tuple[LinkedTrace, Judgement]:
    """As `link`; where that refuses two programs, what ids link, with the refusal as the finding `another-program`.

    Raises:
        InputError: the Execution Trace cannot be read.
        ArgumentError: there is not the annotation or iteration that `matching` asks for.
    """
    try:
        linked = link(et, timeline, matching=matching)
    except ProgramError as error:
        linked = link(et, timeline, matching=replace(matching, match="exact"))
        refusal = Finding.of(FindingCode.ANOTHER_PROGRAM, error.path, problem=error.problem)
        return linked, Judgement.of(linked, [*linked.all_findings, refusal])
    return linked, judge(linked.compute_all())
