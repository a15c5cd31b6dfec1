"""What checking and counting `.et` files cost.

    python -m benchmarks.chakra_check [--nodes 200000] [--ranks 4] [--rounds 3]

Each rank is a chain of nodes that wait for the one before and for the one seven before, every tenth a collective; the
files are written first. Each call runs in a process of its own, start-up apart.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

import tracebraid
from tracebraid.model.schema.chakra import CHAKRA_NODES

__all__: list[str] = []

_EVERY = 10
_MEASURE = """
import resource, sys, time, tracebraid
tracebraid.{call}(sys.argv[2])
began, used = time.perf_counter(), time.process_time()
tracebraid.{call}(sys.argv[1])
print(time.perf_counter() - began, time.process_time() - used, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
"""A small job first: what is measured is neither imports nor the compilation of loops."""


def rank_of(number: int, nodes: int) -> tracebraid.ChakraRank:
    """A rank of so many nodes."""
    ids = np.arange(nodes)
    is_collective = pl.col("node_id") % _EVERY == _EVERY - 1
    kind = pl.when(is_collective).then(pl.lit("COMM_COLL_NODE")).otherwise(pl.lit("COMP_NODE"))
    table = pl.DataFrame({"node_id": ids}).with_columns(
        name=pl.format("kernel {}", pl.col("node_id") % 50),
        type=kind,
        duration_micros=pl.lit(3),
        comm_type=pl.when(is_collective).then(pl.lit("ALL_REDUCE")),
        comm_size=pl.when(is_collective).then(pl.lit(1024)),
    )
    before = np.concatenate([ids[:-1], ids[:-7]])
    after = np.concatenate([ids[1:], ids[7:]])
    deps = tracebraid.NodeDeps.of_pairs(before, after, ids)
    none = tracebraid.NodeDeps.none(nodes)
    return tracebraid.ChakraRank(
        number, "0.0.4", (), CHAKRA_NODES.conform(table, fill_missing=True), deps, none
    )


def write_job(folder: Path, ranks: int, nodes: int) -> Path:
    """A job of so many ranks."""
    folder.mkdir()
    for number in range(ranks):
        tracebraid.write_chakra(folder / f"job.{number}.et", rank_of(number, nodes))
    return folder


def measured(call: str, job: Path, small: Path, rounds: int) -> tuple[float, float, float]:
    """Seconds, seconds of processors, and the peak of memory in MB of a call."""
    found = []
    for _ in range(rounds):
        command = [sys.executable, "-c", _MEASURE.format(call=call), str(job), str(small)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append([float(number) for number in done.stdout.split()])
    seconds, processor, kilobytes = zip(*found, strict=True)
    return median(seconds), median(processor), max(kilobytes) / 1024


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        job = write_job(Path(folder) / "job", options.ranks, options.nodes)
        small = write_job(Path(folder) / "small", 2, 100)
        for call in ("check_chakra", "chakra_stats"):
            seconds, processor, megabytes = measured(call, job, small, options.rounds)
            rate = options.ranks * options.nodes / seconds
            print(
                f"{call}: {seconds:.2f} s ({processor:.2f} s of processors), {rate:,.0f} nodes/s, {megabytes:,.0f} MB"
            )


if __name__ == "__main__":
    main()
