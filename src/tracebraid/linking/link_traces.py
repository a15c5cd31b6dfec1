"""Both traces of a rank to one `LinkedTrace`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import polars as pl

from tracebraid.linking.dependencies import find_dependencies
from tracebraid.linking.host_ops import HostLinks, link_hosts
from tracebraid.linking.nesting import frame_end_findings, host_tree
from tracebraid.model.coverage import Count, Coverage, OrphanKind, OrphanReason, Orphans
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace, LinkStages, StageFindings
from tracebraid.model.matching import Matched, Matching
from tracebraid.model.op_tree import JudgedParent, Verdict, judge_parents, op_tree
from tracebraid.model.schema import DEVICE_LINKS, FORWARD_BACKWARD, HOST_TREE, LAUNCHES
from tracebraid.model.stage import Stage, computed
from tracebraid.model.timeline import Timeline

_SHOWN = 3
"""Maximum nodes that a finding names; its count has the total."""
_CASE_OF_RECORDER = {"torch": FindingCase.BY_TORCH, "native": FindingCase.BY_NATIVE_RECORDER}


def differing_parents(
    et: ExecutionTrace, timeline: Timeline, tree: pl.DataFrame, host_links: pl.DataFrame
) -> list[Finding]:
    """Count the linked nodes whose nearest linked ancestor is not that of their op, as findings.

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


def count_coverage(
    timeline: Timeline,
    host_links: pl.DataFrame,
    node_links: pl.DataFrame,
    device_links: pl.DataFrame,
    has_et: bool,
) -> Coverage:
    """Count links by method and orphans by reason.

    Roots of the process and of threads are not expected to link, nor are nodes outside matched iterations.
    """
    reason = as_text("reason").fill_null("")
    in_scope = reason != OrphanReason.OTHER_ITERATION.value
    nodes = node_links.filter(reason != OrphanReason.ROOT.value)
    expected = nodes.filter(in_scope)
    node_count = expected.filter(pl.col("event_id").is_not_null()).height
    durations = device_links.join(timeline.events.select("event_id", "dur_ns"), on="event_id")
    attributed = durations.filter(pl.col("op_event").is_not_null())
    orphans = [
        *(_orphans(OrphanKind.HOST_OP, host_links.filter(pl.col("node_id").is_null())) if has_et else []),
        *_orphans(OrphanKind.ET_NODE, nodes.filter(pl.col("event_id").is_null())),
        *_orphans(OrphanKind.GPU_EVENT, device_links.filter(pl.col("op_event").is_null())),
    ]
    return Coverage(
        host_ops=_count(host_links.filter(in_scope)),
        et_nodes=Count(expected.height, node_count, {}),
        gpu_events=_count(device_links),
        gpu_time_ns=(int(durations.get_column("dur_ns").sum()), int(attributed.get_column("dur_ns").sum())),
        orphans=tuple(
            sorted(orphans, key=lambda orphan: (-orphan.count, orphan.kind.value, orphan.reason.value))
        ),
        has_et=has_et,
    )


def _count(links: pl.DataFrame) -> Count:
    methods = links.get_column("method").cast(pl.String).drop_nulls().value_counts(sort=True)
    by_method = dict(sorted(methods.iter_rows()))
    return Count(links.height, sum(by_method.values()), by_method)


def _orphans(kind: OrphanKind, links: pl.DataFrame) -> list[Orphans]:
    counts = links.get_column("reason").cast(pl.String).value_counts()
    return [Orphans(kind, OrphanReason(reason), count) for reason, count in counts.iter_rows()]


