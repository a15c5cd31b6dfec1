"""Stores: size, writing, reading, and questions by the number of ranks."""

from __future__ import annotations

import dataclasses
import gzip
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec
import polars as pl
from msgspec.structs import replace

import tracebraid
from benchmarks.inputs import Given
from benchmarks.made_jobs import RankCopies, write_ranks
from benchmarks.measure import (
    Measured,
    Row,
    Target,
    command,
    in_process,
    row_of,
    side_by_side,
    task,
    typical,
)
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.store.answers.joined import Answered, join_answers, read_answers, write_answers
from tracebraid.store.manifest import FORMAT_VERSION, MANIFEST, Manifest, read_sealed, sealed

ROUNDS = 5
RANKS = 1024
MOST_SIZE = 1.2
MOST_WRITE = 1.5
MOST_READ = 0.1
MOST_OPEN_S = 0.3
"""The project's targets: the first three are shares of the compressed traces, and of the time of reading JSON."""


def store_rows(path: Path, folder: Path, rounds: int) -> list[Row]:
    """A row for each figure."""
    files = tracebraid.open(path).files[0]
    assert files.kineto is not None, "a job has a Kineto trace"
    kineto, target = files.kineto, folder / "job.tbstore"

    def pack() -> None:
        tracebraid.pack(path, target, engine="in-process", from_scratch=True)

    def linked() -> LinkedTrace:
        return tracebraid.open(target)[files.rank]

    subjects: dict[str, Callable[[], object]] = {
        "read JSON": lambda: read_timeline(kineto),
        "pack": pack,
        "read store": lambda: dict(linked().timeline.tables),
        "with links": lambda: dict(linked().compute_all().timeline.tables),
    }
    taken = {name: took.seconds for name, took in in_process(subjects, rounds).items()}
    size = _size_of(target) / _compressed_size(path)
    write_s = taken["pack"] - len(tracebraid.open(path).ranks) * taken["read JSON"]
    ranks = len(tracebraid.open(path).ranks)
    share_written, share_read = (
        write_s / ranks / taken["read JSON"],
        taken["read store"] / taken["read JSON"],
    )
    many = folder / "many.tbstore"
    _many_ranks(target, many)
    open_s = in_process({"open": lambda: tracebraid.open(many)}, rounds)["open"].seconds
    return [
        Row("store", "size", figures={"of gzip": size}, target=Target(f"{MOST_SIZE}", size <= MOST_SIZE)),
        Row("store", "read JSON", taken["read JSON"]),
        Row("store", "pack", taken["pack"]),
        Row(
            "store",
            "write",
            write_s,
            figures={"of read JSON": share_written},
            target=Target(f"{MOST_WRITE}", share_written <= MOST_WRITE),
        ),
        Row(
            "store",
            "read store",
            taken["read store"],
            figures={"of read JSON": share_read},
            target=Target(f"{MOST_READ}", share_read <= MOST_READ),
        ),
        Row("store", "with links", taken["with links"]),
        Row(
            "store", f"open {RANKS:,} ranks", open_s, target=Target(f"{MOST_OPEN_S} s", open_s <= MOST_OPEN_S)
        ),
    ]


