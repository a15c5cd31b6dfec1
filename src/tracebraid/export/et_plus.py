"""`LinkedTrace` to ET+ JSON: the Execution Trace with times, and every device event as a node under its op.

This is the form that Chakra's converter reads. Nodes of schema 1.0.1 are written in the form of 1.0.2, which
holds the same and which the converter takes. Times are decimal µs with three digits, on the Kineto file's own
clock (relative to `baseTimeNanoseconds`, which the header carries), where float64 still tells nanoseconds apart.
"""

from __future__ import annotations

import gzip
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.schema import ET_COLLECTIVES

__all__ = ["et_plus_lines", "write_et_plus"]

_ATTR_TYPES = {
    "rf_id": "uint64",
    "fw_parent": "uint64",
    "seq_id": "int64",
    "scope": "uint64",
    "tid": "uint64",
    "fw_tid": "uint64",
    "op_schema": "string",
    "kernel_backend": "string",
    "kernel_file": "string",
}
_HEADER_KEYS = ("pid", "time", "start_ts")
_FLAT_SCHEMA, _NESTED_SCHEMA = "1.0.1", "1.0.2-chakra.0.0.4"


def write_et_plus(linked: LinkedTrace, path: str | Path) -> None:
    """Write ET+ JSON, as gzip where the path ends in `.gz`. The same input gives the same bytes.

    Args:
        linked: a rank with an Execution Trace.
        path: where to; an existing file is replaced once the new one is whole.

    Raises:
        ArgumentError: the rank has no Execution Trace.
        InputError: the file cannot be written.
    """
    target = Path(path)
    text = "".join(et_plus_lines(linked)).encode()
    data = gzip.compress(text, compresslevel=6, mtime=0) if target.suffix == ".gz" else text
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _write_whole(target, data)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(str(path), f"it cannot be written ({why})", "Choose another place") from None


def _write_whole(target: Path, data: bytes) -> None:
    """Write beside the target, then take its place, so that no half file ever has its name."""
    partial = target.with_name(f".{os.getpid()}.part")
    try:
        partial.write_bytes(data)
        partial.replace(target)
    finally:
        with suppress(OSError):
            partial.unlink()


def et_plus_lines(linked: LinkedTrace) -> Iterator[str]:
    """The text of the ET+ file, node by node.

    Raises:
        ArgumentError: the rank has no Execution Trace.
    """
    et = linked.et
    if et is None:
        raise ArgumentError(
            f"rank {linked.rank} has no Execution Trace, and ET+ is one with times: give its ET too"
        )
    schema = _NESTED_SCHEMA if et.schema == _FLAT_SCHEMA else et.schema
    header = {"schema": schema, **{key: et.header[key] for key in _HEADER_KEYS if key in et.header}}
    header["baseTimeNanoseconds"] = linked.timeline.base_time_ns
    yield "{\n" + ",\n".join(f"  {_json(key)}: {_json(value)}" for key, value in header.items())
    yield ',\n  "nodes": [\n    '
    separator = ""
    for node in _nodes(linked, et):
        yield separator + node
        separator = ",\n    "
    finish = et.header.get("finish_ts")
    yield "\n  ]" + (f',\n  "finish_ts": {_json(finish)}' if finish is not None else "") + "\n}\n"


def _nodes(linked: LinkedTrace, et: ExecutionTrace) -> Iterator[str]:
    """Host nodes in the order of ids, then device nodes in the order of their starts, with ids above all others."""
    bodies = _Bodies(et)
    times = _host_times(linked)
    base_ns = linked.timeline.base_time_ns
    for node_id, name, parent in et.nodes.select(
        "node_id", pl.col("name").cast(pl.String), "parent_id"
    ).iter_rows():
        timing = ""
        if node_id in times:
            ts, inclusive, exclusive = times[node_id]
            timing = f', "ts": {_us(ts - base_ns)}, "inclusive_dur": {_us(inclusive)}'
            timing += f', "exclusive_dur": {_us(exclusive)}'
        parent = node_id if parent is None else parent
        yield f'{{"id": {node_id}, "name": {_json(name)}, "ctrl_deps": {parent}, {bodies.of(node_id)}{timing}}}'
    highest = et.nodes.get_column("node_id").max()
    root = et.nodes.get_column("node_id").min()
    assert isinstance(highest, int) and isinstance(root, int), "an Execution Trace has nodes"
    for number, event in enumerate(_device_events(linked).iter_rows(named=True), start=highest + 1):
        yield _device_node(number, event, base_ns, root, bodies)


