"""Reads ET+ as the peers do: what Chakra's converter and et_replay take from each node, and what they stumble over."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.builders import Json

CONVERTED_SCHEMAS = {f"{version}-chakra.0.0.4" for version in ("1.0.2", "1.0.3", "1.1.0", "1.1.1")}
REPLAYED_SCHEMAS = CONVERTED_SCHEMAS | {"1.0.1", "1.0.4-chakra.0.0.4"}
CONVERTED_COLLECTIVES = ("allreduce", "alltoall", "allgather", "reducescatter", "broadcast")
INT_ATTRS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")


def load_et_plus(path: Path) -> Json:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.name.endswith(".gz") else data)


def is_device(node: Json) -> bool:
    return "cat" in node


def read_as_converter(found: Json) -> None:
    """Fail where Chakra's converter would."""
    assert found["schema"] in CONVERTED_SCHEMAS
    assert {"pid", "time", "start_ts", "finish_ts"} <= found.keys()
    by_id = _sorted_and_unique(found["nodes"])
    for node in found["nodes"]:
        assert isinstance(node["name"], str)
        attrs = {attr["name"]: attr["value"] for attr in node["attrs"]}
        assert all(_is_int64(attrs[name]) for name in INT_ATTRS)
        assert isinstance(attrs["op_schema"], str)
        assert isinstance(node.get("exclusive_dur", 0), int | float)
        for side in (node["inputs"], node["outputs"]):
            _check_values(side["values"], side["shapes"], side["types"])
        if is_device(node):
            assert not is_device(by_id[node["ctrl_deps"]])
            assert _is_int64(node["stream"])
            assert isinstance(node.get("pg_name", ""), str)
            assert _is_known(node["name"])
    _check_acyclic(by_id, "ctrl_deps")


def read_as_replay(found: Json) -> None:
    """Fail where et_replay's parser would."""
    assert found["schema"] in REPLAYED_SCHEMAS
    is_flat = found["schema"] == "1.0.1"
    by_id = _sorted_and_unique(found["nodes"])
    assert 1 in by_id, "the root of the process"
    for node in found["nodes"]:
        if is_flat:
            assert all(_is_int64(node[name]) for name in ("fw_parent", "seq_id", "tid", "fw_tid", "scope"))
            sides = [(node[f"{s}s"], node[f"{s}_shapes"], node[f"{s}_types"]) for s in ("input", "output")]
        else:
            sides = [(node[s]["values"], node[s]["shapes"], node[s]["types"]) for s in ("inputs", "outputs")]
        for side in sides:
            _check_values(*side)
    _check_acyclic(by_id, "parent" if is_flat else "ctrl_deps")


def check_trace_link(found: Json) -> None:
    """Fail where scripts that read trace_link's output would."""
    _sorted_and_unique(found["nodes"])
    kinds = [is_device(node) for node in found["nodes"]]
    assert kinds == sorted(kinds), "device nodes come after host nodes"
    by_id = {node["id"]: node for node in found["nodes"]}
    device = [node for node in found["nodes"] if is_device(node)]
    for node in found["nodes"]:
        assert ("ts" in node) == ("dur" in node)
        assert node.get("dur", 0) >= 0
    for node in device:
        parent = by_id[node["parent"]]
        assert not is_device(parent)
        assert node["ph"] == "X"
        assert isinstance(node["args"], dict)
        assert all(node[key] == parent[key] for key in parent if key.startswith(("input", "output")))
    starts = [node["ts"] for node in device]
    assert starts == sorted(starts)


def _sorted_and_unique(nodes: list[Json]) -> dict[int, Json]:
    ids = [node["id"] for node in nodes]
    assert ids == sorted(set(ids))
    return {node["id"]: node for node in nodes}


def _check_values(values: Any, shapes: Any, types: Any) -> None:
    assert isinstance(values, list)
    assert len(values) == len(shapes) == len(types)
    for value, shape, kind in zip(values, shapes, types, strict=True):
        if kind.startswith("Tensor("):
            assert len(value) == 6
            assert all(isinstance(one, int) for one in value[:5])
            assert isinstance(shape, list)


def _check_acyclic(by_id: dict[int, Json], parent_key: str) -> None:
    for node in by_id.values():
        seen = set()
        while node[parent_key] in by_id and node[parent_key] != node["id"]:
            assert node["id"] not in seen
            seen.add(node["id"])
            node = by_id[node[parent_key]]


def _is_known(name: str) -> bool:
    if not name.startswith(("ncclKernel", "ncclDevKernel")) or "ncclDevKernel_SendRecv" in name:
        return True
    return any(kind in name.replace("_", "").lower() for kind in CONVERTED_COLLECTIVES)


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63
