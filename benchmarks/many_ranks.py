"""Write a job of many ranks, each like one recorded rank.

    python -m benchmarks.many_ranks FOLDER --ranks 1024 [--trace FILE] [--steps 1]

Each rank is a copy of a Kineto trace with its own rank and host, the clock of its host, its own lateness in every
collective, and its own process groups: where the trace's events name theirs, collectives of different sizes belong to
the world, to the 8 ranks of a host (tensor parallel), or to the 8 ranks of the same place on 8 neighbouring hosts (data
parallel). The bundled trace comes with its Execution Trace. The same arguments write the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.whole_job_task import RANKS_PER_HOST, SKEW_NS

__all__ = ["RankCopies", "write_ranks"]

_DEMO = Path(__file__).resolve().parents[1] / "src/tracebraid/demo_traces/ddp_cpu_2rank"
_LATE_US = 150
"""By how much a rank may be late for a collective."""
_RANKS, _SIZE = "Process Group Ranks", "Group size"
_BASE = "baseTimeNanoseconds"
_HOSTS_PER_BLOCK = 8
"""Data-parallel groups reach over that many hosts."""

_Json = dict[str, Any]


@dataclass(frozen=True)
class RankCopies:
    """Ranks to write.

    Args:
        ranks: how many.
        trace: the Kineto trace that they are copies of.
        et: its Execution Trace; None: the ranks have none.
        steps: how many profiler steps of the trace are copied; None: all.
    """

    ranks: int
    trace: Path = _DEMO / "kineto_trace_0.json.gz"
    et: Path | None = _DEMO / "torch_et_0.json.gz"
    steps: int | None = None


def write_ranks(copies: RankCopies, folder: Path) -> None:
    """Write the files of all ranks.

    Raises:
        ValueError: the trace has no `baseTimeNanoseconds` or `distributedInfo`, by which ranks and clocks are set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    header, events = _read(copies)
    kinds = _kinds(events)
    parts = list(_parts(events))
    et = b"" if copies.et is None else _execution_trace(copies.et, copies.ranks)
    for rank in range(copies.ranks):
        groups = _groups(rank, copies.ranks)
        texts = [
            part if isinstance(part, str) else json.dumps(_own(part, number, rank, (groups, kinds)))
            for number, part in enumerate(parts)
        ]
        head = json.dumps(_header(header, rank, copies.ranks, groups if kinds else groups[:1]))
        text = f'{head[:-1]}, "traceEvents": [\n' + ",\n".join(texts) + "\n]}"
        path = folder / f"kineto_trace_{rank}.json.gz"
        path.write_bytes(gzip.compress(text.encode(), 1, mtime=0))
        if et:
            (folder / f"torch_et_{rank}.json.gz").write_bytes(et)


def _read(copies: RankCopies) -> tuple[_Json, list[_Json]]:
    """The header, and the events of the steps."""
    raw = copies.trace.read_bytes()
    file = json.loads(gzip.decompress(raw) if copies.trace.suffix == ".gz" else raw)
    events = file.pop("traceEvents")
    if _BASE not in file or "distributedInfo" not in file:
        raise ValueError(f"{copies.trace} has no {_BASE} or no distributedInfo")
    steps = sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["name"].startswith("ProfilerStep") and event["cat"] == "user_annotation"
    )
    if copies.steps is not None and copies.steps < len(steps):
        first, last = steps[0][0], steps[copies.steps - 1][1]
        events = [event for event in events if event["ph"] == "M" or first <= event["ts"] < last]
    return file, events


def _names_groups(event: _Json) -> bool:
    return bool(event.get("args", {}).get(_SIZE, 1) > 1)


def _moves(event: _Json) -> bool:
    """Whether it is the transfer of a collective."""
    name = event["name"].lower()
    return event["ph"] == "X" and (name.startswith("gloo:") or (event["cat"] == "kernel" and "nccl" in name))


