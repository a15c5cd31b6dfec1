"""The bundled traces with wrong parents, as PyTorch's observer leaves them where gloo's operators end elsewhere."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

from tests.builders import Json

EVERY = 6
"""Every how many operators one gets a wrong parent."""
_PARENT = re.compile(r'("id": (\d+), "name": ".*?", "ctrl_deps": )(\d+)')


def misled_copy(source: Path, folder: Path) -> Path:
    """A folder with the traces of two ranks, without manifests, where some nodes hang under an op that had ended."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in (0, 1):
        kineto, et = f"kineto_trace_{rank}.json.gz", f"torch_et_{rank}.json.gz"
        (folder / kineto).write_bytes((source / kineto).read_bytes())
        text = gzip.decompress((source / et).read_bytes()).decode()
        wrong = wrong_parents(json.loads(text)["nodes"])
        (folder / et).write_bytes(gzip.compress(with_parents(text, wrong).encode(), 1, mtime=0))
    return folder


def with_parents(text: str, parents: dict[int, int]) -> str:
    """An Execution Trace with other parents of some nodes, its layout untouched."""
    return _PARENT.sub(lambda found: f"{found[1]}{parents.get(int(found[2]), found[3])}", text)


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
