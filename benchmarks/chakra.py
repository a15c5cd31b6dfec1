"""Measure what is done with an `.et` file: how many nodes a second are written, read, made JSON and back, and fed.

    python -m benchmarks.chakra [FILE] [--nodes 200000] [--rounds 5] [--json]

Each figure is the median of the rounds, which take turns in this process after one that does not count: in it loops are
compiled, or read from disk. Nothing is measured in several processes. `protobuf` is bare parsing of all messages by the
protobuf package, with no field looked at, for comparison. Without FILE, a rank of `--nodes` kernels is made, with
as many attributes as an export has.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from benchmarks.table import Row, Target, as_json, as_table
from tracebraid import (
    ChakraRank,
    Feeder,
    NodeDeps,
    chakra_from_json,
    chakra_to_json,
    check_chakra,
    read_chakra,
    write_chakra,
)
from tracebraid.chakra.wire.frames import open_frames
from tracebraid.chakra.wire.messages import messages
from tracebraid.model.schema.chakra import CHAKRA_NODES

__all__ = ["made_rank", "rows_of"]

ROUNDS = 5
NODES = 200_000
COLLECTIVE_EVERY = 20
"""Nodes of a made rank from one collective to the next."""
LEAST_NODES_PER_S = {"write": 200_000, "read": 200_000, "json": 200_000, "check": 200_000}
"""The project's targets, on one core."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        rank = read_chakra(given.file) if given.file else made_rank(given.nodes)
        rows = rows_of(rank, Path(made), given.rounds)
    print(as_json(rows) if given.json else as_table(rows))


def rows_of(rank: ChakraRank, folder: Path, rounds: int) -> list[Row]:
    """A row for each thing that is done.

    Args:
        rank: what is written, read and so on.
        folder: where files are made.
        rounds: that count.
    """
    et, text, again = (folder / name for name in ("job.0.et", "job.json", "again.0.et"))
    subjects: dict[str, Callable[[], object]] = {
        "write": lambda: write_chakra(_absent(et), rank),
        "protobuf": lambda: _parsed(et),
        "read": lambda: read_chakra(et),
        "json": lambda: chakra_to_json(et, _absent(text)),
        "back": lambda: chakra_from_json(text, _absent(again)),
        "check": lambda: check_chakra(et),
        "feed": lambda: sum(1 for _ in Feeder(et)),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in subjects}
    for _ in range(rounds + 1):
        for name, subject in subjects.items():
            start, start_cpu = time.perf_counter(), time.process_time()
            subject()
            times[name].append((time.perf_counter() - start, time.process_time() - start_cpu))
    return [_row(name, found[1:], rank.nodes.height, et) for name, found in times.items()]


def made_rank(nodes: int) -> ChakraRank:
    """A rank of kernels and collectives in a chain, where each node waits for a second one further up, too."""
    row = np.arange(nodes)
    is_collective = row % COLLECTIVE_EVERY == 0
    texts = pl.DataFrame({"row": row}).select(
        name=pl.format("kernel_{}<float, at::native::vectorized_elementwise>", pl.col("row") % 300),
        op=pl.format("aten::op_{}", pl.col("row") % 50),
        module=pl.format("model.layers.{}.mlp", pl.col("row") % 48),
        shapes=pl.format("[[{},4096],[4096,{}]]", pl.col("row") % 64, pl.col("row") % 32),
    )
    frame = texts.with_columns(
        node_id=pl.Series(row),
        type=pl.when(pl.Series(is_collective)).then(pl.lit("COMM_COLL_NODE")).otherwise(pl.lit("COMP_NODE")),
        duration_micros=pl.Series(row % 97),
        duration_ns=pl.Series(row % 97 * 1000 + 3),
        is_cpu_op=pl.lit(False),
        comm_type=pl.when(pl.Series(is_collective)).then(pl.lit("ALL_REDUCE")),
        comm_size=pl.when(pl.Series(is_collective)).then(pl.lit(1 << 20)),
        num_ops=pl.Series(row * 1000),
        tensor_size=pl.Series(row * 128),
        kind=pl.lit("kernel"),
        et_node_id=pl.Series(row + 7),
        event_id=pl.Series(row + 9),
        step=pl.lit("ProfilerStep#4"),
        stream=pl.lit(7),
    )
    further = 7
    before, after = np.concatenate([row[:-1], row[:-further]]), np.concatenate([row[1:], row[further:]])
    deps = NodeDeps.of_pairs(before, after, row)
    return ChakraRank(
        0, "0.0.4", (), CHAKRA_NODES.conform(frame, fill_missing=True), deps, NodeDeps.none(nodes)
    )


def _row(name: str, times: Sequence[tuple[float, float]], nodes: int, et: Path) -> Row:
    seconds, cpu_seconds = (median(column) for column in zip(*times, strict=True))
    speed = nodes / seconds
    least = LEAST_NODES_PER_S.get(name)
    target = None if least is None else Target(f"{least:,} nodes/s", speed >= least)
    figures = {"nodes_per_s": speed, "MB": et.stat().st_size / 1e6}
    return Row("chakra", name, seconds, cpu_seconds, figures=figures, target=target)


def _parsed(path: Path) -> None:
    node = messages().node
    for batch in open_frames(path).batches():
        for start, stop in zip(batch.messages.start.tolist(), batch.messages.stop.tolist(), strict=True):
            if batch.first or start != batch.messages.start[0]:
                node.FromString(batch.data[start:stop])


def _absent(path: Path) -> Path:
    path.unlink(missing_ok=True)
    return path


if __name__ == "__main__":
    main()