def link_forward_backward(timeline: Timeline) -> pl.DataFrame:
    """The table `forward_backward`.

    Forward ops carry the sequence number that the next autograd node gets, so that several can carry one; the
    last to start among them made the node. A backward op names the number and the forward thread, the latter by
    PyTorch's logical id, which Kineto does not map to its own: threads and ids are paired one to one, those whose
    forward and backward numbers are most alike first.
    """
    seq = timeline.host_ops.filter(pl.col("sequence_number") >= 0).select(
        "event_id", "sequence_number", pl.col("fwd_thread_id").fill_null(0)
    )
    if not (seq.get_column("fwd_thread_id") > 0).any():
        return FORWARD_BACKWARD.empty()
    seq = seq.join(timeline.events.select("event_id", "lane", "ts_ns"), on="event_id")
    forward = (
        seq.filter(pl.col("fwd_thread_id") == 0)
        .sort("ts_ns", "event_id")
        .unique(["lane", "sequence_number"], keep="last", maintain_order=True)
        .select(
            pl.col("event_id").alias("forward_event"),
            "sequence_number",
            "lane",
            pl.col("ts_ns").alias("forward_ts_ns"),
        )
    )
    backward = seq.filter(pl.col("fwd_thread_id") > 0).select(
        pl.col("event_id").alias("backward_event"), "sequence_number", "fwd_thread_id", "ts_ns"
    )
    pairs = backward.join(forward, on="sequence_number").filter(pl.col("forward_ts_ns") <= pl.col("ts_ns"))
    thread = _threads(backward, forward)
    return (
        pairs.join(thread, on=["fwd_thread_id", "lane"]).pipe(FORWARD_BACKWARD.conform).sort("backward_event")
    )


def _threads(backward: pl.DataFrame, forward: pl.DataFrame) -> pl.DataFrame:
    """Each forward thread's logical id and its lane, one to one, the pairs with the most alike numbers first."""
    asked = backward.select("fwd_thread_id", "sequence_number").unique()
    given = forward.select("lane", "sequence_number").unique()
    sizes = asked.group_by("fwd_thread_id").agg(pl.len().alias("asked"))
    lane_sizes = given.group_by("lane").agg(pl.len().alias("given"))
    alike = (
        asked.join(given, on="sequence_number")
        .group_by("fwd_thread_id", "lane")
        .agg(pl.len().alias("shared"))
        .join(sizes, on="fwd_thread_id")
        .join(lane_sizes, on="lane")
        .with_columns(
            (pl.col("shared") / (pl.col("asked") + pl.col("given") - pl.col("shared"))).alias("alike")
        )
        .sort("alike", "fwd_thread_id", "lane", descending=[True, False, False])
    )
    taken: dict[int, int] = {}
    for thread, lane in alike.select("fwd_thread_id", "lane").iter_rows():
        if thread not in taken and lane not in taken.values():
            taken[thread] = lane
    rows = list(taken.items())
    return pl.DataFrame(rows, schema={"fwd_thread_id": pl.Int64, "lane": pl.Int64}, orient="row")


def nest_by_execution_trace(
    tree: pl.DataFrame, timeline: Timeline, et: ExecutionTrace, host_links: pl.DataFrame
) -> pl.DataFrame:
    """The table `host_tree`, where ops without length lie in their node's parent if their moment allows for it.

    An op without length may as well lie in any op that begins or ends at its moment, as long as no op is in between
    that was running both before and after it.
    """
    if not (timeline.events.get_column("dur_ns") == 0).any():
        return tree
    claims = _claims(tree, timeline, et, host_links)
    if claims.is_empty():
        return tree
    spans = {event: (start, end) for event, start, end in _spans(timeline).iter_rows()}
    enclosing = dict(tree.select("event_id", "op_event").iter_rows())
    moved: dict[int, int] = {}
    for event, parent in claims.sort("event_id").iter_rows():
        moment = spans[event][0]

        def running(start: int | None, moment: int = moment) -> int | None:
            while start is not None and not spans[start][0] < moment < spans[start][1]:
                start = enclosing[start]
            return start

        touches = spans[parent][0] <= moment <= spans[parent][1]
        if touches and running(parent) == running(enclosing[event]):
            enclosing[event] = moved[event] = parent
    return _with_parents(tree, moved)


