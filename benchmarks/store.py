"""Measure a store: its size beside that of the compressed traces, and how long it takes to write and to read.

    python -m benchmarks.store [PATH] [--rounds 5] [--json]

Each figure is the median of the rounds, which take turns in this process after one that does not count. `read JSON` is
the Kineto trace of the first rank, decoded in this process alone; `pack` reads, links and writes it, and `write` is
what of that is not reading; `read store` is the same tables of the timeline from the store, and `with links` all of
its stages, too. `size` is that of all files of the store over those of the traces, compressed by gzip where they are
not. `open` is a store of 1,024 ranks with a complete manifest. Without PATH, the 54 MB trace is measured.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import msgspec

import tracebraid
from benchmarks.inputs import Inputs, find_real_traces
from benchmarks.table import Row, Target, as_json, as_table
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.store.layout import MANIFEST
from tracebraid.store.manifest import Manifest
from tracebraid.store.sealed_json import read_sealed, sealed

__all__ = ["rows_of"]

ROUNDS = 5
RANKS = 1024
MOST_SIZE = 1.2
MOST_WRITE = 1.5
MOST_READ = 0.1
MOST_OPEN_S = 0.3
"""The project's targets: the first three are shares of the compressed traces, and of the time of reading JSON."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        path = given.path or Inputs(Path(made), find_real_traces(given.traces)).timeline()
        rows = rows_of(path, Path(made), given.rounds)
    print(as_json(rows) if given.json else as_table(rows))


def rows_of(path: Path, folder: Path, rounds: int) -> list[Row]:
    """A row for each figure.

    Args:
        path: a folder of traces, or one.
        folder: where stores are made.
        rounds: how often each is measured.
    """
    files = tracebraid.open(path).files[0]
    assert files.kineto is not None, "a job has a Kineto trace"
    kineto, store = files.kineto, folder / "job.tbstore"

    def pack() -> None:
        tracebraid.pack(path, store, engine="in-process", from_scratch=True)

    def linked() -> LinkedTrace:
        return tracebraid.open(store)[files.rank]

    subjects: dict[str, Callable[[], object]] = {
        "read JSON": lambda: read_timeline(kineto, 1),
        "pack": pack,
        "read store": lambda: dict(linked().timeline.tables),
        "with links": lambda: dict(linked().compute_all().timeline.tables),
    }
    taken = _side_by_side(subjects, rounds)
    size = _size_of(store) / _compressed_size(path)
    write_s = taken["pack"] - len(tracebraid.open(path).ranks) * taken["read JSON"]
    ranks = len(tracebraid.open(path).ranks)
    share_written, share_read = (
        write_s / ranks / taken["read JSON"],
        taken["read store"] / taken["read JSON"],
    )
    many = folder / "many.tbstore"
    _many_ranks(store, many)
    open_s = _side_by_side({"open": lambda: tracebraid.open(many)}, rounds)["open"]
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


def _side_by_side(subjects: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds + 1):
        print(f"  round {number} of {rounds}", file=sys.stderr)
        for name, subject in subjects.items():
            start = time.perf_counter()
            subject()
            taken[name].append(time.perf_counter() - start)
    return {name: median(seconds[1:]) for name, seconds in taken.items()}


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


if __name__ == "__main__":
    main()
