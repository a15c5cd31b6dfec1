"""A rank of a store as a `LinkedTrace`, whose tables are read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from tracebraid.errors import InputError
from tracebraid.model.coverage import Coverage
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.linked_trace import LinkedTrace, LinkStages, StageFindings
from tracebraid.model.matched import Matched
from tracebraid.model.stage import Stage
from tracebraid.model.tensor_graph import TensorGraph, devices_of
from tracebraid.model.timeline import Timeline
from tracebraid.store.findings import error_of, findings_of, from_builtin
from tracebraid.store.layout import rank_file, table_file
from tracebraid.store.manifest import RankContent
from tracebraid.store.parquet import decoded
from tracebraid.store.references import check_table
from tracebraid.store.sealed_json import read_sealed, sha256_of
from tracebraid.store.soundness import check_rank
from tracebraid.store.stored_execution_trace import StoredExecutionTrace
from tracebraid.store.stored_file import stored_bytes
from tracebraid.store.tables import ET_TABLES, STORED_TABLES, TIMELINE_TABLES

__all__ = ["AGAIN", "StoredTables", "linked_trace_of", "read_content"]

T = TypeVar("T")

AGAIN = "Pack this rank again: tracebraid pack PATH -o STORE"


def read_content(store: Path, rank: int) -> RankContent:
    """What describes a rank.

    Raises:
        InputError: it is not there, is damaged, of another rank, or of a newer version of the format.
    """
    path = rank_file(store, rank)
    content, _ = read_sealed(path, RankContent, check_rank)
    if content.rank != rank:
        raise InputError(str(path), f"this is the file of rank {content.rank}", AGAIN)
    return content


@dataclass(frozen=True, eq=False)
class StoredTables:
    """The tables of a rank; each is read when it is first asked for, and kept by who asked.

    Args:
        store: the folder of the store.
        content: what describes the rank.
    """

    store: Path
    content: RankContent

    def read(self, name: str) -> pl.DataFrame:
        """A table, by the name of its folder.

        Raises:
            InputError: its file is not there, or is not the one that was written.
        """
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
        """The file of a table that has one, proven to be the one that was written.

        Raises:
            InputError: it is not there, or is another one.
        """
        path, stated = table_file(self.store, name, self.content.rank), self.content.tables[name]
        try:
            content = stored_bytes(path)
        except FileNotFoundError:
            raise InputError(str(path), "this file of the store is not there", AGAIN) from None
        except OSError as error:
            problem = f"it cannot be read ({error.strerror or error})"
            raise InputError(str(path), problem, "Check the file and its rights") from None
        if len(content) != stated.size_bytes or sha256_of(content) != stated.sha256:
            problem = "this file of the store is damaged, or another one"
            raise InputError(str(path), problem, AGAIN)
        return content


class _LazyTables(Mapping[str, pl.DataFrame]):
    """The tables of a timeline, each read when it is first asked for, and kept."""

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

    What was noticed while a stage was computed is known, as of a trace that is linked now, when that stage or one that
    needs it was asked for; errors are raised by the stages that raised them.

    Raises:
        InputError: what describes it is damaged.
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
    """The stages, of which each asks those that it would need if it were computed."""
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
