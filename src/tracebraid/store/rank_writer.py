"""A rank into a store: its tables, and then what describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracebraid.errors import ArgumentError, InputError
from tracebraid.files import write_whole, writing
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matched import Matched
from tracebraid.model.source_file import SourceFile
from tracebraid.model.timeline import Timeline
from tracebraid.store.entries import entry_of
from tracebraid.store.findings import stored_error, stored_findings, to_builtin
from tracebraid.store.layout import FORMAT_VERSION, rank_file, table_file
from tracebraid.store.manifest import (
    ExecutionTraceFacts,
    MatchedFacts,
    PackOptions,
    RankContent,
    RankEntry,
    StoredError,
    StoredFinding,
    TableFile,
    TimelineFacts,
)
from tracebraid.store.parquet import encoded
from tracebraid.store.sealed_json import sealed, sha256_of
from tracebraid.store.tables import STORED_TABLES, TIMELINE_TABLES

__all__ = ["forget_rank", "write_rank"]

_OF_TIMELINE = ("host_tree", "launches", "forward_backward", "dependencies")
_OF_BOTH = ("host_tree_by_et", "host_links", "node_links", "device_links")
_OTHERWISE = {"host_tree_by_et": "host_tree"}
"""A table that most often equals another one, which is written once then."""


def write_rank(
    store: Path,
    linked: LinkedTrace,
    rank: int,
    sources: tuple[SourceFile, SourceFile | None],
    options: PackOptions,
) -> RankEntry:
    """Write a rank: its tables first, and last what describes it. Whatever it had before is replaced.

    Args:
        store: the folder of the store.
        linked: the rank.
        rank: the number of its files.
        sources: the files that it was read from, Kineto trace and Execution Trace.
        options: with what it is packed.

    Raises:
        OutputError: a file cannot be written.
    """
    forget_rank(store, rank)
    parts = _parts(linked)
    same = _same(parts.frames)
    files = _write_tables(store, rank, parts.frames, same)
    content = RankContent(
        format=FORMAT_VERSION,
        rank=rank,
        options=options,
        kineto=sources[0],
        et=sources[1],
        timeline=_timeline_facts(linked.timeline),
        execution_trace=None if parts.et is None else _et_facts(parts.et),
        et_error=parts.et_error,
        link_error=parts.link_error,
        matched=None if parts.link_error is not None else _matched_facts(linked.matched),
        coverage=None if parts.link_error is not None else linked.coverage,
        findings=_stage_findings(linked, parts.link_error is None),
        same=same,
        tables=files,
    )
    whole = sealed(content)
    with writing(store):
        rank_file(store, rank).parent.mkdir(exist_ok=True)
    write_whole(rank_file(store, rank), [whole], overwrite=True)
    return entry_of(content, whole)


def forget_rank(store: Path, rank: int) -> None:
    """Delete the files of a rank, first of all what says that it is whole.

    Raises:
        OutputError: a file cannot be deleted.
    """
    for path in (rank_file(store, rank), *(table_file(store, name, rank) for name in STORED_TABLES)):
        with writing(path):
            path.unlink(missing_ok=True)


def _same(frames: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    return {
        name: other
        for name, other in _OTHERWISE.items()
        if name in frames and frames[name].equals(frames[other])
    }


def _write_tables(
    store: Path, rank: int, frames: Mapping[str, pl.DataFrame], same: Mapping[str, str]
) -> dict[str, TableFile]:
    return {
        name: _write_table(store, name, rank, frame)
        for name, frame in frames.items()
        if frame.height and name not in same
    }


def _write_table(store: Path, name: str, rank: int, frame: pl.DataFrame) -> TableFile:
    content = encoded(name, frame)
    target = table_file(store, name, rank)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, [content], overwrite=True)
    return TableFile(frame.height, len(content), sha256_of(content))


@dataclass(frozen=True, eq=False)
class _Parts:
    """What there is of a rank to write, and why there is no more."""

    frames: Mapping[str, pl.DataFrame]
    et: ExecutionTrace | None
    et_error: StoredError | None
    link_error: StoredError | None


def _parts(linked: LinkedTrace) -> _Parts:
    """Compute every stage, and gather the tables by the names of their folders."""
    frames: dict[str, pl.DataFrame] = {name: linked.timeline.tables[name] for name in TIMELINE_TABLES}
    frames["process_groups"] = linked.timeline.process_groups
    frames |= {name: getattr(linked, name) for name in _OF_TIMELINE}
    et, et_error = _read_et(linked)
    link_error = et_error or _link_error(linked)
    if et is not None:
        frames |= _tables_of_et(et)
    if link_error is None:
        frames |= {name: getattr(linked, name) for name in _OF_BOTH}
        if linked.matched is not None:
            frames |= {"iterations": linked.matched.iterations, "node_times": linked.matched.node_times}
    return _Parts(frames, et, et_error, link_error)


def _stage_findings(linked: LinkedTrace, is_linked: bool) -> tuple[tuple[StoredFinding, ...], ...]:
    """What each stage noticed; of those that need links nothing where there are none."""
    return tuple(
        stored_findings(noticed.findings() if is_linked or noticed.of.is_computed else ())
        for noticed in linked.stages.findings
    )


def _read_et(linked: LinkedTrace) -> tuple[ExecutionTrace | None, StoredError | None]:
    try:
        return linked.et, None
    except InputError as error:
        return None, stored_error(error)


def _link_error(linked: LinkedTrace) -> StoredError | None:
    try:
        linked.stages.host_links()
    except (InputError, ArgumentError) as error:
        return stored_error(error)
    return None


def _tables_of_et(et: ExecutionTrace) -> Mapping[str, pl.DataFrame]:
    return {
        "nodes": et.nodes,
        "values": et.values,
        "et_collectives": et.collectives,
        "extra_attrs": et.extra_attrs,
        "et_process_groups": et.process_groups,
        "tensors": et.tensors,
        "tensor_uses": et.tensor_uses,
        "tensor_edges": et.tensor_edges,
    }


def _timeline_facts(timeline: Timeline) -> TimelineFacts:
    first, last = timeline.span_ns or (None, None)
    return TimelineFacts(
        path=timeline.path,
        rank=timeline.rank,
        world_size=timeline.world_size,
        base_time_ns=timeline.base_time_ns,
        min_ns=first,
        max_ns=last,
        header=timeline.header,
        findings=stored_findings(timeline.findings),
    )


def _et_facts(et: ExecutionTrace) -> ExecutionTraceFacts:
    return ExecutionTraceFacts(
        path=et.path,
        schema=et.schema,
        rank=et.rank,
        recorder=et.recorder,
        header=et.header,
        findings=stored_findings(et.findings),
    )


def _matched_facts(matched: Matched | None) -> MatchedFacts | None:
    if matched is None:
        return None
    return MatchedFacts(matched.agreement, matched.programs, matched.ambiguous, to_builtin(matched.choice))
