"""Link Execution Trace nodes to host ops by `Record function id`, else by a proven `External id`."""

from __future__ import annotations

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from tracebraid.linking.nesting import SAME_NAME, as_kineto_writes
from tracebraid.model.coverage import OrphanReason
from tracebraid.model.et_names import PROCESS_GROUP_INIT
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.matching import BEST, Matched, Matching
from tracebraid.model.process import (
    Contradiction,
    Process,
    contradictions,
    process_of_et,
    process_of_timeline,
)
from tracebraid.model.schema import HOST_LINKS, NODE_LINKS
from tracebraid.model.timeline import Timeline

_OF_A_RUN = {Contradiction.START, Contradiction.WORLD_SIZE}
"""Values that differ between runs, and are the same on all ranks of one."""
_MOST_NAMED_OTHERWISE = 0.1
"""Share of differing names: between two runs most differ; within one, only ops that a damaged file mixed up."""
_OF_A_RANK = {Contradiction.RANK, Contradiction.GROUP_RANKS, Contradiction.DEVICES}


def origin_findings(et: ExecutionTrace, timeline: Timeline) -> list[Finding]:
    """`another-run` or `another-rank`, where the two traces cannot be of one process; nothing if they may be.

    Times, or worlds, that differ are those of another run. Without these, what is special to a rank shows another
    rank, and so does another process of a world of several ranks that recorded at the same time.
    """
    of_et, of_kineto = process_of_et(et), process_of_timeline(timeline)
    found = contradictions(of_et, of_kineto)
    if not found:
        return []
    world = of_kineto.world_size or of_et.world_size or 1
    recorded_together = of_et.span_ns is not None and of_kineto.span_ns is not None
    is_of_rank = bool(_OF_A_RANK.intersection(found)) or (world > 1 and recorded_together)
    differences = "; ".join(_difference(contradiction, of_et, of_kineto) for contradiction in found)
    details: dict[str, object] = {"kineto": timeline.path, "differences": differences}
    if is_of_rank and not _OF_A_RUN.intersection(found):
        return [Finding(FindingCode.ANOTHER_RANK, et.path, details=details)]
    return [Finding(FindingCode.ANOTHER_RUN, et.path, details=details)]


def unproven_findings(
    et: ExecutionTrace, timeline: Timeline, same_name: int, other_name: int
) -> list[Finding]:
    """`another-run` or `another-window`, where ids of both traces link too little, though nothing else contradicts."""
    if not (et.op_nodes.get_column("rf_id") > 0).any():
        return []
    if other_name > _MOST_NAMED_OTHERWISE * (same_name + other_name):
        details = {
            "case": FindingCase.OTHER_NAMES,
            "kineto": timeline.path,
            "shared": same_name + other_name,
            "other_names": other_name,
        }
        return [Finding(FindingCode.ANOTHER_RUN, et.path, details=details)]
    if same_name + other_name == 0:
        return [Finding.of(FindingCode.ANOTHER_WINDOW, et.path, kineto=timeline.path)]
    return []


def _difference(contradiction: Contradiction, et: Process, kineto: Process) -> str:
    if contradiction is Contradiction.PROCESS_ID:
        return f"process {min(et.pids)} here, {min(kineto.pids)} there"
    if contradiction is Contradiction.START:
        return "they were recorded at different times, in whatever time zone"
    if contradiction is Contradiction.RANK:
        return f"rank {et.rank} here, {kineto.rank} there"
    if contradiction is Contradiction.WORLD_SIZE:
        return f"{et.world_size} ranks here, {kineto.world_size} there"
    if contradiction is Contradiction.GROUP_RANKS:
        return "their process groups hold different ranks"
    return f"devices {_listed(et.devices)} here, {_listed(kineto.devices)} there"