def _claims(
    tree: pl.DataFrame, timeline: Timeline, et: ExecutionTrace, host_links: pl.DataFrame
) -> pl.DataFrame:
    """Linked ops without length, and the linked op before them of their thread that is another parent's."""
    linked = host_links.filter(pl.col("node_id").is_not_null()).select("event_id", "node_id")
    claimed = linked.select(pl.col("event_id").alias("claimed"), pl.col("node_id").alias("parent_id"))
    lanes = timeline.events.select("event_id", "lane", "dur_ns")
    without_length = linked.join(lanes.filter(pl.col("dur_ns") == 0), on="event_id")
    if without_length.is_empty():
        return without_length.select("event_id", claimed="node_id")
    return (
        without_length.join(et.nodes.select("node_id", "parent_id"), on="node_id")
        .join(claimed, on="parent_id")
        .join(tree.select("event_id", "op_event"), on="event_id")
        .join(lanes.select(claimed="event_id", claimed_lane="lane"), on="claimed")
        .filter(
            pl.col("claimed").ne_missing(pl.col("op_event")),
            pl.col("claimed_lane") == pl.col("lane"),
            pl.col("claimed") < pl.col("event_id"),
        )
        .select("event_id", "claimed")
    )


def _spans(timeline: Timeline) -> pl.DataFrame:
    return timeline.events.select("event_id", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))


def _with_parents(tree: pl.DataFrame, moved: dict[int, int]) -> pl.DataFrame:
    """The tree with other parents of events that cover no time: of other columns, only depths change."""
    if not moved:
        return tree
    parent_of = dict(tree.select("event_id", "parent_event").iter_rows())
    depth = dict(tree.select("event_id", "depth").iter_rows())
    inside = defaultdict(list)
    for event, parent in {**parent_of, **moved}.items():
        inside[parent].append(event)
    waiting = sorted(moved)
    while waiting:
        event = waiting.pop()
        depth[event] = depth[moved.get(event, parent_of[event])] + 1
        waiting += inside[event]
    old = pl.col("event_id")
    moved_tree = tree.with_columns(
        old.replace_strict(moved, default=pl.col("parent_event"), return_dtype=pl.Int64).alias(
            "parent_event"
        ),
        old.replace_strict(moved, default=pl.col("op_event"), return_dtype=pl.Int64).alias("op_event"),
        pl.Series("depth", [depth[event] for event in tree.get_column("event_id")]),
    )
    return HOST_TREE.conform(moved_tree)


def link_launches(timeline: Timeline, tree: pl.DataFrame) -> pl.DataFrame:
    """The table `launches`.

    A device event belongs to the host call with its correlation id, whatever the call's name, and to the
    innermost op or annotation that encloses that call on its thread. Where no such call is in the trace, an
    `External id` that is not just the correlation again names the op, if that op started before the event.
    """
    if timeline.device_work.is_empty():
        return LAUNCHES.empty()
    work = timeline.device_work.select("event_id", "correlation", "external_id").join(
        timeline.events.select("event_id", "ts_ns"), on="event_id"
    )
    found = (
        work.with_columns(pl.when(pl.col("correlation") != 0).then("correlation"))
        .join(_calls(timeline, tree), on="correlation", how="left")
        .join(_ops_by_external_id(timeline), on="external_id", how="left")
    )
    by_external = (
        pl.col("call_event").is_null()
        & (pl.col("external_id") != pl.col("correlation").fill_null(0))
        & (pl.col("named_ts_ns") <= pl.col("ts_ns"))
    )
    has_op = pl.col("op_event").is_not_null()
    links = found.with_columns(
        pl.when(has_op)
        .then(pl.lit("correlation"))
        .when(by_external)
        .then(pl.lit("external_id"))
        .alias("method"),
        pl.when(has_op).then("op_event").when(by_external).then("named_event").alias("op_event"),
    ).with_columns(
        pl.when(pl.col("op_event").is_not_null())
        .then(None)
        .when(pl.col("call_event").is_not_null())
        .then(pl.lit(OrphanReason.OUTSIDE_OF_OPS.value))
        .when(pl.col("correlation").is_null())
        .then(pl.lit(OrphanReason.NO_CORRELATION.value))
        .otherwise(pl.lit(OrphanReason.NO_CALL.value))
        .alias("reason"),
    )
    return LAUNCHES.conform(links).sort("event_id")