def _device_node(number: int, event: dict[str, Any], base_ns: int, root: int, bodies: _Bodies) -> str:
    node = event["node_id"]
    parent = root if node is None else node
    members = {
        "id": str(number),
        "name": _json(event["name"]),
        "ctrl_deps": str(parent),
        "cat": _json(event["category"]),
        "ph": '"X"',
        "ts": _us(event["ts_ns"] - base_ns),
        "inclusive_dur": _us(event["dur_ns"]),
        "exclusive_dur": _us(event["dur_ns"]),
        "stream": _json(event["stream"]),
    }
    if event["pg_name"] is not None:
        members["pg_name"] = _json(event["pg_name"])
    if node is None:
        members["orphan"] = _json(event["reason"] or "the op that launched it has no node")
    head = ", ".join(f"{_json(key)}: {value}" for key, value in members.items())
    return f"{{{head}, {bodies.of(parent)}}}"


def _host_times(linked: LinkedTrace) -> dict[int, tuple[int, int, int]]:
    """(start, inclusive, exclusive) in ns of each linked node; exclusive is less the ops inside, not less calls."""
    rows = (
        linked.node_links.filter(pl.col("event_id").is_not_null())
        .join(linked.host_tree.select("event_id", "inclusive_ns", "op_exclusive_ns"), on="event_id")
        .join(linked.timeline.events.select("event_id", "ts_ns"), on="event_id")
        .select("node_id", "ts_ns", "inclusive_ns", "op_exclusive_ns")
    )
    return {node: (ts, inclusive, exclusive) for node, ts, inclusive, exclusive in rows.iter_rows()}


def _device_events(linked: LinkedTrace) -> pl.DataFrame:
    timeline = linked.timeline
    text = (pl.col("name").cast(pl.String), pl.col("category").cast(pl.String))
    return (
        linked.device_links.select("event_id", "node_id", pl.col("reason").cast(pl.String))
        .join(timeline.events.select("event_id", *text, "ts_ns", "dur_ns"), on="event_id")
        .join(timeline.device_work.select("event_id", "stream"), on="event_id")
        .join(
            timeline.collectives.select("event_id", pl.col("pg_name").cast(pl.String)),
            on="event_id",
            how="left",
        )
        .sort("ts_ns", "event_id")
    )


class _Bodies:
    """The text of each node's inputs, outputs and attributes, as the Execution Trace has them."""

    def __init__(self, et: ExecutionTrace) -> None:
        self._with_strides = et.values.get_column("strides").null_count() < et.values.height
        self._sides: dict[tuple[int, bool], list[tuple[str, str, str, str]]] = defaultdict(list)
        text = [pl.col(name).cast(pl.String) for name in ("value", "shape", "type", "strides")]
        for node, is_output, *parts in et.values.select("node_id", "is_output", *text).iter_rows():
            self._sides[node, is_output].append(tuple(parts))
        self._attrs = _attrs(et)

    def of(self, node: int) -> str:
        """`"inputs": ..., "outputs": ..., "attrs": ...` of a node."""
        attrs = ", ".join(self._attrs[node])
        return f'"inputs": {self._side(node, False)}, "outputs": {self._side(node, True)}, "attrs": [{attrs}]'

    def _side(self, node: int, is_output: bool) -> str:
        rows = self._sides.get((node, is_output), [])
        values = ",".join(row[0] or "null" for row in rows)
        shapes = ",".join(row[1] or "[]" for row in rows)
        types = ",".join(_json(row[2] or "") for row in rows)
        strides = ""
        if self._with_strides:
            strides = f', "strides": [{",".join(row[3] for row in rows if row[3] is not None)}]'
        return f'{{"values": [{values}], "shapes": [{shapes}], "types": [{types}]{strides}}}'


def _attrs(et: ExecutionTrace) -> dict[int, list[str]]:
    """The attributes of each node as JSON objects, in the order in which PyTorch writes them."""
    found: dict[int, list[str]] = defaultdict(list)
    columns = [name for name in _ATTR_TYPES if et.nodes.get_column(name).null_count() < et.nodes.height]
    for node, *values in et.nodes.select("node_id", *columns).iter_rows():
        found[node] += [
            _attr(name, _ATTR_TYPES[name], value)
            for name, value in zip(columns, values, strict=True)
            if value is not None
        ]
    names = {column.name: column.keys[0] for column in ET_COLLECTIVES.columns if column.keys}
    for node, *values in et.collectives.select("node_id", *names).iter_rows():
        for name, value in zip(names.values(), values, strict=True):
            if value is not None:
                kind = "bool" if isinstance(value, bool) else "uint64" if isinstance(value, int) else "string"
                found[node].append(_attr(name, kind, value))
    for node, key, kind, value in et.extra_attrs.iter_rows():
        found[node].append(f'{{"name": {_json(key)}, "type": {_json(kind)}, "value": {value}}}')
    return found


def _attr(name: str, kind: str, value: object) -> str:
    return f'{{"name": {_json(name)}, "type": {_json(kind)}, "value": {_json(value)}}}'


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _us(ns: int) -> str:
    """Nanoseconds as decimal microseconds, without going through a float."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"
