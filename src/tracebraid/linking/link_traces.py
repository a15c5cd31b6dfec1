"""Both traces of a rank to one `LinkedTrace`."""

from __future__ import annotations

import polars as pl

from tracebraid.linking.agreement import parents_that_differ
from tracebraid.linking.autograd import link_forward_backward
from tracebraid.linking.coverage import count_coverage
from tracebraid.linking.dependencies.dependencies import find_dependencies
from tracebraid.linking.host_ops import HostLinks, link_hosts
from tracebraid.linking.kernel_launches import link_launches, with_nodes
from tracebraid.linking.nesting import host_tree
from tracebraid.linking.python_frames import late_frame_findings
from tracebraid.linking.ties import nest_as_execution_trace
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.linked_trace import LinkedTrace, LinkStages, StageFindings
from tracebraid.model.matched import Matched
from tracebraid.model.matching import Matching
from tracebraid.model.stage import Stage, computed
from tracebraid.model.timeline import Timeline

__all__ = ["link_traces"]

_AUTO = Matching()


_MANY = 0.1
"""Where more ops than this share could be several, something recurs, and annotations would distinguish it."""


def link_traces(
    timeline: Timeline,
    et: ExecutionTrace | Stage[ExecutionTrace] | None = None,
    matching: Matching = _AUTO,
) -> LinkedTrace:
    """Link a rank's Kineto trace with its Execution Trace, or on its own; stage by stage, when asked.

    Everything is linked by evidence alone: what it does not prove stays unlinked, and `coverage` says why. Each
    link says by which method it was made, and with what confidence.

    Args:
        timeline: the Kineto trace.
        et: the Execution Trace, or the stage that reads it; None where there is none.
        matching: how the two are matched.

    The stages that need the Execution Trace raise:
        InputError: it cannot be read.
        ProgramError: ids prove nothing, and the two are of different programs.
        ArgumentError: the annotation or iteration that was asked for is not there.
    """
    read = computed(et) if isinstance(et, ExecutionTrace) else et
    trace: Stage[ExecutionTrace | None] = Stage(lambda: None if read is None else read())
    tree = Stage(lambda: host_tree(timeline))
    hosts = Stage(lambda: link_hosts(trace(), timeline, tree(), matching))
    by_et = Stage(lambda: _tree_by_et(tree(), timeline, trace(), hosts()))
    launches = Stage(lambda: link_launches(timeline, tree()))
    forward_backward = Stage(lambda: link_forward_backward(timeline))
    dependencies = Stage(lambda: find_dependencies(timeline, tree(), launches(), forward_backward()))
    notes = Stage(lambda: _findings(timeline, trace(), by_et(), hosts()))
    stages = LinkStages(
        et=read,
        host_tree=tree,
        host_tree_by_et=by_et,
        host_links=Stage(lambda: hosts().hosts),
        node_links=Stage(lambda: hosts().nodes),
        matched=Stage(lambda: hosts().matched),
        launches=launches,
        device_links=Stage(lambda: with_nodes(launches(), tree(), hosts().hosts)),
        forward_backward=forward_backward,
        dependencies=Stage(lambda: dependencies().table),
        coverage=Stage(
            lambda: count_coverage(timeline, hosts().hosts, hosts().nodes, launches(), read is not None)
        ),
        findings=(
            StageFindings(tree, Stage(lambda: tuple(late_frame_findings(timeline, tree())))),
            StageFindings(hosts, notes),
            StageFindings(dependencies, Stage(lambda: dependencies().findings)),
        ),
    )
    return LinkedTrace(timeline, stages)


def _tree_by_et(
    tree: pl.DataFrame, timeline: Timeline, et: ExecutionTrace | None, hosts: HostLinks
) -> pl.DataFrame:
    return tree if et is None else nest_as_execution_trace(tree, timeline, et, hosts.hosts)


def _findings(
    timeline: Timeline, et: ExecutionTrace | None, tree: pl.DataFrame, hosts: HostLinks
) -> tuple[Finding, ...]:
    if et is None:
        return ()
    findings = [*hosts.origin, *parents_that_differ(et, timeline, tree, hosts.hosts)]
    if hosts.matched is not None:
        findings.append(_matched(hosts.matched, timeline))
        if hosts.matched.ambiguous > _MANY:
            share = hosts.matched.ambiguous
            findings.append(Finding.of(FindingCode.AMBIGUOUS, timeline.path, share=share))
    if et.rank is not None and et.rank != timeline.rank:
        details = {"et_rank": et.rank, "kineto_rank": timeline.rank}
        findings.append(Finding(FindingCode.RANKS_DIFFER, et.path, details=details))
    return tuple(findings)


def _matched(matched: Matched, timeline: Timeline) -> Finding:
    case = None if matched.is_same_program else FindingCase.SIMILAR_PROGRAM
    if matched.choice is not None:
        in_part = FindingCase.MATCHED_IN_PART, FindingCase.SIMILAR_PROGRAM_IN_PART
        case = in_part[not matched.is_same_program]
    details = {"case": case, "agreement": matched.agreement, "why": matched.choice}
    return Finding(FindingCode.MATCHED, timeline.path, details=details)