def _listed(numbers: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


_ENOUGH_NAMES = 3
"""Minimum different names of a thread (heuristic): with fewer, ids may agree by chance."""
_MOST = 0.5
"""The share of the smaller trace that ids must link, else the two are aligned. See docs/linking.md."""
_ALMOST_ALL = 0.9
"""Minimum share of equal ids with equal names; below, the ids are of another run. See docs/linking.md."""
_ANY_ID = (0, 2**63 - 1)
"""All record-function ids."""


class HostLinks(Struct, frozen=True):
    """The tables `host_links` and `node_links`, what was matched where ids prove no links, and `origin_findings`."""

    hosts: pl.DataFrame
    nodes: pl.DataFrame
    matched: Matched | None = None
    origin: tuple[Finding, ...] = ()


def link_hosts(
    et: ExecutionTrace | None, timeline: Timeline, tree: pl.DataFrame, matching: Matching
) -> HostLinks:
    """Link each host op to the node of the same op if ids and names prove it, else by alignment.

    A pair with equal ids and different names is no link. Ids that several nodes carry (forked workers write
    into one file) link where the name leaves one pair only. Ids of another process link nothing.
    """
    ops = _ops(timeline, tree)
    if et is None:
        hosts = ops.select("event_id").with_columns(reason=pl.lit(OrphanReason.NO_EXECUTION_TRACE.value))
        return HostLinks(_as_hosts(hosts), NODE_LINKS.empty())
    nodes = _nodes(et)
    origin = tuple(origin_findings(et, timeline))
    is_by_ids = matching.match == "exact" or (matching.match == "auto" and matching.iteration == BEST)
    if not is_by_ids:
        exact = _exact(ops, nodes.with_columns(rf_id=pl.lit(0)))
    elif origin:
        exact = _of_another_run(_exact(ops, nodes.with_columns(rf_id=pl.lit(0))))
    else:
        exact = _exact(ops, nodes)
    if matching.match == "exact" or (not origin and _are_proven(exact, et.op_nodes.height)):
        return replace(exact, origin=origin)
    if _has_rf_ids(ops) and is_by_ids and not origin:
        # Of another run or window: what links there, links by chance.
        origin = tuple(unproven_findings(et, timeline, *_agreeing(exact)))
        exact = _exact(ops, nodes.with_columns(rf_id=pl.lit(0)))
    # Most traces are linked by ids.
    from tracebraid.linking.alignment.approximate import link_approximately

    found = link_approximately(et, timeline, tree, (exact.hosts, exact.nodes), matching)
    return HostLinks(found.hosts, found.nodes, found.matched, origin)


def _of_another_run(links: HostLinks) -> HostLinks:
    """Links of none, with that as the reason; roots, and what is written before the start, keep their own."""
    always = [OrphanReason.ROOT.value, OrphanReason.BEFORE_START.value]
    reason = as_text("reason")
    other = pl.when(reason.is_in(always)).then(reason).otherwise(pl.lit(OrphanReason.ANOTHER_RUN.value))
    as_reason = other.cast(pl.Categorical).alias("reason")
    return HostLinks(links.hosts.with_columns(as_reason), links.nodes.with_columns(as_reason))


def _exact(ops: pl.DataFrame, nodes: pl.DataFrame) -> HostLinks:
    has_rf_ids = _has_rf_ids(ops)
    if has_rf_ids:
        pairs = (
            ops.filter(pl.col("record_function_id") > 0)
            .rename({"record_function_id": "id"})
            .join(_with_id(nodes), on="id")
        )
        method = "record_function_id"
    else:
        pairs = _proven_pairs(ops.rename({"external_id": "id"}), nodes)
        method = "external_id"
    linked = _unambiguous(pairs.filter(SAME_NAME))
    hosts = _hosts(ops, pairs, linked, method, _window(nodes))
    return HostLinks(hosts, _node_links(nodes, pairs, linked, has_rf_ids))


def _has_rf_ids(ops: pl.DataFrame) -> bool:
    return ops.select((pl.col("record_function_id").fill_null(0) > 0).any()).item() is True


def _are_proven(exact: HostLinks, node_count: int) -> bool:
    """Return whether ids prove all that can be linked: most of one trace is linked, and ids that agree have names
    that do.

    Ids of another run would agree here and there, but then most of their names do not.
    """
    linked, named_otherwise = _agreeing(exact)
    expected = min(exact.hosts.height, node_count)
    return linked >= _MOST * expected and linked >= _ALMOST_ALL * (linked + named_otherwise)


def _agreeing(exact: HostLinks) -> tuple[int, int]:
    """Return how many host ops have a node with their id and name, and how many one with their id and another name."""
    reason = exact.hosts.get_column("reason").cast(pl.String)
    return exact.hosts.get_column("node_id").count(), int((reason == OrphanReason.OTHER_NAME.value).sum())


def _ops(timeline: Timeline, tree: pl.DataFrame) -> pl.DataFrame:
    ids = timeline.host_ops.select("event_id", "external_id", "record_function_id")
    named = timeline.events.select("event_id", as_text("name"), "lane")
    return ids.join(named, on="event_id").join(tree.select("event_id", "op_event"), on="event_id", how="left")


def _nodes(et: ExecutionTrace) -> pl.DataFrame:
    name = as_text("name")
    return et.nodes.select(
        "node_id",
        "parent_id",
        "rf_id",
        "tid",
        "is_root",
        name.alias("node_name"),
        as_kineto_writes(name).alias("kineto_name"),
    )


def _with_id(nodes: pl.DataFrame) -> pl.DataFrame:
    return nodes.filter(~pl.col("is_root") & (pl.col("rf_id") > 0)).rename({"rf_id": "id"})


def _window(nodes: pl.DataFrame) -> tuple[int, int]:
    """The lowest and the highest record-function id of nodes that were recorded while the profiler ran."""
    ids = _with_id(nodes).filter(pl.col("node_name") != PROCESS_GROUP_INIT).get_column("id")
    return _ANY_ID if ids.is_empty() else (ids.min(), ids.max())  # type: ignore[return-value]


def _unambiguous(pairs: pl.DataFrame) -> pl.DataFrame:
    once = pl.col("event_id").is_unique() & pl.col("node_id").is_unique()
    return pairs.filter(once).select("event_id", "node_id")


def _proven_pairs(ops: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """The pairs of those threads whose sequence proves that External id is the record-function id there.

    Of a logical thread of the Execution Trace, every node finds an event, all of them on one thread, with no other
    op between the first and the last; and every pair agrees in name and in what it is nested in. Where the two
    ids drift apart, names soon disagree. If they do so anywhere in the trace, a thread with fewer than
    `_ENOUGH_NAMES` different names may agree by chance, and stays unlinked too.
    """
    pairs = ops.join(_with_id(nodes), on="id")
    if pairs.is_empty():
        return pairs
    drifts = pairs.select((~SAME_NAME).any()).item() is True
    enclosing = pairs.select(pl.col("event_id").alias("op_event"), pl.col("node_id").alias("enclosing_id"))
    ids = nodes.filter(~pl.col("is_root")).get_column("node_id")
    nested = pairs.join(enclosing, on="op_event", how="left").with_columns(
        pl.when(pl.col("parent_id").is_in(ids.implode()))
        .then(pl.col("enclosing_id").eq_missing(pl.col("parent_id")))
        .otherwise(pl.col("op_event").is_null() | pl.col("enclosing_id").is_null())
        .alias("nested")
    )
    expected = nodes.filter(~pl.col("is_root") & (pl.col("node_name") != PROCESS_GROUP_INIT))
    threads = (
        nested.group_by("tid")
        .agg(
            (pl.col("nested") & SAME_NAME).all().alias("agrees"),
            pl.col("name").n_unique().alias("names"),
            pl.col("lane").n_unique().alias("lanes"),
            pl.col("lane").first(),
            pl.col("id").min().alias("first"),
            pl.col("id").max().alias("last"),
            pl.len().alias("paired"),
        )
        .join(expected.group_by("tid").agg(pl.len().alias("thread_nodes")), on="tid")
        .filter(pl.col("agrees") & (pl.col("lanes") == 1) & (pl.col("paired") >= pl.col("thread_nodes")))
        .filter(pl.col("names") >= (_ENOUGH_NAMES if drifts else 1))
    )
    between = (
        ops.join(threads.select("tid", "lane", "first", "last"), on="lane")
        .filter(pl.col("id").is_between("first", "last"))
        .group_by("tid")
        .agg(pl.len().alias("between"))
    )
    proof = threads.join(between, on="tid").filter(pl.col("between") == pl.col("paired"))
    return pairs.join(proof.select("tid"), on="tid", how="semi")


def _hosts(
    ops: pl.DataFrame, pairs: pl.DataFrame, linked: pl.DataFrame, method: str, window: tuple[int, int]
) -> pl.DataFrame:
    op_id = pl.col(method).fill_null(0)
    has_rf_id = (op_id > 0) & (method == "record_function_id")
    same_name = pairs.filter(SAME_NAME).get_column("event_id").unique()
    any_pair = pairs.get_column("event_id").unique()
    event = pl.col("event_id")
    hosts = ops.join(linked, on="event_id", how="left").with_columns(
        pl.when(pl.col("node_id").is_not_null()).then(pl.lit(method)).alias("method"),
        pl.when(pl.col("node_id").is_not_null()).then(1.0).alias("confidence"),
        pl.when(pl.col("node_id").is_not_null())
        .then(None)
        .when(event.is_in(same_name.implode()))
        .then(pl.lit(OrphanReason.SEVERAL.value))
        .when(event.is_in(any_pair.implode()))
        .then(pl.lit(OrphanReason.OTHER_NAME.value))
        .when(has_rf_id & ~op_id.is_between(*window))
        .then(pl.lit(OrphanReason.OUTSIDE_WINDOW.value))
        .when(has_rf_id)
        .then(pl.lit(OrphanReason.NO_NODE.value))
        .otherwise(pl.lit(OrphanReason.NO_ID.value))
        .alias("reason"),
    )
    return _as_hosts(hosts)


def _as_hosts(hosts: pl.DataFrame) -> pl.DataFrame:
    return HOST_LINKS.conform(hosts, fill_missing=True).sort("event_id")


def _node_links(
    nodes: pl.DataFrame, pairs: pl.DataFrame, linked: pl.DataFrame, has_rf_ids: bool
) -> pl.DataFrame:
    same_name = pairs.filter(SAME_NAME).get_column("node_id").unique()
    any_pair = pairs.get_column("node_id").unique()
    node = pl.col("node_id")
    links = nodes.join(linked, on="node_id", how="left").with_columns(
        pl.lit(None).alias("candidates"),
        pl.when(pl.col("event_id").is_not_null())
        .then(None)
        .when("is_root")
        .then(pl.lit(OrphanReason.ROOT.value))
        .when(node.is_in(same_name.implode()))
        .then(pl.lit(OrphanReason.SEVERAL.value))
        .when(node.is_in(any_pair.implode()))
        .then(pl.lit(OrphanReason.OTHER_NAME.value))
        .when(pl.col("node_name") == PROCESS_GROUP_INIT)
        .then(pl.lit(OrphanReason.BEFORE_START.value))
        .when(pl.lit(has_rf_ids))
        .then(pl.lit(OrphanReason.NO_EVENT.value))
        .otherwise(pl.lit(OrphanReason.IDS_UNPROVEN.value))
        .alias("reason"),
    )
    return NODE_LINKS.conform(links).sort("node_id")
