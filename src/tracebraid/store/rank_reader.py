"""A rank of a store as a `LinkedTrace`, whose tables are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.model.coverage import Coverage
from tracebraid.model.execution_trace import ExecutionTrace, TensorGraph, devices_of
from tracebraid.model.linked_trace import LinkedTrace, LinkStages, StageFindings
from tracebraid.model.matching import Matched
from tracebraid.model.stage import Stage
from tracebraid.model.timeline import Timeline
from tracebraid.store.findings import error_of, findings_of, from_builtin
from tracebraid.store.manifest import (
    Manifest,
    RankContent,
    TableFile,
    rank_file,
    read_sealed,
    sha256_of,
    stored_bytes,
    table_file,
)
from tracebraid.store.opening import ET_TABLES, STORED_TABLES, TIMELINE_TABLES, check_rank
from tracebraid.store.parquet import decoded

_EVENTS = (
    *("event_id", "parent_event", "op_event", "call_event", "forward_event", "backward_event"),
    *("before_event", "after_event"),
)
"""Columns that hold the row of an event."""
_TREES = ("host_tree", "host_tree_by_et")
_IN_TREES = ("host_ops", "host_calls", "python_functions")
"""Tables of the events that a tree has, each in one of them."""
_KEYS = {
    **dict.fromkeys(("host_ops", "host_calls", "device_work", "collectives", "syncs"), "event_id"),
    **dict.fromkeys(("python_functions", "memory", "unusable_durations", *_TREES), "event_id"),
    **dict.fromkeys(("host_links", "launches", "device_links"), "event_id"),
    **dict.fromkeys(("nodes", "et_collectives", "node_links", "node_times"), "node_id"),
    "events": "event_id",
    "lanes": "lane",
    "tensors": "tensor",
    "forward_backward": "backward_event",
}
"""Key column of each table whose rows have distinct subjects."""


def check_table(name: str, frame: pl.DataFrame, stated: Mapping[str, TableFile]) -> None:
    """Check a table of a rank."""
    if frame.height != stated[name].rows:
        raise ValueError(f"it has {frame.height:,} rows, and not {stated[name].rows:,}")
    rows = {table: file.rows for table, file in stated.items()}
    for column in _EVENTS:
        if column in frame.columns:
            _check_range(frame.get_column(column), rows.get("events", 0))
    if "lane" in frame.columns:
        _check_range(frame.get_column("lane"), rows.get("lanes", 0))
    if name in _KEYS:
        _check_once(frame.get_column(_KEYS[name]))
    if name in _TREES:
        if frame.height != sum(rows.get(table, 0) for table in _IN_TREES):
            raise ValueError(f"it has {frame.height:,} events, and not those of {', '.join(_IN_TREES)}")
        _check_tree(frame, rows.get("events", 0))
    if name == "nodes":
        _check_parents(frame)


def _check_range(numbers: pl.Series, rows: int) -> None:
    least, most = numbers.min(), numbers.max()
    if isinstance(least, int) and isinstance(most, int) and not 0 <= least <= most < rows:
        raise ValueError(f"{numbers.name} goes from {least} to {most}, and there are {rows:,} of them")


def _check_once(numbers: pl.Series) -> None:
    """Check that each row has a unique number."""
    if not numbers.null_count() and (np.diff(numbers.to_numpy()) > 0).all():
        return
    if numbers.null_count() or numbers.n_unique() < len(numbers):
        raise ValueError(f"a {numbers.name} is missing or repeated")


def _check_tree(tree: pl.DataFrame, events: int) -> None:
    """Check that each event is one level deeper than its parent, which excludes cycles."""
    if tree.get_column("event_id").null_count() or tree.get_column("depth").null_count():
        raise ValueError("an event of the tree has no id or no depth")
    depth = np.full(events, -1, dtype=np.int64)
    depth[tree.get_column("event_id").to_numpy()] = tree.get_column("depth").to_numpy()
    inner = tree.filter(pl.col("parent_event").is_not_null())
    parents = inner.get_column("parent_event").to_numpy()
    if (depth[parents] != inner.get_column("depth").to_numpy() - 1).any() or (depth[parents] < 0).any():
        raise ValueError("an event of the tree does not lie one deeper than its parent")


def _check_parents(nodes: pl.DataFrame) -> None:
    """Check that parents form no cycle."""
    ids = nodes.get_column("node_id").to_numpy()
    order = np.argsort(ids, kind="stable")
    parents = nodes.get_column("parent_id").fill_null(-1).to_numpy()
    found = np.minimum(np.searchsorted(ids[order], parents), max(0, len(ids) - 1))
    rows = order[found] if len(ids) else found
    # The row behind the last stands for what has no parent.
    up = np.append(
        np.where(nodes.get_column("parent_id").is_null().to_numpy() | (ids[rows] != parents), len(ids), rows),
        len(ids),
    )
    # Each turn doubles the way that is gone up: after as many as the number of nodes has digits nothing is left.
    for _ in range(len(ids).bit_length() + 1):
        if (up == len(ids)).all():
            return
        up = up[up]
    raise ValueError("nodes form a cycle of parents")


T = TypeVar("T")

AGAIN = "Pack this rank again: tracebraid pack PATH -o STORE"


def read_content(store: Path, rank: int) -> RankContent:
    """Read the description of a rank."""
    path = rank_file(store, rank)
    content, _ = read_sealed(path, RankContent, check_rank)
    if content.rank != rank:
        raise InputError(str(path), f"this is the file of rank {content.rank}", AGAIN)
    return content


class StoredTables(Struct, frozen=True, eq=False, weakref=True):
    """Tables of a rank; each is read on first use and cached by the caller.

    Args:
        store: the folder of the store.
        content: what describes the rank.
    """

    store: Path
    content: RankContent

    def read(self, name: str) -> pl.DataFrame:
        """A table, by the name of its folder."""
        name = self.content.same.get(name, name)
        table = STORED_TABLES[name]
        if name not in self.content.tables:
            return table.empty()
        try:
            frame = decoded(name, table, self.content_of(name))
            check_table(name, frame, self.content.tables)
            return frame
        except ValueError as error:
            path = table_file(self.store, name, self.content.rank)
            raise InputError(str(path), f"this file of the store is damaged: {error}", AGAIN) from None

    def content_of(self, name: str) -> bytes:
        """Return the content of a table's file after checking its hash."""
        path, stated = table_file(self.store, name, self.content.rank), self.content.tables[name]
        try:
            content = stored_bytes(path)
        except FileNotFoundError:
            raise InputError(str(path), "this file of the store is missing", AGAIN) from None
        except OSError as error:
            problem = f"it cannot be read ({error.strerror or error})"
            raise InputError(str(path), problem, "Check the file and its rights") from None
        if len(content) != stated.size_bytes or sha256_of(content) != stated.sha256:
            problem = "this file of the store is damaged, or another one"
            raise InputError(str(path), problem, AGAIN)
        return content


