"""Changes of what traces say about the job: ranks, world, process groups, collectives; and which files there are."""

from __future__ import annotations

import json
import random

from tools.fuzz.model import Files, Mutation
from tools.fuzz.mutations.trace_files import BIG, ODD, Change, Json, some

__all__ = ["FILES", "RANKS"]

_RANKS = (0, 1, 2, -1, 7, 2**31, 2**63 - 1, 2**63, "0", "x", None, 0.0, 1.5, True, [0])
_COLLECTIVE = (
    "Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "In split size", "Out split size",
    "Global rank start", "Global rank stride", "Process Group Name", "Process Group Description",
    "Process Group Ranks", "Seq", "Comms Id", "Src Rank", "Dst Rank",
)  # fmt: skip
_COLLECTIVE_VALUES = (
    *ODD, *BIG, "allreduce", "_allgather_base", "send", "recv", "all_to_allv", "coalesced", "wait", "Float", "BFloat16",
    "Bool", "[0, 1]", "[0, ...]", "[1, 0]", "[0, 0]", "[9]", "[3, 5]", "[-1]", "[99999999999999999999]",
)  # fmt: skip


def rank(data: Json, rng: random.Random) -> None:
    """The trace is of another rank, of none, or says no rank."""
    info = data.setdefault("distributedInfo", {})
    info["rank"] = rng.choice(_RANKS)
    if rng.random() < 0.1:
        del data["distributedInfo"]


def world(data: Json, rng: random.Random) -> None:
    """The world is of another size than there are ranks."""
    data.setdefault("distributedInfo", {})["world_size"] = rng.choice((*_RANKS, 3, 1_000_000))


def groups(data: Json, rng: random.Random) -> None:
    """The process groups are others than those of the other ranks."""
    config = data.get("distributedInfo", {}).get("pg_config") or [{}]
    key = rng.choice(("pg_name", "pg_desc", "pg_size", "ranks", "backend_config"))
    value = rng.choice(
        (*ODD, [0], [1, 0], [0, 0], [0, 1, 2], ["0"], [-1], [2**63], "0", "pair", list(range(1000)))
    )
    for group in some(config, rng):
        group[key] = value
    data.setdefault("distributedInfo", {})["pg_config"] = config * rng.choice((1, 1, 1, 0, 2))


def _collectives(data: Json) -> list[Json]:
    return [event for event in data["traceEvents"] if "Collective name" in event.get("args", {})]


def collectives(data: Json, rng: random.Random) -> None:
    """Collectives say of themselves what those of other ranks do not."""
    key, value = rng.choice(_COLLECTIVE), rng.choice(_COLLECTIVE_VALUES)
    for event in some(_collectives(data), rng):
        event["args"][key] = value


def collectives_lack(data: Json, rng: random.Random) -> None:
    """Collectives do not say something of themselves."""
    key = rng.choice(_COLLECTIVE)
    for event in some(_collectives(data), rng):
        event["args"].pop(key, None)


def collectives_gone(data: Json, rng: random.Random) -> None:
    """Some collectives were not recorded."""
    gone = [id(event) for event in some(_collectives(data), rng)]
    data["traceEvents"] = [event for event in data["traceEvents"] if id(event) not in gone]


def rank_gone(files: Files, rng: random.Random) -> Files:
    """A file is missing."""
    gone = rng.choice(sorted(files))
    return {path: data for path, data in files.items() if path != gone or len(files) == 1}


def rank_twice(files: Files, rng: random.Random) -> Files:
    """A file is there under the name of another rank, or of another kind of number."""
    path = rng.choice(sorted(files))
    stem = path.rpartition("_")[0]
    return {**files, f"{stem}_{rng.choice((0, 1, 2, 3, 7, '01', 2**63, '-1'))}.json": files[path]}


def swapped_ranks(files: Files, rng: random.Random) -> Files:
    """Two files of a kind have each other's names."""
    kind = rng.choice(("kineto_trace", "torch_et", "manifest"))
    paths = [path for path in sorted(files) if path.startswith(kind)]
    if len(paths) < 2:
        return files
    first, second = rng.sample(paths, 2)
    return {**files, first: files[second], second: files[first]}


def manifest(files: Files, rng: random.Random) -> Files:
    """A manifest says something odd."""
    path = rng.choice([path for path in sorted(files) if path.startswith("manifest")] or [""])
    if not path:
        return files
    data = json.loads(files[path])
    data[rng.choice(sorted(data))] = rng.choice((*ODD, *_RANKS))
    return {**files, path: json.dumps(data).encode()}


RANKS: tuple[Change, ...] = (
    rank,
    world,
    groups,
    collectives,
    collectives,
    collectives_lack,
    collectives_gone,
)
FILES: tuple[Mutation, ...] = (rank_gone, rank_twice, swapped_ranks, manifest)
