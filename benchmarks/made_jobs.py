"""Jobs of many ranks, made of one recorded rank, as files and in memory."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import resource
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import Measured, Stopwatch
from tracebraid.model.engine import Job
from tracebraid.model.timeline import Timeline

RANKS_PER_HOST = 8
SKEW_NS = 3_000_000
"""By how much the clock of each host is ahead of that of the host before it."""
_LATE_NS = 150_000
"""By how much a rank's events may be late: each has its own amount below that, so that there is something to find."""


def job_of_copies(timeline: Timeline, ranks: int) -> Job:
    """A job whose ranks are copies of one trace, each with its rank, its host's clock and its lateness."""
    import polars as pl

    from tracebraid.linking.link_traces import link_traces
    from tracebraid.model.engine import Job
    from tracebraid.model.rank_files import RankFiles

    def load(files: RankFiles, _: object) -> Any:
        moved = files.rank // RANKS_PER_HOST * SKEW_NS + files.rank * 7919 % _LATE_NS
        tables = {
            name: table.with_columns(pl.col("ts_ns") + moved) if "ts_ns" in table.columns else table
            for name, table in timeline.tables.items()
        }
        return link_traces(replace(timeline, rank=files.rank, world_size=ranks, tables=tables))

    return Job("copies", tuple(RankFiles(rank, "copy", None) for rank in range(ranks)), load)


def _questions() -> dict[str, Callable[[Any], object]]:
    import tracebraid
    from tracebraid.analysis.catalog import job_analyses

    asked: dict[str, Callable[[Any], object]] = {
        analysis.name: getattr(tracebraid.analyses, analysis.name) for analysis in job_analyses()
    }
    return {**asked, "metrics": tracebraid.metrics, "advise": tracebraid.advise}


def _kept_bytes(job: Job) -> dict[str, float]:
    """Bytes of the tables that the job keeps, by the name of the function that took them."""
    import polars as pl

    sums: dict[str, float] = defaultdict(float)
    for (_, key), kept in job._taken.items():
        question = key[0] if isinstance(key, tuple) else key
        if isinstance(kept, pl.DataFrame):
            sums[f"bytes {getattr(question, '__name__', question)}"] += int(kept.estimated_size())
    return dict(sums)


def whole_job(path: str, ranks: str) -> Measured:
    """Ask all questions of a job of copies."""
    from tracebraid import demo_path, read_timeline

    questions = _questions()
    small = job_of_copies(read_timeline(demo_path() / "kineto_trace_0.json.gz"), 2)
    for ask in questions.values():
        ask(small)
    timeline = read_timeline(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whole, parts = Stopwatch(), {}
    job = job_of_copies(timeline, int(ranks))
    for occasion in ("first", "again"):
        for name, ask in questions.items():
            watch = Stopwatch()
            ask(job)
            parts[f"{occasion} {name}"] = watch.stop().seconds
    for name in ("advise", "metrics"):
        watch = Stopwatch()
        questions[name](job_of_copies(timeline, int(ranks)))
        parts[f"alone {name}"] = watch.stop().seconds
    parts |= _kept_bytes(job)
    parts["peak before"] = before
    return replace(whole.stop(), parts=parts)


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
    """Ranks to write."""

    ranks: int  # how many
    trace: Path = _DEMO / "kineto_trace_0.json.gz"  # the Kineto trace that they are copies of
    et: Path | None = _DEMO / "torch_et_0.json.gz"  # its Execution Trace; None: the ranks have none
    steps: int | None = None  # how many profiler steps of the trace are copied; None: all


def write_ranks(copies: RankCopies, folder: Path) -> None:
    """Write the files of all ranks."""
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
    """Return whether it is the transfer of a collective."""
    name = event["name"].lower()
    return event["ph"] == "X" and (name.startswith("gloo:") or (event["cat"] == "kernel" and "nccl" in name))


def _kinds(events: Sequence[_Json]) -> dict[int, int]:
    """Numbers of the `_groups` of collectives, by their elements; empty where events do not name their groups."""
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


_RANK_MEMBER = re.compile(rb'("rank": ?)\d+')


def ranks_in(folder: Path, source: Path, ranks: int) -> Path:
    """A folder of ranks, each a copy of a trace with its own number."""
    folder.mkdir()
    text = gzip.decompress(source.read_bytes())
    for rank in range(ranks):
        own = _RANK_MEMBER.sub(rb"\g<1>%d" % rank, text, count=1)
        (folder / f"kineto_trace_{rank}.json").write_bytes(own)
    return folder


_RANK_OF_WORLD = re.compile(
    rb'("distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*)\d+([^{}]*?"world_size"\s*:\s*)\d+'
)


def write_job(trace: Path, folder: Path, ranks: int, packed: bool = True) -> None:
    """Write a trace for each rank: gzip members for what is the rank's own and for the rest, which is packed once."""
    raw = trace.read_bytes()
    text = gzip.decompress(raw) if trace.suffix == ".gz" else raw
    found = _RANK_OF_WORLD.search(text)
    if found is None:
        raise ValueError(f"{trace} has no distributedInfo with rank and world_size")
    pack = partial(gzip.compress, compresslevel=1) if packed else bytes
    before, after = (pack(part) for part in (text[: found.start()], text[found.end() :]))
    for rank in range(ranks):
        clock = b'"baseTimeNanoseconds": %d, ' % (rank // RANKS_PER_HOST * SKEW_NS)
        own = clock + found[1] + b"%d" % rank + found[2] + b"%d" % ranks
        name = f"kineto_trace_{rank}.json" + (".gz" if packed else "")
        (folder / name).write_bytes(before + pack(own) + after)


if __name__ == "__main__":
    main()
