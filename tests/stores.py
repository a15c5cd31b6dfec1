"""Compares what a store holds with what it was packed from."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import polars as pl
from msgspec.structs import astuple

from tracebraid.errors import TracebraidError
from tracebraid.model.linked_trace import LinkedTrace

_OF_ET = (
    "nodes",
    "values",
    "collectives",
    "extra_attrs",
    "process_groups",
    "tensors",
    "tensor_uses",
    "tensor_edges",
    "path",
    "schema",
    "rank",
    "header",
    "findings",
    "recorder",
)
_OF_TIMELINE = (
    "path",
    "rank",
    "world_size",
    "base_time_ns",
    "header",
    "process_groups",
    "findings",
    "span_ns",
)
_STAGES = (
    "host_tree", "host_tree_by_et", "host_links", "node_links", "matched", "launches", "device_links",
    "forward_backward", "dependencies", "coverage", "findings", "all_findings",
)  # fmt: skip


def differences(one: LinkedTrace, other: LinkedTrace) -> list[str]:
    """Names of what is not the same in two linked traces: tables with their types, facts, findings and errors.

    After each stage the findings that are known so far are compared, too: commands print them.
    """
    found = [name for name in _OF_TIMELINE if not _same(f"timeline.{name}", one, other)]
    tables = one.timeline.tables
    found += [name for name in tables if not _equal(tables[name], other.timeline.tables[name])]
    if one.has_et != other.has_et:
        return [*found, "has_et"]
    for name in _STAGES:
        found += [f"{part} at {name}" for part in (name, "known_findings") if not _same(part, one, other)]
    return found + [name for name in _OF_ET if one.has_et and not _same(f"et.{name}", one, other)]


def _same(name: str, one: LinkedTrace, other: LinkedTrace) -> bool:
    return _equal(_outcome(name, one), _outcome(name, other))


def _outcome(name: str, linked: LinkedTrace) -> Any:
    try:
        return attrgetter(name)(linked)
    except TracebraidError as error:
        return type(error), str(error)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, pl.DataFrame):
        return isinstance(second, pl.DataFrame) and first.schema == second.schema and first.equals(second)
    if type(first).__name__ == "Matched":
        return all(map(_equal, astuple(first), astuple(second)))
    return bool(first == second) and repr(first) == repr(second)


def content_of(store: Path) -> dict[str, bytes]:
    """The bytes of every file of a store."""
    return {
        str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()
    }