class _LazyTables(Mapping[str, pl.DataFrame]):
    """The tables of a timeline, each read on first use and cached."""

    def __init__(self, tables: StoredTables) -> None:
        self._stages = {name: Stage(partial(tables.read, name)) for name in TIMELINE_TABLES}

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self._stages[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)


def linked_trace_of(tables: StoredTables) -> LinkedTrace:
    """The linked trace of a rank of a store.

    Findings while a stage was computed is known, as of a trace that is linked now, when that stage or one that
    needs it was asked for; errors are raised by the stages that raised them.
    """
    content = tables.content
    try:
        return LinkedTrace(_timeline(tables), _stages(tables))
    except ValueError as error:
        path = str(rank_file(tables.store, content.rank))
        raise InputError(path, f"this file of the store is damaged: {error}", AGAIN) from None


def _timeline(tables: StoredTables) -> Timeline:
    facts = tables.content.timeline
    return Timeline(
        path=facts.path,
        rank=facts.rank,
        world_size=facts.world_size,
        base_time_ns=facts.base_time_ns,
        header=facts.header,
        tables=_LazyTables(tables),
        process_groups=tables.read("process_groups"),
        findings=findings_of(facts.findings),
        size_bytes=tables.content.kineto.size_bytes,
    )


def _stages(tables: StoredTables) -> LinkStages:
    """Stages that call those on which their computation would depend."""
    content = tables.content
    link_error = None if content.link_error is None else error_of(content.link_error)
    of_tree, of_links, of_dependencies = map(findings_of, content.findings)
    matched = _matched(tables)
    et: Stage[ExecutionTrace] | None = (
        None if content.et is None else Stage(partial(_execution_trace, tables))
    )
    tree: Stage[None] = Stage(lambda: None)

    def link() -> None:
        if et is not None:
            et()
        tree()
        if link_error is not None:
            raise link_error

    links: Stage[None] = Stage(link)
    dependencies = Stage(lambda: tree())

    def after(name: str, *needed: Stage[None]) -> Stage[pl.DataFrame]:
        return Stage(partial(_after, partial(tables.read, name), needed))

    return LinkStages(
        et=et,
        host_tree=after("host_tree", tree),
        host_tree_by_et=after("host_tree_by_et", tree, links),
        host_links=after("host_links", links),
        node_links=after("node_links", links),
        matched=Stage(partial(_after, matched, (links,))),
        launches=after("launches", tree),
        device_links=after("device_links", tree, links),
        forward_backward=after("forward_backward"),
        dependencies=after("dependencies", dependencies),
        coverage=Stage(partial(_after, partial(_coverage, content), (links, tree))),
        findings=(
            StageFindings(tree, Stage(partial(_after, lambda: of_tree, (tree,)))),
            StageFindings(links, Stage(partial(_after, lambda: of_links, (links,)))),
            StageFindings(dependencies, Stage(partial(_after, lambda: of_dependencies, (dependencies,)))),
        ),
    )


