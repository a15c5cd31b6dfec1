"""A call upon a folder of traces: ranks that come from a damaged cache are as they were read."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import polars as pl

import tracebraid
from tools.fuzz.calls.judged_tables import wrong
from tools.fuzz.model import Call, Files
from tools.fuzz.mutations.raw_bytes import RAW_BYTES
from tracebraid.errors import TracebraidError

__all__ = ["CACHED"]

_CACHE = ".tracebraid-cache"


def _cached(folder: Path, rng: random.Random) -> None:
    traces = folder / "out" / "cached"
    traces.mkdir(parents=True)
    for path in folder.iterdir():
        if path.is_file():
            shutil.copyfile(path, traces / path.name)
    first = _read(traces)
    cache = traces / _CACHE
    found = sorted(path for path in cache.rglob("*") if path.is_file()) if cache.is_dir() else []
    if not found:
        return
    files: Files = {str(path.relative_to(cache)): path.read_bytes() for path in found}
    for name, data in rng.choice(RAW_BYTES)(files, rng).items():
        if files.get(name) != data:
            (cache / name).parent.mkdir(parents=True, exist_ok=True)
            (cache / name).write_bytes(data)
    again = _read(traces)
    if first.keys() != again.keys():
        raise wrong(f"with a damaged cache other ranks are read: {sorted(first)}, {sorted(again)}")
    for rank, tables in first.items():
        for name, table in tables.items():
            if not table.equals(again[rank][name]):
                raise wrong(f"with a damaged cache {name} of rank {rank} are others")


def _read(traces: Path) -> dict[int, dict[str, pl.DataFrame]]:
    """Some tables of the ranks that can be read, by the number of their files."""
    found = {}
    job = tracebraid.open(traces, cache=True)
    for rank in job.ranks:
        try:
            linked = job[rank]
            found[rank] = {
                "events": linked.timeline.events,
                "host_links": linked.host_links,
                "dependencies": linked.dependencies,
            }
        except TracebraidError:
            continue
    return found


CACHED = Call("tracebraid.open cache=True", _cached)
