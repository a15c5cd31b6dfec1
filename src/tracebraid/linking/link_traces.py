"""Both traces of a rank to one `LinkedTrace`."""

from __future__ import annotations

import polars as pl

from tracebraid.linking.agreement import parents_that_differ
from tracebraid.linking.autograd import link_forward_backward
from tracebraid.linking.coverage import count_coverage
from tracebraid.linking.dependencies.dependencies import find_dependencies
from tracebraid.linking.host_ops import HostLinks, link_hosts
from tracebraid.linking.kernel_launches import link_launches
from tracebraid.linking.nesting import host_tree
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.finding import Finding
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matched import Matched
from tracebraid.model.matching import Matching
from tracebraid.model.timeline import Timeline

__all__ = ["link_traces"]

_AUTO = Matching()


_MANY = 0.1
"""Where more ops than this share could be several, there is something that recurs, and that can be told apart."""


def link_traces(
    timeline: Timeline, et: ExecutionTrace | None = None, matching: Matching = _AUTO
) -> LinkedTrace:
    """Link a rank's Kineto trace with its Execution Trace, or on its own.

    Everything is linked by evidence alone: what it does not prove stays unlinked, and `coverage` says why. Each
    link says by which method it was made, and how sure that is.

    Raises:
        ProgramError: ids prove nothing, and the two are of different programs.
        ArgumentError: the annotation or iteration that was asked for is not there.
    """
    tree = host_tree(timeline)
    hosts = link_hosts(et, timeline, tree, matching)
    device_links = link_launches(timeline, tree, hosts.hosts)
    forward_backward = link_forward_backward(timeline)
    dependencies = find_dependencies(timeline, tree, device_links, forward_backward)
    coverage = count_coverage(timeline, hosts.hosts, hosts.nodes, device_links, et is not None)
    return LinkedTrace(
        timeline=timeline,
        et=et,
        host_tree=tree,
        host_links=hosts.hosts,
        node_links=hosts.nodes,
        device_links=device_links,
        forward_backward=forward_backward,
        dependencies=dependencies.table,
        coverage=coverage,
        matched=hosts.matched,
        findings=(*_findings(timeline, et, tree, hosts), *dependencies.findings),
    )


def _findings(
    timeline: Timeline, et: ExecutionTrace | None, tree: pl.DataFrame, hosts: HostLinks
) -> tuple[Finding, ...]:
    if et is None:
        return ()
    findings = [*hosts.origin, *parents_that_differ(et, tree, hosts.hosts)]
    if hosts.matched is not None:
        findings.append(Finding("matched", _told(hosts.matched), timeline.path))
        if hosts.matched.ambiguous > _MANY:
            text = f"{hosts.matched.ambiguous:.1%} of the smaller trace's ops could be several, and are linked to none"
            findings.append(Finding("ambiguous", text, timeline.path))
    if et.rank is not None and et.rank != timeline.rank:
        text = f"the Execution Trace's name says rank {et.rank}, the Kineto trace is of rank {timeline.rank}"
        findings.append(Finding("ranks-differ", text, et.path))
    return tuple(findings)


def _told(matched: Matched) -> str:
    program = "the same program" if matched.is_same_program else "their op trees differ in places"
    text = f"matched by alignment, without ids: {matched.agreement:.1%} of the smaller trace's ops, {program}"
    left_out = "; ET+ holds the device events of the iterations that were matched"
    return f"{text}; {matched.why}{left_out}" if matched.why else text