def _after(read: Callable[[], T], needed: tuple[Stage[None], ...]) -> T:
    for stage in needed:
        stage()
    return read()


def _matched(tables: StoredTables) -> Callable[[], Matched | None]:
    facts = tables.content.matched
    if facts is None:
        return lambda: None
    choice: Any = from_builtin(facts.choice)
    return lambda: Matched(
        agreement=facts.agreement,
        programs=facts.programs,
        ambiguous=facts.ambiguous,
        choice=choice,
        iterations=tables.read("iterations"),
        node_times=tables.read("node_times"),
    )


def _coverage(content: RankContent) -> Coverage:
    assert content.coverage is not None, "it was counted, or there is an error"
    return content.coverage


class StoredExecutionTrace(ExecutionTrace):
    """An `ExecutionTrace` of a store: a member that is a table is read on first use and cached."""

    _tables: Mapping[str, Stage[pl.DataFrame]]

    @classmethod
    def of(
        cls, members: Mapping[str, object], tables: Mapping[str, Stage[pl.DataFrame]]
    ) -> StoredExecutionTrace:
        """One of these."""
        et = cls.__new__(cls)
        vars(et).update(members, _tables=tables)
        return et

    def __getattr__(self, name: str) -> Any:
        # Is called for what is not there yet.
        if name.startswith("_") or name not in self._tables:
            raise AttributeError(f"an ExecutionTrace has no {name!r}")
        table = self._tables[name]()
        vars(self)[name] = table
        return table


def _execution_trace(tables: StoredTables) -> StoredExecutionTrace:
    content = tables.content
    if content.et_error is not None:
        raise error_of(content.et_error)
    facts = content.execution_trace
    assert facts is not None, "an Execution Trace was read, or there is an error"
    return StoredExecutionTrace.of(
        {
            "path": facts.path,
            "schema": facts.schema,
            "rank": facts.rank,
            "header": facts.header,
            "findings": findings_of(facts.findings),
            "recorder": facts.recorder,
            "size_bytes": None if content.et is None else content.et.size_bytes,
            "tensor_graph": Stage(partial(_tensor_graph, tables)),
            "tensor_devices": Stage(lambda: devices_of(tables.read("tensors"))),
        },
        {name.removeprefix("et_"): Stage(partial(tables.read, name)) for name in ET_TABLES},
    )


def _tensor_graph(tables: StoredTables) -> TensorGraph:
    return TensorGraph(tables.read("tensors"), tables.read("tensor_uses"), tables.read("tensor_edges"))


def damage(store: Path, manifest: Manifest) -> Iterator[tuple[int, InputError]]:
    """The rank and an error for each file that is not there, or is not the one that was written; each is read whole."""
    for entry in manifest.ranks:
        if entry.sha256 is None:
            continue
        path = rank_file(store, entry.rank)
        try:
            content, whole = read_sealed(path, RankContent, check_rank)
        except InputError as error:
            yield entry.rank, error
            continue
        if sha256_of(whole) != entry.sha256:
            yield entry.rank, InputError(str(path), "it is not the one that the manifest names", AGAIN)
            continue
        tables = StoredTables(store, content)
        for name in content.tables:
            try:
                tables.content_of(name)
            except InputError as error:
                yield entry.rank, error
