"""Do the Execution Trace's parents and the nesting in time agree on the linked ops?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.parents import JudgedParent, Verdict, judge_parents
from tracebraid.model.timeline import Timeline

__all__ = ["parents_that_differ"]

_SHOWN = 3
"""How many nodes a finding names; its count says how many there are."""
_WHY = {
    "torch": " (PyTorch's observer loses track where ops end on another thread)",
    "native": " (the native recorder wrote them)",
}


def parents_that_differ(
    et: ExecutionTrace, timeline: Timeline, tree: pl.DataFrame, host_links: pl.DataFrame
) -> list[Finding]:
    """Findings that count the linked nodes whose nearest linked ancestor is not that of their op.

    Ids and names prove each link by themselves, so a node with a wrong parent stays linked. Those that times prove
    wrong are apart from those where both may be right. What runs while an asynchronous range is open on its thread is
    no difference where the native recorder wrote the file, which makes such ranges nobody's parent.
    """
    judged = judge_parents(et, timeline, tree, host_links)
    of = f"of {host_links.get_column('node_id').count():,} linked nodes, these"
    findings = []
    if wrong := [parent for parent in judged if parent.is_proven]:
        text = f"{of} have another parent than the op that called them{_WHY.get(et.recorder, '')}"
        findings.append(_finding("parents-differ", f"{text}; times follow the latter", et, wrong))
    if left := [parent for parent in judged if parent.verdict is Verdict.UNPROVEN]:
        text = f"{of} have another parent than the op that encloses them, and nothing proves which of the two is right"
        findings.append(_finding("parents-unproven", text, et, left))
    meanwhile = [parent for parent in judged if parent.verdict is Verdict.ASYNCHRONOUS]
    if meanwhile and et.recorder != "native":
        text = f"{of} ran while a range was open on their thread that has no children here: it may be asynchronous"
        findings.append(_finding("parents-asynchronous", text, et, meanwhile))
    return findings


def _finding(code: str, text: str, et: ExecutionTrace, judged: list[JudgedParent]) -> Finding:
    first = ", ".join(str(parent.node_id) for parent in judged[:_SHOWN])
    more = ", ..." if len(judged) > _SHOWN else ""
    return Finding(code, text, et.path, f"nodes {first}{more}", len(judged))