def _kinds(events: Sequence[_Json]) -> dict[int, int]:
    """Which of `_groups` a collective belongs to, by its elements; empty where events do not name their groups."""
    sizes = {event["args"]["In msg nelems"] for event in events if _names_groups(event)}
    return {size: number % 3 for number, size in enumerate(sorted(sizes))}


def _parts(events: Sequence[_Json]) -> Iterator[str | _Json]:
    """The text of what is alike on all ranks; the events that are not."""
    alike: list[str] = []
    for event in events:
        if not (_names_groups(event) or _moves(event)):
            alike.append(json.dumps(event))
            continue
        if alike:
            yield ",\n".join(alike)
            alike = []
        yield event
    if alike:
        yield ",\n".join(alike)


def _groups(rank: int, ranks: int) -> list[_Json]:
    """The process groups of a rank: all ranks, those of its host, and those of its place on the hosts of its block."""
    host, place = divmod(rank, RANKS_PER_HOST)
    block = host // _HOSTS_PER_BLOCK * _HOSTS_PER_BLOCK
    hosts = range(block, block + _HOSTS_PER_BLOCK)
    first = host * RANKS_PER_HOST
    named = (
        ("0", "default_pg", range(ranks)),
        (str(1 + host), "tp", range(first, min(first + RANKS_PER_HOST, ranks))),
        (f"{1000 + block + place}", "dp", [r for h in hosts if (r := h * RANKS_PER_HOST + place) < ranks]),
    )
    return [
        {"pg_name": name, "pg_desc": text, "pg_size": len(members), "ranks": list(members)}
        for name, text, members in named
    ]


def _own(event: _Json, number: int, rank: int, kinds: tuple[list[_Json], dict[int, int]]) -> _Json:
    """An event with the rank's group and lateness."""
    groups, kind_of = kinds
    event = {**event, "args": dict(event["args"])}
    if _names_groups(event):
        group = groups[kind_of[event["args"]["In msg nelems"]]]
        event["args"] |= {
            "Process Group Name": group["pg_name"],
            "Process Group Description": group["pg_desc"],
            _RANKS: _short(group["ranks"]),
            _SIZE: group["pg_size"],
        }
    if _moves(event):
        late_us = (rank * 7919 + number * 104_729) % min(_LATE_US, max(1, int(event["dur"] / 2)))
        event["ts"] = round(event["ts"] + late_us, 3)
        event["dur"] = round(event["dur"] - late_us, 3)
    return event


def _short(ranks: list[int]) -> str:
    """The ranks as PyTorch writes them: of many, it leaves out those in the middle."""
    shown = list(map(str, ranks))
    return "[" + ", ".join(shown if len(shown) <= 32 else [*shown[:30], "...", shown[-1]]) + "]"


def _header(header: _Json, rank: int, ranks: int, groups: list[_Json]) -> _Json:
    host = rank // RANKS_PER_HOST
    backend = {
        key: value
        for key, value in header["distributedInfo"]["pg_config"][0].items()
        if key == "backend_config"
    }
    return {
        **header,
        "distributedInfo": {
            **header["distributedInfo"],
            "rank": rank,
            "world_size": ranks,
            "pg_count": len(groups),
            "pg_config": [{**group, **backend} for group in groups],
        },
        "host_name": f"host{host}",
        _BASE: header[_BASE] + host * SKEW_NS,
        "traceName": f"kineto_trace_{rank}.json.gz",
    }


def _execution_trace(path: Path, ranks: int) -> bytes:
    text = gzip.decompress(path.read_bytes()).replace(
        b'\\"group_size\\": 2', f'\\"group_size\\": {ranks}'.encode()
    )
    return gzip.compress(text, 6, mtime=0)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--trace", type=Path, help="a Kineto trace; without it the bundled pair")
    parser.add_argument("--steps", type=int, help="copy only the first steps of the trace")
    given = parser.parse_args(arguments)
    copies = RankCopies(given.ranks, steps=given.steps)
    if given.trace is not None:
        copies = RankCopies(given.ranks, given.trace, None, given.steps)
    write_ranks(copies, given.folder)


if __name__ == "__main__":
    main()