def _size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _compressed_size(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
    return sum(
        file.stat().st_size if file.suffix == ".gz" else len(gzip.compress(file.read_bytes()))
        for file in files
    )


def _many_ranks(store: Path, many: Path) -> None:
    """A manifest of many ranks, each with the facts of the first."""
    many.mkdir()
    manifest, _ = read_sealed(store / MANIFEST, Manifest)
    entries = tuple(msgspec.structs.replace(manifest.ranks[0], rank=rank) for rank in range(RANKS))
    (many / MANIFEST).write_bytes(sealed(msgspec.structs.replace(manifest, ranks=entries)))


def store(given: Given) -> list[Row]:
    """A store's size by that of the compressed traces; writing, reading and opening by the time of reading JSON.

    `read JSON` is the Kineto trace of the first rank, decoded in this process; `write` is `pack` without reading;
    `read store` is the same tables from the store, `with links` all stages; `open` is a store of 1,024 ranks with
    a complete manifest.
    """
    return store_rows(given.timeline, given.folder, given.rounds)


QUESTIONS = (
    *("analyze breakdown", "analyze step_times", "analyze ops", "analyze collectives", "analyze stragglers"),
    *("analyze rank_waits", "metrics", "advise", "summary"),
)


def repeated(source: Path, target: Path, ranks: int) -> Path:
    """A store of many ranks, of which only the answers are there."""
    target.mkdir()
    manifest, _ = read_sealed(source / MANIFEST, Manifest)
    found = [answers for entry in manifest.ranks if (answers := read_answers(source, entry.rank)) is not None]
    entries = []
    for rank in range(ranks):
        of_rank, entry = found[rank % len(found)], manifest.ranks[rank % len(found)]
        renamed: dict[str, Answered] = {}
        for key, (answer, touched) in of_rank.answers.items():
            table = answer
            if isinstance(answer, pl.DataFrame):
                table = answer.with_columns(pl.col(of_rank.categories[key]).cast(pl.Categorical))
                if "rank" in table.columns:
                    table = table.with_columns(pl.lit(rank, dtype=table.schema["rank"]).alias("rank"))
            renamed[key] = table, touched
        path = f"{of_rank.facts.path}.{rank}"
        write_answers(target, rank, msgspec.structs.replace(of_rank.facts, rank=rank, path=path), renamed)
        assert entry.kineto is not None, "the demo has Kineto traces"
        entries.append(msgspec.structs.replace(entry, rank=rank, kineto=replace(entry.kineto, path=path)))
    descriptions = {entry.rank: str(entry.sha256) for entry in entries}
    join_answers(target, descriptions, (FORMAT_VERSION, manifest.options.writer))
    (target / MANIFEST).write_bytes(sealed(msgspec.structs.replace(manifest, ranks=tuple(entries))))
    return target


def stored_answers(given: Given) -> Iterator[Row]:
    """Questions to a store in which the answers of the demo's ranks stand for many ranks; each is a whole command."""
    packed = given.folder / "demo.tbstore"
    tracebraid.pack(tracebraid.demo_path(), packed)
    for ranks in given.ranks:
        many = repeated(packed, given.folder / f"answers{ranks}.tbstore", ranks)
        yield row_of("stored_answers", f"opening again, {ranks:,} ranks", task("tasks:open_store", many))
        subjects = {
            question: partial(
                command, [sys.executable, "-m", "tracebraid", *question.split(), str(many), "--json"]
            )
            for question in QUESTIONS
        }
        for question, runs in side_by_side(subjects, given.rounds).items():
            yield row_of("stored_answers", question, typical(runs))


_QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "summary": ("summary",),
    "collectives": ("analyze", "collectives"),
    "stragglers": ("analyze", "stragglers"),
    "again": ("analyze", "stragglers"),
    "metrics": ("metrics",),
    "report": ("report",),
}
_LEAST = 2
"""Ranks of the job whose time is taken to be that of starting."""


def rows_of_part(part: str, runs: Mapping[int, Measured]) -> Iterator[Row]:
    """A row for each number of ranks."""
    start_s = runs[_LEAST].cpu_seconds
    of_rank = {
        ranks: (run.cpu_seconds - start_s) / (ranks - _LEAST)
        for ranks, run in sorted(runs.items())
        if ranks > _LEAST
    }
    fewest = next(iter(of_rank.values()))
    for ranks, seconds in of_rank.items():
        run = runs[ranks]
        figures = {"ms a rank": seconds * 1e3, "to the fewest": seconds / fewest if fewest > 0 else 1.0}
        yield Row(
            "scale", f"{part}, {ranks:,} ranks", run.seconds, run.cpu_seconds, run.peak_bytes or None, figures
        )


def _measured(folder: Path, ranks: int, given: Given) -> Iterator[tuple[str, Measured]]:
    traces, store = folder / "traces", folder / "job.tbstore"
    copies = RankCopies(ranks, steps=given.steps)
    if given.trace is not None:
        copies = dataclasses.replace(copies, trace=given.trace, et=None)
    write_ranks(copies, traces)
    engine = ("--engine", given.engine)
    packed = command(_words("pack", str(traces), "-o", str(store), *engine))
    for part in given.only or ():
        if part == "pack":
            yield part, packed
        elif part == "open":
            yield part, task("tasks:open_store", store)
        else:
            page = ("-o", str(folder / "report.html")) if part == "report" else ()
            yield part, command(_words(*_QUESTIONS[part], str(store), *engine, *page))


def scale(given: Given) -> list[Row]:
    """A store by the number of its ranks, in processor time beyond that of two ranks: packing, opening, questions.

    `ms a rank` is the time by the ranks beyond these two, `to the fewest` that to the one of the smallest job: 1 is
    linear. `again` asks the question before it once more."""
    runs: dict[str, dict[int, Measured]] = {part: {} for part in given.only or ()}
    for ranks in sorted({_LEAST, *given.ranks}):
        for part, measured in _measured(given.folder / f"scale{ranks}", ranks, given):
            runs[part][ranks] = measured
    return [row for part, found in runs.items() for row in rows_of_part(part, found)]


def _words(*words: str) -> list[str]:
    return [sys.executable, "-m", "tracebraid", *words]
