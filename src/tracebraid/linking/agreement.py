"""Do the Execution Trace's parents and the nesting in time agree on the linked ops?"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.parents import JudgedParent, Verdict, judge_parents
from tracebraid.model.timeline import Timeline

__all__ = ["parents_that_differ"]

_SHOWN = 3
"""How many nodes a finding names; its count says how many there are."""
_CASE_OF_RECORDER = {"torch": FindingCase.BY_TORCH, "native": FindingCase.BY_NATIVE_RECORDER}


def parents_that_differ(
    et: ExecutionTrace, timeline: Timeline, tree: pl.DataFrame, host_links: pl.DataFrame
) -> list[Finding]:
    """Findings that count the linked nodes whose nearest linked ancestor is not that of their op.

    Ids and names prove each link by themselves, so a node with a wrong parent stays linked. Those that times prove
    wrong are apart from those where both may be right. What runs while an asynchronous range is open on its thread is
    no difference where the native recorder wrote the file, which makes such ranges nobody's parent.
    """
    judged = judge_parents(et, timeline, tree, host_links)
    details: dict[str, object] = {"linked": host_links.get_column("node_id").count()}
    findings = []
    if wrong := [parent for parent in judged if parent.is_proven]:
        case = _CASE_OF_RECORDER.get(et.recorder)
        findings.append(_finding(FindingCode.PARENTS_DIFFER, et, wrong, {**details, "case": case}))
    if left := [parent for parent in judged if parent.verdict is Verdict.UNPROVEN]:
        findings.append(_finding(FindingCode.PARENTS_UNPROVEN, et, left, details))
    meanwhile = [parent for parent in judged if parent.verdict is Verdict.ASYNCHRONOUS]
    if meanwhile and et.recorder != "native":
        findings.append(_finding(FindingCode.PARENTS_ASYNCHRONOUS, et, meanwhile, details))
    return findings


def _finding(
    code: FindingCode, et: ExecutionTrace, judged: list[JudgedParent], details: Mapping[str, object]
) -> Finding:
    first = ", ".join(str(parent.node_id) for parent in judged[:_SHOWN])
    more = ", ..." if len(judged) > _SHOWN else ""
    return Finding(code, et.path, f"nodes {first}{more}", len(judged), details=details)
