"""What a question takes of a store of many ranks: `python -m benchmarks.stored_answers`.

The demo is packed, and what was answered of its two ranks stands for as many ranks as are asked for. A question is a
command in a process of its own, from its start to its end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl

import tracebraid
from tracebraid.store.answers.joined import join_answers
from tracebraid.store.answers.rank_answers import read_answers, write_answers
from tracebraid.store.layout import FORMAT_VERSION, MANIFEST
from tracebraid.store.manifest import Manifest
from tracebraid.store.sealed_json import read_sealed, sealed

QUESTIONS = (
    *("analyze breakdown", "analyze step_times", "analyze ops", "analyze collectives", "analyze stragglers"),
    *("analyze rank_waits", "metrics", "advise", "summary"),
)


def main() -> None:
    """Print the time of each question, and of opening the store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3, help="the fastest counts")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tracebraid.pack(tracebraid.demo_path(), Path(folder) / "demo.tbstore")
        store = repeated(Path(folder) / "demo.tbstore", Path(folder) / "many.tbstore", given.ranks)
        start = time.perf_counter()
        tracebraid.open(store)
        print(f"{'opening, in an open process':30} {time.perf_counter() - start:6.2f} s")
        for question in QUESTIONS:
            taken = [timed([*question.split(), str(store), "--json"]) for _ in range(given.rounds)]
            wall_s, cpu_s = min(taken)
            print(f"{question:30} {wall_s:6.2f} s, CPU {cpu_s:.2f} s")


def repeated(source: Path, target: Path, ranks: int) -> Path:
    """A store of many ranks, of which only the answers are there."""
    target.mkdir()
    manifest, _ = read_sealed(source / MANIFEST, Manifest)
    found = [answers for entry in manifest.ranks if (answers := read_answers(source, entry.rank)) is not None]
    entries = []
    for rank in range(ranks):
        of_rank, entry = found[rank % len(found)], manifest.ranks[rank % len(found)]
        kept = {}
        for key, (answer, touched) in of_rank.answers.items():
            table = answer
            if isinstance(answer, pl.DataFrame):
                table = answer.with_columns(pl.col(of_rank.categories[key]).cast(pl.Categorical))
                if "rank" in table.columns:
                    table = table.with_columns(pl.lit(rank, dtype=table.schema["rank"]).alias("rank"))
            kept[key] = table, touched
        path = f"{of_rank.facts.path}.{rank}"
        write_answers(target, rank, msgspec.structs.replace(of_rank.facts, rank=rank, path=path), kept)
        assert entry.kineto is not None, "the demo has Kineto traces"
        entries.append(msgspec.structs.replace(entry, rank=rank, kineto=replace(entry.kineto, path=path)))
    descriptions = {entry.rank: str(entry.sha256) for entry in entries}
    join_answers(target, descriptions, (FORMAT_VERSION, manifest.options.writer))
    (target / MANIFEST).write_bytes(sealed(msgspec.structs.replace(manifest, ranks=tuple(entries))))
    return target


def timed(arguments: list[str]) -> tuple[float, float]:
    """Wall and CPU time of a command, in s."""
    before, start = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "tracebraid", *arguments], check=False, capture_output=True)
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, cpu_s


if __name__ == "__main__":
    main()
