"""Open a store: its manifest or, if a pack did not finish, its state so far."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl
from msgspec import Struct

from tracebraid.errors import ArgumentError, InputError
from tracebraid.files import write_whole, writing
from tracebraid.model import schema
from tracebraid.model.column import Table
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.matching import ChosenIterations, Matched
from tracebraid.model.rank_files import SourceFile
from tracebraid.model.timeline import Timeline
from tracebraid.store.answers.joined import Index
from tracebraid.store.findings import (
    error_of,
    findings_of,
    from_builtin,
    stored_error,
    stored_findings,
    to_builtin,
)
from tracebraid.store.manifest import (
    FORMAT_VERSION,
    MANIFEST,
    RANKS,
    CaptureFacts,
    ExecutionTraceFacts,
    Manifest,
    MatchedFacts,
    PackOptions,
    RankContent,
    RankEntry,
    StoredError,
    StoredFinding,
    TableFile,
    TimelineFacts,
    entry_of,
    linked_folder,
    rank_file,
    read_sealed,
    sealed,
    sha256_of,
    table_file,
)
from tracebraid.store.parquet import encoded

TIMELINE_TABLES = {table.name: table for table in schema.KINETO_TABLES}
"""Tables of a `Timeline`."""

ET_TABLES = {
    "nodes": schema.ET_NODES,
    "values": schema.ET_VALUES,
    "et_collectives": schema.ET_COLLECTIVES,
    "extra_attrs": schema.ET_EXTRA_ATTRS,
    "et_process_groups": schema.PROCESS_GROUPS,
}
"""Tables of an `ExecutionTrace`; `et_` if a timeline has a table of that name."""

TENSOR_TABLES = {
    "tensors": schema.ET_TENSORS,
    "tensor_uses": schema.ET_TENSOR_USES,
    "tensor_edges": schema.ET_TENSOR_EDGES,
}
"""Tables of a `TensorGraph`."""

LINK_TABLES = {
    "host_tree": schema.HOST_TREE,
    "host_tree_by_et": schema.HOST_TREE,
    "host_links": schema.HOST_LINKS,
    "node_links": schema.NODE_LINKS,
    "launches": schema.LAUNCHES,
    "device_links": schema.DEVICE_LINKS,
    "forward_backward": schema.FORWARD_BACKWARD,
    "dependencies": schema.DEPENDENCIES,
}
"""Tables of the stages of a `LinkedTrace`."""

MATCHED_TABLES = {"iterations": schema.ITERATIONS, "node_times": schema.NODE_TIMES}
"""Tables of a `Matched`."""

STORED_TABLES: dict[str, Table] = {
    **TIMELINE_TABLES,
    "process_groups": schema.PROCESS_GROUPS,
    **ET_TABLES,
    **TENSOR_TABLES,
    **LINK_TABLES,
    **MATCHED_TABLES,
}


_RANKS_AT_MOST = 1 << 31


def check_manifest(manifest: Manifest) -> None:
    """Check a store's manifest."""
    findings_of(manifest.findings)
    _check_ranks(entry.rank for entry in manifest.ranks)
    for entry in manifest.ranks:
        _check_errors(entry.error, entry.link_error)


def check_rank(content: RankContent) -> None:
    """Check what describes a rank."""
    _check_ranks([content.rank, content.timeline.rank])
    # A newer version may know more tables; what is asked is asked by the names of this one.
    for name in (*content.tables, *content.same, *content.same.values()):
        if not name.isidentifier():
            raise ValueError(f"{name!r} is no table")
    for name, other in content.same.items():
        if name in STORED_TABLES and other not in STORED_TABLES:
            raise ValueError(f"{name} is equal to {other!r}, which is not a table")
    _check_errors(content.et_error, content.link_error)
    of_et = () if content.execution_trace is None else content.execution_trace.findings
    for findings in (*content.findings, content.timeline.findings, of_et):
        findings_of(findings)
    if len(content.findings) != len(("host tree", "links", "dependencies")):
        raise ValueError("it does not have the findings of three stages")
    if content.et is not None and content.et_error is None and content.execution_trace is None:
        raise ValueError("it does not describe the Execution Trace")
    if content.link_error is None and content.et_error is None and content.coverage is None:
        raise ValueError("it does not describe the links")
    choice = None if content.matched is None else from_builtin(content.matched.choice)
    if choice is not None and not isinstance(choice, ChosenIterations):
        raise ValueError("it does not describe the matched iterations")


def check_index(index: Index) -> None:
    """Check the index of a store's answers."""
    _check_ranks(index.ranks)
    count = len(index.ranks)
    lists = [index.descriptions, index.facts]
    lists += [part for table in index.tables.values() for part in (table.rows, table.touched)]
    lists += [part for value in index.values.values() for part in (value.values, value.touched)]
    if any(len(part) != count for part in lists):
        raise ValueError("it does not have as many answers as ranks")
    for name in (*index.tables, *index.values):
        if "/" in name or "\0" in name:
            raise ValueError(f"{name!r} is not a question")
    for facts in index.facts:
        if len(facts.findings) != len(("et", "timeline", "host tree", "links", "dependencies")):
            raise ValueError("it does not have the findings of five stages")
        for findings in facts.findings:
            findings_of(findings)


def check_capture(capture: CaptureFacts) -> None:
    """Check the facts beside the traces of a store."""
    findings_of(capture.findings)
    findings_of(capture.leftovers)


def _check_ranks(ranks: Iterable[int]) -> None:
    for rank in ranks:
        if not 0 <= rank < _RANKS_AT_MOST:
            raise ValueError(f"{rank} is no rank")


def _check_errors(*errors: StoredError | None) -> None:
    for error in errors:
        if error is not None:
            error_of(error)


_RANK_FILE = re.compile(r"rank_(\d{6,})\.json")


def read_manifest(store: Path) -> Manifest:
    """The manifest of a store."""
    path = store / MANIFEST
    if not path.exists():
        advice = "Pack it again: tracebraid pack PATH -o STORE"
        raise InputError(str(store), f"this is not a store: it has no {MANIFEST}", advice)
    link = linked_folder(store)
    if link is not None:
        raise InputError(str(link), "this folder of the store is a link", "Move the folder itself there")
    return read_sealed(path, Manifest, check_manifest)[0]


def packed_ranks(store: Path) -> set[int]:
    """Return the complete ranks, by their descriptions."""
    folder = store / RANKS
    try:
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or error})"
        raise InputError(str(folder), problem, "Check the folder and its rights") from None
    return {int(found[1]) for found in map(_RANK_FILE.fullmatch, names) if found}


_OF_TIMELINE = ("host_tree", "launches", "forward_backward", "dependencies")
_OF_BOTH = ("host_tree_by_et", "host_links", "node_links", "device_links")
_OTHERWISE = {"host_tree_by_et": "host_tree"}
"""Table that mostly equals another one, and is then written once."""


def write_rank(
    store: Path,
    linked: LinkedTrace,
    rank: int,
    sources: tuple[SourceFile, SourceFile | None],
    options: PackOptions,
) -> RankEntry:
    """Write a rank: its tables first, its description last, replacing earlier files."""
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
    """Delete the files of a rank, starting with its description."""
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


class _Parts(Struct, frozen=True, eq=False):
    """Writable data of a rank, and errors of the rest."""

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
    """Findings of each stage; none of those that need links if there are no links."""
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
