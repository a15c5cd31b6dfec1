"""Check that traces belong together: a rank's two by ids, windows and names, and the ranks of a world by number."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tracebraid.model.category import Category
from tracebraid.model.collectives import BACKEND_RANGE
from tracebraid.model.coverage import Coverage, OrphanReason
from tracebraid.model.et_names import PROCESS_GROUP_INIT
from tracebraid.model.execution_trace import MISSING_PARENT, ExecutionTrace
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding, FindingCase
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import is_profiler_step, step_events
from tracebraid.model.timeline import Timeline

_HARDLY = 0.5
"""Coverage below which two traces hardly overlap (heuristic)."""
_IS_PROGRAMS_RANGE = (
    (as_text("category") == Category.USER_ANNOTATION.value)
    & ~as_text("name").str.contains(BACKEND_RANGE)
    & ~is_profiler_step(as_text("name"))
)
"""An annotation that the program opened, and neither a backend as it communicates nor a profiler at its steps."""
_OTHER_ORIGIN = {FindingCode.ANOTHER_RUN, FindingCode.ANOTHER_RANK, FindingCode.ANOTHER_WINDOW}


def identity_findings(linked: LinkedTrace) -> list[Finding]:
    """Find reasons why the traces of a rank do not link, and content of only one of them."""
    return recording_findings(linked) + pair_findings(linked)


def recording_findings(linked: LinkedTrace) -> list[Finding]:
    """Find omissions of recorders in either trace: unfinished ops, launches, nodes."""
    found = _unfinished(linked.timeline) + _launches(linked)
    return found if linked.et is None else found + _never_written(linked.et)


def pair_findings(linked: LinkedTrace) -> list[Finding]:
    """Find reasons why the two traces of a rank do not link.

    Links that alignment made need no ids. Where the traces are of different processes, that is why.
    """
    et, timeline = linked.et, linked.timeline
    # The coverage computes the links, and so what was noticed of the traces' origin; dependencies stay uncomputed.
    coverage = linked.coverage
    if et is None or any(finding.code in _OTHER_ORIGIN for finding in linked.known_findings):
        return []
    if linked.matched is not None and coverage.host_ops.linked:
        return _hardly_linked(coverage, et)
    in_kineto, in_et = _ids_of_timeline(timeline), _ids_of_et(et)
    if in_kineto.is_empty() and not coverage.host_ops.linked:
        return [_without_ids(timeline)]
    if in_et.is_empty():
        return [Finding(FindingCode.ET_WITHOUT_IDS, et.path)]
    if not in_kineto.is_empty() and not in_et.is_in(in_kineto.implode()).any():
        et_ids, kineto_ids = _span(in_et), _span(in_kineto)
        return [Finding.of(FindingCode.NO_OVERLAP, et.path, et_ids=et_ids, kineto_ids=kineto_ids)]
    return _half_linked(coverage, in_et, in_kineto, et) or _hardly_linked(coverage, et)


def _hardly_linked(coverage: Coverage, et: ExecutionTrace) -> list[Finding]:
    if max(coverage.host_ops.share, coverage.et_nodes.share) >= _HARDLY:
        return []
    return [Finding.of(FindingCode.HARDLY_OVERLAP, et.path, ops=coverage.host_ops.linked)]


def _without_ids(timeline: Timeline) -> Finding:
    ids = timeline.host_ops.get_column("record_function_id")
    if ids.is_empty():
        return Finding.of(FindingCode.NO_OVERLAP, timeline.path, case=FindingCase.NO_HOST_OP)
    if ids.null_count() == len(ids):
        return Finding(FindingCode.TOO_OLD_FOR_IDS, timeline.path)
    return Finding(FindingCode.NO_RECORD_FUNCTION_IDS, timeline.path)


def et_findings(et: ExecutionTrace) -> list[Finding]:
    """Find faults of an Execution Trace on its own."""
    found = _never_written(et)
    return found + ([Finding(FindingCode.ET_WITHOUT_IDS, et.path)] if _ids_of_et(et).is_empty() else [])


def _half_linked(
    coverage: Coverage, in_et: pl.Series, in_kineto: pl.Series, et: ExecutionTrace
) -> list[Finding]:
    """Ops that both traces have by their ids, and that are not linked."""
    in_both = int(in_et.unique().is_in(in_kineto.unique().implode()).sum())
    missed = in_both - coverage.host_ops.linked
    if missed <= 0:
        return []
    return [Finding.of(FindingCode.NOT_LINKED, et.path, count=missed, ids=in_both)]


def _span(ids: pl.Series) -> str:
    return f"{ids.min()!r} to {ids.max()!r}"


def _ids_of_timeline(timeline: Timeline) -> pl.Series:
    key = pl.col("record_function_id")
    return timeline.host_ops.filter(key > 0).get_column("record_function_id")


def _ids_of_et(et: ExecutionTrace) -> pl.Series:
    nodes = et.op_nodes.filter(as_text("name") != PROCESS_GROUP_INIT)
    return nodes.filter(pl.col("rf_id") > 0).get_column("rf_id")


def _never_written(et: ExecutionTrace) -> list[Finding]:
    marked = et.extra_attrs.filter(as_text("key") == MISSING_PARENT).get_column("node_id")
    if marked.is_empty():
        return []
    where = f"node {marked.item(0)}, ..."
    return [Finding(FindingCode.PARENT_NEVER_WRITTEN, et.path, where, len(marked))]


def _unfinished(timeline: Timeline) -> list[Finding]:
    open_ops = timeline.host_ops.filter(pl.col("finished") == False)  # noqa: E712
    names = timeline.events.filter(pl.col("event_id").is_in(open_ops.get_column("event_id").implode()))
    # The steps of another profiler are reported as such.
    steps = step_events(timeline).get_column("step").implode()
    names = names.filter(~is_profiler_step(as_text("name")) | as_text("name").is_in(steps))
    if names.is_empty():
        return []
    shown = ", ".join(names.get_column("name").cast(pl.String).unique(maintain_order=True).head(3).to_list())
    details: dict[str, object] = {"names": shown}
    if names.filter(_IS_PROGRAMS_RANGE).height:
        details["case"] = FindingCase.ANNOTATION_OPEN
    return [Finding(FindingCode.OP_UNFINISHED, timeline.path, count=names.height, details=details)]


def _launches(linked: LinkedTrace) -> list[Finding]:
    events = linked.coverage.gpu_events
    missing = events.total - events.linked
    if not missing:
        return []
    reasons = linked.launches.filter(pl.col("op_event").is_null()).get_column("reason").cast(pl.String)
    most = reasons.drop_nulls().mode().sort().head(1).to_list()
    why = OrphanReason(most[0]) if most else None
    is_outside = why is OrphanReason.OUTSIDE_OF_OPS
    code = FindingCode.LAUNCH_OUTSIDE if is_outside else FindingCode.LAUNCH_UNKNOWN
    explained = {"reason": why} if why is not None else {"case": FindingCase.NO_REASON}
    details = {"events": events.total, **explained}
    return [Finding(code, linked.timeline.path, count=missing, details=details)]


_SHOWN = 8
"""Maximum missing ranks that a finding names."""


def rank_findings(world_sizes: Mapping[int, int | None], path: str) -> list[Finding]:
    """Ranks that are missing from the world, and worlds that differ."""
    stated = {rank: size for rank, size in world_sizes.items() if size is not None}
    if not stated:
        return []
    sizes = sorted(set(stated.values()))
    found = []
    if len(sizes) > 1:
        found.append(Finding.of(FindingCode.WORLD_DIFFERS, path, sizes=", ".join(map(str, sizes))))
    size = sizes[-1]
    beyond = [rank for rank in world_sizes if rank >= size]
    if beyond:
        details = {"case": FindingCase.BEYOND_WORLD, "rank": beyond[0], "world_size": size}
        found.append(Finding(FindingCode.WORLD_DIFFERS, path, count=len(beyond), details=details))
    missing = [rank for rank in range(size) if rank not in world_sizes]
    if missing:
        shown = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        details = {"world_size": size, "missing": len(missing), "ranks": shown}
        found.append(Finding(FindingCode.RANK_MISSING, path, details=details))
    return found
