"""Jobs: the Kineto and Execution Traces of one to three ranks, and their manifests, in a folder."""

from __future__ import annotations

import json
from pathlib import Path

from tests.builders import Json, et_text, node, tensor
from tests.planted import Scene
from tests.planted.nodes import node_id_of, nodes_of
from tools.fuzz.calls.jobs import CACHED, CHOSEN, LINKED
from tools.fuzz.formats.made_jobs import MADE
from tools.fuzz.model import Files, Format, Sample
from tools.fuzz.mutations.trace_jobs import TRACE_MUTATIONS


def _samples(_: Path) -> list[Sample]:
    return [Sample(name, _files(name, make())) for name, make in MADE.items()]


def _files(name: str, scenes: list[Scene]) -> Files:
    """The files of a job as a capture leaves them; a job whose name says so has no Execution Traces."""
    files: Files = {}
    for scene in scenes:
        trace = {"schemaVersion": 1, **scene.header(), "traceEvents": scene.json()}
        files[f"kineto_trace_{scene.rank}.json"] = json.dumps(trace).encode()
        files[f"manifest_{scene.rank}.json"] = json.dumps(_manifest(scene)).encode()
        if not name.endswith("_alone"):
            text = et_text(_nodes(scene)).replace('"pid": 1,', f'"pid": {scene.pid},', 1)
            files[f"torch_et_{scene.rank}.json"] = text.encode()
    return files


def _nodes(scene: Scene) -> list[Json]:
    """The nodes of a scene; those of ops with shapes have tensors: the first input of one is the output of the last."""
    nodes = {one["id"]: one for one in nodes_of(scene)}
    number = 100
    for event in scene.events:
        dims = event.args.get("Input Dims", [])
        found = nodes.get(node_id_of(event)) if "Record function id" in event.args else None
        if found is None or not dims:
            continue
        ids = range(number, number + len(dims) + 1)
        number += len(dims)
        shaped = [
            tensor(one, one + 1000, shape) for one, shape in zip(ids, dims, strict=False) if _is_shape(shape)
        ]
        made = node(0, "", 0, inputs=shaped, outputs=[tensor(ids[-1], ids[-1] + 1000, [8, 32])])
        found["inputs"], found["outputs"] = made["inputs"], made["outputs"]
    return list(nodes.values())


def _is_shape(shape: object) -> bool:
    return isinstance(shape, list) and all(isinstance(length, int) for length in shape)


def _manifest(scene: Scene) -> Json:
    return {
        "schema": "tracebraid-manifest-1",
        "tracebraid": "0.1.0",
        "torch": "2.6.0",
        "host": scene.host_name or "node-0",
        "pid": scene.pid,
        "rank": scene.rank,
        "world_size": scene.world_size,
        "rank_from": "torch.distributed",
        "process_groups": [
            {"pg_name": name, "pg_desc": "undefined", "ranks": ranks, "group_size": len(ranks)}
            for name, ranks in scene.groups.items()
        ],
    }


FORMAT = Format("job", _samples, TRACE_MUTATIONS, LINKED, (*CHOSEN, CACHED))