def with_nodes(launches: pl.DataFrame, tree: pl.DataFrame, host_links: pl.DataFrame) -> pl.DataFrame:
    """The table `device_links`: the launches, each with the node of its op, or of the nearest op that encloses it."""
    if launches.is_empty():
        return DEVICE_LINKS.empty()
    nodes = _enclosing_nodes(launches.get_column("op_event"), tree, host_links)
    return DEVICE_LINKS.conform(launches.with_columns(nodes))


def _calls(timeline: Timeline, tree: pl.DataFrame) -> pl.DataFrame:
    """One call for each correlation: the innermost, where several calls carry it (a driver's inside a runtime's)."""
    return (
        timeline.host_calls.filter(pl.col("correlation").is_not_null())
        .select(pl.col("event_id").alias("call_event"), "correlation")
        .join(
            tree.select(pl.col("event_id").alias("call_event"), "op_event", "depth"),
            on="call_event",
            how="left",
        )
        .sort("correlation", "depth", "call_event", nulls_last=False)
        .unique("correlation", keep="last", maintain_order=True)
        .select("correlation", "call_event", "op_event")
    )


def _ops_by_external_id(timeline: Timeline) -> pl.DataFrame:
    return (
        timeline.host_ops.filter((pl.col("external_id") > 0) & pl.col("external_id").is_unique())
        .select(pl.col("event_id").alias("named_event"), "external_id")
        .join(
            timeline.events.select(
                pl.col("event_id").alias("named_event"), pl.col("ts_ns").alias("named_ts_ns")
            ),
            on="named_event",
        )
    )


def _enclosing_nodes(ops: pl.Series, tree: pl.DataFrame, host_links: pl.DataFrame) -> pl.Series:
    """The node of each op, or of the nearest enclosing op that has one; null without an op."""
    walk = op_tree(tree)
    node_of_row = np.full(len(walk.event_id), -1, dtype=np.int64)
    linked = host_links.filter(pl.col("node_id").is_not_null())
    node_of_row[walk.rows(linked.get_column("event_id").to_numpy())] = linked.get_column("node_id").to_numpy()
    nearest = walk.nearest(node_of_row >= 0)
    rows = walk.rows(ops.drop_nulls().to_numpy())
    nodes = np.full(len(ops), -1, dtype=np.int64)
    nodes[ops.is_not_null().to_numpy()] = np.where(nearest[rows] >= 0, node_of_row[nearest[rows]], -1)
    return pl.Series("node_id", nodes).set(pl.Series(nodes < 0), None)


_AUTO = Matching()


_MANY = 0.1
"""Share of ambiguous ops from which a part recurs that annotations would distinguish."""


def link_traces(
    timeline: Timeline,
    et: ExecutionTrace | Stage[ExecutionTrace] | None = None,
    matching: Matching = _AUTO,
) -> LinkedTrace:
    """Link a rank's Kineto trace with its Execution Trace, or on its own; stages are computed on demand.

    Links need evidence: unproven rows stay unlinked, and `coverage` has the reason. Each
    link records its method and confidence.

    The stages that need the Execution Trace raise:
        InputError: it cannot be read.
        ProgramError: ids prove nothing, and the two are of different programs.
        ArgumentError: the requested annotation or iteration does not exist.
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
            StageFindings(tree, Stage(lambda: tuple(frame_end_findings(timeline, tree())))),
            StageFindings(hosts, notes),
            StageFindings(dependencies, Stage(lambda: dependencies().findings)),
        ),
    )
    return LinkedTrace(timeline, stages)


def _tree_by_et(
    tree: pl.DataFrame, timeline: Timeline, et: ExecutionTrace | None, hosts: HostLinks
) -> pl.DataFrame:
    return tree if et is None else nest_by_execution_trace(tree, timeline, et, hosts.hosts)


def _findings(
    timeline: Timeline, et: ExecutionTrace | None, tree: pl.DataFrame, hosts: HostLinks
) -> tuple[Finding, ...]:
    if et is None:
        return ()
    findings = [*hosts.origin, *differing_parents(et, timeline, tree, hosts.hosts)]
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
