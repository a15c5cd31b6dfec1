"""Small traces made by hand: events and nodes as the files have them, and files in the layout of their writers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def op(name: str, ts: float, dur: float, tid: int = 1, cat: str = "cpu_op", **args: Any) -> Json:
    """A host op; `args` by their names in the file, spaces as underscores: External_id=3."""
    return complete(
        name, cat, ts, dur, pid=1, tid=tid, args={k.replace("_", " "): v for k, v in args.items()}
    )


def call(name: str, ts: float, dur: float, correlation: int, tid: int = 1, cat: str = "cuda_runtime") -> Json:
    """A runtime call."""
    return complete(name, cat, ts, dur, pid=1, tid=tid, args={"cbid": 211, "correlation": correlation})


def kernel(
    name: str, ts: float, dur: float, correlation: int, stream: int = 7, cat: str = "kernel", **args: Any
) -> Json:
    """A kernel or copy on device 0."""
    fixed = {"device": 0, "context": 1, "stream": stream, "correlation": correlation}
    return complete(name, cat, ts, dur, pid=0, tid=stream, args={**fixed, **args})


def complete(
    name: str, cat: str, ts: float, dur: float, pid: Any, tid: Any, args: Json | None = None
) -> Json:
    """A complete event."""
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args or {},
    }


def flow(phase: str, flow_id: int, ts: float, pid: Any = 1, tid: Any = 1, cat: str = "ac2g") -> Json:
    """An end of a flow arrow."""
    return {"ph": phase, "id": flow_id, "pid": pid, "tid": tid, "ts": ts, "cat": cat, "name": cat, "bp": "e"}


def _event_text(event: Json) -> str:
    # `json.dumps` with an indent is written in Python, and takes ten times as long.
    fields = [f"    {json.dumps(key)}: {_value_text(value)}" for key, value in event.items()]
    return "  {\n" + ",\n".join(fields) + "\n  }"


def _value_text(value: Any) -> str:
    if not isinstance(value, dict) or not value:
        return json.dumps(value)
    fields = [f"      {json.dumps(key)}: {json.dumps(inner)}" for key, inner in value.items()]
    return "{\n" + ",\n".join(fields) + "\n    }"


def kineto_text(events: list[Json], header: Json | None = None, tail: Json | None = None) -> str:
    """A Kineto file in the layout that Kineto writes: two spaces, an event and its arguments over several lines."""
    head = {"schemaVersion": 1, "distributedInfo": {"rank": 0}, **(header or {})}
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}," for k, v in head.items()]
    body = ",\n".join(map(_event_text, events))
    end = "".join(
        f",\n  {json.dumps(k)}: {json.dumps(v)}" for k, v in (tail or {"traceName": "t.json"}).items()
    )
    return "\n{\n" + "\n".join(lines) + '\n  "traceEvents": [\n' + body + "\n  ]" + end + "\n}\n"


def node(
    node_id: int,
    name: str,
    parent: int,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    **attrs: Any,
) -> Json:
    """A node of an Execution Trace since schema 1.0.2.

    Inputs and outputs are (type, value, shape); attrs are rf_id, seq_id and the like, with usual defaults.
    """
    defaults = {
        "rf_id": node_id,
        "fw_parent": 0,
        "seq_id": -1,
        "scope": 0,
        "tid": 1,
        "fw_tid": 0,
        "op_schema": "",
    }
    return {
        "id": node_id,
        "name": name,
        "ctrl_deps": parent,
        "inputs": _side(inputs),
        "outputs": _side(outputs),
        "attrs": [{"name": k, "type": _kind(v), "value": v} for k, v in {**defaults, **attrs}.items()],
    }


def flattened(one: Json) -> Json:
    """A node in the form of schema 1.0.1, with its members in PyTorch's order."""
    attrs = {attr["name"]: attr["value"] for attr in one["attrs"]}
    found: Json = {"name": one["name"], "id": one["id"], "rf_id": attrs["rf_id"], "parent": one["ctrl_deps"]}
    found |= {key: attrs[key] for key in ("fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema")}
    for side in ("input", "output"):
        found[f"{side}s"] = one[f"{side}s"]["values"]
        found[f"{side}_shapes"], found[f"{side}_types"] = (
            one[f"{side}s"][key] for key in ("shapes", "types")
        )
    return found


def tensor(
    tensor_id: int, storage_id: int, shape: list[int], dtype: str = "float", device: str = "cpu"
) -> Any:
    """An input or output that is a tensor: (type, value, shape)."""
    numel = 1
    for length in shape:
        numel *= length
    return f"Tensor({dtype})", [tensor_id, storage_id, 0, numel, 4, device], shape


def process_node() -> Json:
    """The root of a process."""
    return node(1, "[pytorch|profiler|execution_trace|process]", 1, rf_id=0, scope=7, tid=0)


def thread_node(node_id: int = 2, tid: int = 1) -> Json:
    """The root of a thread."""
    return node(node_id, "[pytorch|profiler|execution_trace|thread]", 1, rf_id=0, scope=7, tid=tid)


def et_text(nodes: list[Json], schema: str = "1.1.1-chakra.0.0.4") -> str:
    """An Execution Trace file in the layout that PyTorch writes."""
    head = f'"schema": {json.dumps(schema)}, "pid": 1, "time": "2023-11-14 22:13:20", "start_ts": 100,'
    body = ",\n".join("    " + json.dumps(one) for one in nodes)
    return "{\n  " + head + '\n  "nodes": [\n' + body + '\n  ],\n  "finish_ts": 200\n}\n'


def write(path: Path, text: str) -> Path:
    """Write a trace, as gzip where the name ends in .gz."""
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode())
    return path


def _side(values: Sequence[Any]) -> Json:
    types, contents, shapes = ([value[i] for value in values] for i in range(3))
    return {"values": contents, "shapes": shapes, "types": types, "strides": [[] for _ in values]}


def _kind(value: Any) -> str:
    return "string" if isinstance(value, str) else "int64"
