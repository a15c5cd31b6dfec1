"""Measure the questions about a whole job by the number of its ranks, all copies of one trace.

    python -m benchmarks.whole_job [TRACE] [--ranks 16 32 64] [--commands] [--json]

Each number of ranks is a fresh process, which reads the trace once and gives each rank a copy of its tables, see
`whole_job_task`. `first` is what a question takes after those above it, `again` the same once more, `alone` on a job
that was asked nothing. `per doubling` is the ratio of the times of the last two numbers of ranks, to their ratio in
powers of two: 2 is linear. With `--commands` whole commands read a folder of files, one for each rank.
Without TRACE, the trace of 54 MB is measured.
"""

from __future__ import annotations

import argparse
import gzip
import math
import re
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.inputs import Inputs, find_real_traces
from benchmarks.measure import Measured, command, task
from benchmarks.table import Row, as_json, as_table
from benchmarks.whole_job_task import RANKS_PER_HOST, SKEW_NS

__all__ = ["rows_of", "write_job"]

_COMMANDS = (("analyze", "stragglers"), ("advise",), ("metrics",))
_RANK = re.compile(rb'("distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*)\d+([^{}]*?"world_size"\s*:\s*)\d+')


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    given = _parser().parse_args(arguments)
    numbers = sorted(set(given.ranks))
    with tempfile.TemporaryDirectory() as folder:
        path = given.trace or Inputs(Path(folder), find_real_traces(given.traces)).timeline()
        runs = {}
        for ranks in numbers:
            print(f"  {ranks} ranks", file=sys.stderr)
            runs[ranks] = task(["-m", "benchmarks.whole_job_task", str(path), str(ranks)])
        rows = rows_of(runs)
        if given.commands:
            rows += _commands(path, Path(folder), numbers)
    print(as_json(rows) if given.json else as_table(rows))


def rows_of(runs: dict[int, Measured]) -> list[Row]:
    """A row for each part, with its time on the most ranks; then memory, and what is kept of a rank.

    Args:
        runs: what `whole_job_task` measured, by the number of ranks.
    """
    most = runs[max(runs)]
    timed = [part for part in most.parts if not part.startswith(("bytes ", "peak "))]
    rows = [_row(part, {ranks: run.parts[part] for ranks, run in runs.items()}) for part in timed]
    kept = [part for part in most.parts if part.startswith("bytes ")]
    rows += [
        Row("whole_job", f"{part}, of a rank", figures={"kB": most.parts[part] / 1e3 / max(runs)})
        for part in kept
    ]
    rows.append(_row("all of these", {ranks: run.seconds for ranks, run in runs.items()}, most.peak_bytes))
    peaks = {f"MB of {ranks}": run.peak_bytes / 1e6 for ranks, run in runs.items()}
    return [*rows, Row("whole_job", "peak memory", figures=peaks)]


def write_job(trace: Path, folder: Path, ranks: int, packed: bool = True) -> None:
    """Write a trace for each rank: gzip members for what is the rank's own and for the rest, which is packed once.

    Args:
        trace: the trace of which each rank gets a copy.
        folder: where to write them.
        ranks: how many there are.
        packed: whether they are gzip; else plain text.

    Raises:
        ValueError: the trace has no `distributedInfo`.
    """
    raw = trace.read_bytes()
    text = gzip.decompress(raw) if trace.suffix == ".gz" else raw
    found = _RANK.search(text)
    if found is None:
        raise ValueError(f"{trace} has no distributedInfo with rank and world_size")
    pack = partial(gzip.compress, compresslevel=1) if packed else bytes
    before, after = (pack(part) for part in (text[: found.start()], text[found.end() :]))
    for rank in range(ranks):
        clock = b'"baseTimeNanoseconds": %d, ' % (rank // RANKS_PER_HOST * SKEW_NS)
        own = clock + found[1] + b"%d" % rank + found[2] + b"%d" % ranks
        name = f"kineto_trace_{rank}.json" + (".gz" if packed else "")
        (folder / name).write_bytes(before + pack(own) + after)


def _commands(trace: Path, folder: Path, numbers: Sequence[int]) -> list[Row]:
    runs: dict[str, dict[int, Measured]] = {" ".join(words): {} for words in _COMMANDS}
    for ranks in numbers:
        job = folder / f"job{ranks}"
        job.mkdir()
        write_job(trace, job, ranks)
        for words in _COMMANDS:
            print(f"  {' '.join(words)}, {ranks} ranks", file=sys.stderr)
            runs[" ".join(words)][ranks] = command(
                [sys.executable, "-m", "tracebraid", *words, str(job), "--json"]
            )
    return [
        _row(
            f"tracebraid {words}",
            {ranks: run.seconds for ranks, run in found.items()},
            found[max(found)].peak_bytes,
        )
        for words, found in runs.items()
    ]


def _row(subject: str, seconds: dict[int, float], peak_bytes: int | None = None) -> Row:
    numbers = sorted(seconds)
    figures = {f"s of {ranks}": seconds[ranks] for ranks in numbers[:-1]}
    figures["ms a rank"] = 1e3 * seconds[numbers[-1]] / numbers[-1]
    if len(numbers) > 1 and seconds[numbers[-2]] > 0:
        doublings = math.log2(numbers[-1] / numbers[-2])
        figures["per doubling"] = (seconds[numbers[-1]] / seconds[numbers[-2]]) ** (1 / doublings)
    return Row(
        "whole_job",
        f"{subject}, {numbers[-1]} ranks",
        seconds[numbers[-1]],
        peak_bytes=peak_bytes,
        figures=figures,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.whole_job", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "trace", nargs="?", type=Path, metavar="TRACE", help="a Kineto trace, .json or .json.gz"
    )
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 32, 64], metavar="N")
    parser.add_argument("--commands", action="store_true", help="measure whole commands, too: some minutes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    main()
