"""Captures of two small ranks, with manifests, as folders."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import tracebraid
from tools.fuzz.calls.commands import CHECK, INFO, OPEN
from tools.fuzz.calls.traces import LINK, LINK_COMMAND, READ_ET, READ_TIMELINE, REPAIR, TRACE_LINK
from tools.fuzz.model import Files, Format, Mutation, Sample
from tools.fuzz.mutations.json_texts import JSON_TEXT, JSON_VALUES
from tools.fuzz.mutations.raw_bytes import RAW_BYTES
from tools.fuzz.sample_traces import demo_rank, gpu_rank, misled_nodes

_NAMES = (
    *(
        "kineto_trace_{n}.json",
        "torch_et_{n}.json",
        "kineto_trace_{n}.json.gz",
        "torch_et_{n}.json.zst",
        "{n}.json",
    ),
    *(
        "host.{n}.pt.trace.json",
        "rank{n}.json",
        "rank_{n}/et.json",
        "worker{n}.1700000000000.pt.trace.json",
        "et.json",
    ),
    *(
        "manifest_{n}.json",
        "window_{n}/kineto_trace_{n}.json",
        "window_0/manifest_{n}.json",
        "torch_et_{n}.arrow.zip",
    ),
    *(
        "kineto_trace_{n}.json.part",
        ".kineto_trace_{n}.json.recording.json",
        "nsys_{n}.sqlite",
        "a b\n{n}.json",
        "\u202e{n}.json",
    ),
    *(
        "kineto_trace_99999999999999999999.json",
        "-{n}.json",
        "..json",
        "run.zip",
        "store.json",
        "et_plus_{n}.json",
    ),
)


def manifest_of(rank: int, files: Files, demo: dict[str, Any]) -> bytes:
    """The manifest of a rank: the demo's, with other files."""
    listed = [{"path": name, "size_bytes": len(data)} for name, data in files.items()]
    window = {**demo["windows"][0], "files": listed}
    return json.dumps({**demo, "rank": rank, "windows": [window]}, indent=2).encode()


def _samples(_: Path) -> list[Sample]:
    demo = json.loads((tracebraid.demo_path() / "manifest_0.json").read_bytes())
    made = {"gpu": (gpu_rank(0), gpu_rank(1)), "demo": (demo_rank(0, 20), demo_rank(1, 20))}
    found = []
    for name, ranks in made.items():
        files: Files = {}
        for rank, traces in enumerate(ranks):
            of_rank = {f"kineto_trace_{rank}.json": traces.kineto, f"torch_et_{rank}.json": traces.et}
            files |= {**of_rank, f"manifest_{rank}.json": manifest_of(rank, of_rank, demo)}
        found.append(Sample(name, files))
        packed = {
            f"{path}.gz": gzip.compress(data, mtime=0)
            for path, data in files.items()
            if "manifest" not in path
        }
        found.append(Sample(f"{name} packed", packed))
        windows = {f"window_{window}/{path}": data for window in (0, 1) for path, data in files.items()}
        found.append(
            Sample(f"{name} windows", {path: data for path, data in windows.items() if "_1.json" not in path})
        )
    misled = gpu_rank(0)
    misled.nodes = misled_nodes(misled.nodes)
    found.append(Sample("misled", {"kineto_trace_0.json": misled.kineto, "torch_et_0.json": misled.et}))
    return found


def file_removed(files: Files, rng: random.Random) -> Files:
    """A file is missing."""
    gone = rng.choice(sorted(files))
    return {path: data for path, data in files.items() if path != gone} or files


def file_renamed(files: Files, rng: random.Random) -> Files:
    """A file has another name."""
    old = rng.choice(sorted(files))
    new = rng.choice(_NAMES).format(n=rng.choice((0, 1, 2, 7, 1000000)))
    others = {path: data for path, data in files.items() if path != old}
    return files if any(_clash(new, path) for path in others) else {**others, new: files[old]}


def file_copied(files: Files, rng: random.Random) -> Files:
    """A file stands there twice, under another name or in a folder of another window or run."""
    name = rng.choice(sorted(files))
    new = rng.choice((*_NAMES, f"window_1/{name}", f"other/{name}")).format(n=rng.choice((0, 1, 2)))
    return {**files, new: files[name]} if not any(_clash(new, path) for path in files) else files


def contents_swapped(files: Files, rng: random.Random) -> Files:
    """Two files have each other's content."""
    if len(files) < 2:
        return files
    one, other = rng.sample(sorted(files), 2)
    return {**files, one: files[other], other: files[one]}


def runs_mixed(files: Files, rng: random.Random) -> Files:
    """Files of another run stand among them."""
    other = {f"kineto_trace_{rank}.json": gpu_rank(rank, 1).kineto for rank in (0, 1, 2)}
    name = rng.choice(sorted(other))
    return {**files, name: other[name]}


def file_emptied(files: Files, rng: random.Random) -> Files:
    """A file is empty, or something else."""
    content = rng.choice(
        (b"", b"\0", b"{}", b"[]", b"null", b"\x1f\x8b", b"PK\x03\x04", b'{"nodes": []}', b"x" * 5000)
    )
    return {**files, rng.choice(sorted(files)): content}


def manifest_changed(files: Files, rng: random.Random) -> Files:
    """Change a value of a manifest."""
    manifests = {path: data for path, data in files.items() if "manifest" in path}
    if not manifests:
        return files
    mutation = rng.choice((*JSON_VALUES, *JSON_VALUES, *JSON_TEXT, *RAW_BYTES))
    return {**files, **mutation(manifests, rng)}


def _clash(path: str, other: str) -> bool:
    """Return whether one of them would be a folder of the other."""
    return other.startswith(f"{path}/") or path.startswith(f"{other}/")


FOLDERS: tuple[Mutation, ...] = (
    *(file_removed, file_renamed, file_renamed, file_copied, contents_swapped, runs_mixed, file_emptied),
    *(manifest_changed, manifest_changed, manifest_changed),
)


FORMAT = Format(
    "capture_folder",
    _samples,
    (*FOLDERS, *FOLDERS, *JSON_VALUES, *JSON_VALUES, *JSON_TEXT, *RAW_BYTES),
    (),
    [LINK, CHECK, INFO, OPEN, LINK_COMMAND, TRACE_LINK, REPAIR, READ_ET, READ_TIMELINE],
)
