"""The bundled traces with wrong parents, as PyTorch's observer leaves them where gloo's operators end elsewhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.builders import Json

EVERY = 6
"""Every how many operators one gets a wrong parent."""


def misled_copy(source: Path, folder: Path) -> Path:
    """A folder with the traces of two ranks, without manifests, where some nodes hang under an op that had ended."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in (0, 1):
        kineto, et = f"kineto_trace_{rank}.json.gz", f"torch_et_{rank}.json.gz"
        (folder / kineto).write_bytes((source / kineto).read_bytes())
        data = json.loads(gzip.decompress((source / et).read_bytes()))
        for node, parent in wrong_parents(data["nodes"]).items():
            next(one for one in data["nodes"] if one["id"] == node)["ctrl_deps"] = parent
        (folder / et).write_bytes(gzip.compress(json.dumps(data).encode(), 1, mtime=0))
    return folder


def wrong_parents(nodes: list[Json]) -> dict[int, int]:
    """For every so many operators: the operator that the same one had called before, in place of the caller."""
    called: dict[int, int] = {}
    wrong = {}
    operators = [one for one in sorted(nodes, key=lambda one: one["id"]) if one["name"].startswith("aten::")]
    for number, node in enumerate(operators):
        earlier = called.get(node["ctrl_deps"])
        if earlier is not None and number % EVERY == 0:
            wrong[node["id"]] = earlier
        called[node["ctrl_deps"]] = node["id"]
    return wrong
