"""Records with the native recorder, with PyTorch's, or with both at once; and holds them against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tracebraid

torch = pytest.importorskip("torch")

Json = dict[str, Any]
Work = Callable[[], object]


@contextmanager
def native(path: Path, **options: Any) -> Iterator[Any]:
    """A native observer that records into a file while the block runs."""
    observer = tracebraid.ExecutionTraceObserver("native", **options)
    observer.register_callback(path)
    observer.start()
    try:
        yield observer
    finally:
        observer.stop()
        observer.unregister_callback()


@contextmanager
def builtin(path: Path) -> Iterator[None]:
    """PyTorch's recorder, as it is."""
    profiler = torch._C._profiler
    profiler._add_execution_trace_observer(str(path))
    profiler._enable_execution_trace_observer()
    try:
        yield
    finally:
        profiler._disable_execution_trace_observer()
        profiler._remove_execution_trace_observer()


def nodes_of(path: Path) -> list[Json]:
    """The nodes of a file, each with its attributes in `at`."""
    nodes: list[Json] = msgspec.json.decode(path.read_bytes())["nodes"]
    for node in nodes:
        node["at"] = {one["name"]: one["value"] for one in node["attrs"]}
    return nodes


def record(path: Path, work: Work) -> list[Json]:
    """The nodes that the native recorder writes about some work."""
    with native(path):
        work()
    return nodes_of(path)


def record_builtin(path: Path, work: Work) -> list[Json]:
    """The nodes that PyTorch's recorder writes."""
    with builtin(path):
        work()
    return nodes_of(path)


def record_both(folder: Path, work: Work) -> tuple[list[Json], list[Json]]:
    """The nodes of PyTorch's recorder and of the native one, about the same run."""
    theirs, ours = folder / "theirs.json", folder / "ours.json"
    with builtin(theirs), native(ours):
        work()
    return nodes_of(theirs), nodes_of(ours)


def is_root(node: Json) -> bool:
    return str(node["name"]).startswith("[pytorch|profiler|execution_trace|")


def ops_of(nodes: list[Json]) -> list[Json]:
    return [node for node in nodes if not is_root(node)]


def names_of(nodes: list[Json]) -> list[str]:
    return [node["name"] for node in ops_of(nodes)]


def the(nodes: list[Json], name: str) -> Json:
    """The one node of that name."""
    (found,) = [node for node in nodes if node["name"] == name]
    return found


def parent_of(nodes: list[Json], node: Json) -> Json:
    (found,) = [one for one in nodes if one["id"] == node["ctrl_deps"]]
    return found


def problems(nodes: list[Json]) -> list[str]:
    """What is wrong with a file's nodes: ids that are there twice, parents that are not there or elsewhere."""
    by_id = {node["id"]: node for node in nodes}
    found = [f"id {key} {n} times" for key, n in Counter(node["id"] for node in nodes).items() if n > 1]
    rf_ids = Counter(node["at"]["rf_id"] for node in ops_of(nodes))
    found += [f"rf_id {key} {n} times" for key, n in rf_ids.items() if n > 1]
    for node in ops_of(nodes):
        parent = by_id.get(node["ctrl_deps"])
        if parent is None:
            found.append(f"{node['name']}: no parent {node['ctrl_deps']}")
        elif parent["at"]["tid"] != node["at"]["tid"]:
            found.append(f"{node['name']}: its parent {parent['name']} is of another thread")
        forward = node["at"]["fw_parent"]
        if forward and forward not in by_id:
            found.append(f"{node['name']}: no fw_parent {forward}")
    return found


def assert_whole(path: Path) -> list[Json]:
    """A file is right in itself, and Tracebraid reads it without a finding: its nodes."""
    nodes = nodes_of(path)
    assert problems(nodes)[:5] == []
    assert [str(one)[:200] for one in tracebraid.read_execution_trace(path).findings] == []
    return nodes


def tensors_in(value: Any) -> Iterator[list[Any]]:
    """The tensors among some values: id, storage id, offset, elements, size of one, device."""
    if isinstance(value, list):
        if len(value) == 6 and isinstance(value[5], str) and all(type(one) is int for one in value[:5]):
            yield value
        else:
            for one in value:
                yield from tensors_in(one)


def tensors_of(node: Json, side: str) -> list[list[Any]]:
    return list(tensors_in(node[side]["values"]))


def without_ids(value: Any) -> Any:
    """A value, without ids of tensors and with as many decimals as PyTorch's recorder writes."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, list):
        if list(tensors_in(value)) == [value]:
            return ("tensor", *value[2:])
        return [without_ids(one) for one in value]
    return value


def comparable(nodes: list[Json]) -> dict[Any, Json]:
    """All that a file says of each node but for what recorders are free to choose, by the node's rf_id."""
    key_of = {node["id"]: node["at"]["rf_id"] or f"root of {node['at']['tid']}" for node in nodes}
    told = {}
    for node in nodes:
        said = {f"attr {name}": value for name, value in node["at"].items()}
        said["attr fw_parent"] = key_of.get(node["at"]["fw_parent"], 0)
        said["name"], said["parent"] = node["name"], key_of.get(node["ctrl_deps"])
        for side in ("inputs", "outputs"):
            said |= {f"{side} {key}": without_ids(value) for key, value in node[side].items()}
        told[key_of[node["id"]]] = said
    return told


def differences(theirs: list[Json], ours: list[Json]) -> list[str]:
    """In what the files of two recorders differ, in short."""
    one, other = comparable(theirs), comparable(ours)
    found = [f"only theirs: {one[key]['name']}" for key in one.keys() - other.keys()]
    found += [f"only ours: {other[key]['name']}" for key in other.keys() - one.keys()]
    for key in one.keys() & other.keys():
        for field in one[key].keys() | other[key].keys():
            a, b = one[key].get(field), other[key].get(field)
            if a != b:
                found.append(f"{one[key]['name']}: {field}: {str(a)[:120]} | {str(b)[:120]}")
    return found


def merged_ids(theirs: list[Json], ours: list[Json], which: int) -> list[tuple[str, int]]:
    """The ids of ours (0: of tensors, 1: of storages) that stand for several of theirs, with a node that shows it.

    Theirs tell a storage by its memory, which changes where it was empty, or is resized or set: these are left out.
    """
    by_rf_id = {node["at"]["rf_id"]: node for node in ops_of(ours)}
    pairs = [
        (node["name"], a, b)
        for node in ops_of(theirs)
        for side in ("inputs", "outputs")
        for a, b in zip(tensors_of(node, side), tensors_of(by_rf_id[node["at"]["rf_id"]], side), strict=True)
    ]
    changing = {b[1] for name, _, b in pairs if not b[3] or name in ("aten::resize_", "aten::set_")}
    meant: dict[int, int] = {}
    return [
        (name, b[which])
        for name, a, b in pairs
        if (which == 0 or b[1] not in changing) and meant.setdefault(b[which], a[which]) != a[which]
    ]
