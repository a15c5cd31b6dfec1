"""Measure every analysis of a trace, alone and all in one go, beside HTA's where it is installed.

    python -m benchmarks.analyses [FILE] [--rounds 5] [--only NAME] [--hta-python PATH] [--json]

Each round is a fresh process, which reads the trace first: reading does not count. `time` and `ms` are of an analysis
alone on a trace linked anew, `ms together` of the same one after another on one linked trace, in the order of the
catalog, where each finds what those before it computed. Linking has a row of its own and counts in the whole; HTA
does its like while it loads, which does not count either. Without FILE, the trace of 54 MB is measured.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.inputs import Inputs, find_real_traces
from benchmarks.measure import Measured, side_by_side, task, typical
from benchmarks.table import Row, Target, as_json, as_table

__all__ = ["EQUIVALENTS", "rows_of"]

EQUIVALENTS = {
    "get_temporal_breakdown": "breakdown",
    "get_gpu_kernel_breakdown": "kernels",
    "get_idle_time_breakdown": "stream_idle",
    "get_comm_comp_overlap": "overlap",
    "get_cuda_kernel_launch_stats": "launch_events",
    "get_queue_length_summary": "queue_lengths",
    "get_queue_length_time_series": "queue_series",
    "get_memory_bw_summary": "copy_bandwidth",
    "get_memory_bw_time_series": "copy_bandwidth_series",
    "get_aten_op_kernels_and_delay": "op_kernel_sequences",
    "get_gpu_user_annotation_breakdown": "user_annotations",
    "get_gpu_kernels_with_user_annotations": "annotation_kernels",
}
"""Which analysis answers what a function of HTA does; those that are not in the catalog are left out."""

_LIMIT_S = 2.0
"""All analyses of the trace of 54 MB, after loading (seconds): the project's target."""

_TIMES_HTA = 20.0
"""How many times as fast as HTA those that it has are to be: the project's target."""

_OURS, _HTA = "tracebraid", "HTA"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    given = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = given.file or Inputs(Path(folder), find_real_traces(given.traces)).timeline()
        subjects: dict[str, Callable[[], Measured]] = {}
        subjects[_OURS] = partial(task, ["-m", "benchmarks.analyses_task", str(path)])
        if given.hta_python:
            subjects[_HTA] = partial(task, ["-m", "benchmarks.hta_analyses", str(path)], given.hta_python)
        runs = side_by_side(subjects, given.rounds)
    rows = rows_of(runs[_OURS], runs.get(_HTA, []), has_target=given.file is None)
    if given.only:
        rows = [row for row in rows if row.subject in given.only]
    print(as_json(rows) if given.json else as_table(rows))


def rows_of(ours: Sequence[Measured], hta: Sequence[Measured], has_target: bool = False) -> list[Row]:
    """A row for each analysis, the slowest first, then linking, then all with it.

    Args:
        ours: what `analyses_task` measured, a run for each round.
        hta: what `hta_analyses` measured; empty without HTA.
        has_target: whether the trace is the one that the target in seconds is about.
    """
    found = typical(ours)
    names = [part.removeprefix("alone ") for part in found.parts if part.startswith("alone ")]
    names.sort(key=lambda name: -found.parts[f"alone {name}"])
    rows = [
        Row(
            "analyses",
            name,
            seconds=found.parts[f"alone {name}"],
            figures={
                "ms": 1e3 * found.parts[f"alone {name}"],
                "ms together": 1e3 * found.parts[f"together {name}"],
                "rows": found.parts[f"rows {name}"],
                **_beside_hta(name, ours, hta),
            },
        )
        for name in names
    ]
    target = Target(f"{_LIMIT_S} s", found.seconds <= _LIMIT_S) if has_target else None
    together = {"ms together": 1e3 * found.seconds}
    all_of_them = Row(
        "analyses",
        "linking and all, one after another",
        found.seconds,
        found.cpu_seconds,
        found.peak_bytes,
        together,
        target,
    )
    linking = Row("analyses", "linking", seconds=found.parts["linking"])
    return [*rows, linking, all_of_them, *_all_that_hta_has(names, ours, hta)]


def _beside_hta(name: str, ours: Sequence[Measured], hta: Sequence[Measured]) -> dict[str, float]:
    """HTA's time for the same, and how many times as fast ours is: the median of each round's ratio."""
    functions = [function for function, equivalent in EQUIVALENTS.items() if equivalent == name]
    pairs = [
        (peer.parts[function], own.parts[f"alone {name}"])
        for function in functions
        for own, peer in zip(ours, hta, strict=False)
        if function in peer.parts
    ]
    if not pairs:
        return {}
    return {
        "HTA ms": 1e3 * median(theirs for theirs, _ in pairs),
        "times HTA": median(theirs / own for theirs, own in pairs),
    }


def _all_that_hta_has(names: Sequence[str], ours: Sequence[Measured], hta: Sequence[Measured]) -> list[Row]:
    """A row for all that both answer, each alone."""
    both = {f: n for f, n in EQUIVALENTS.items() if n in names and all(f in run.parts for run in hta)}
    if not hta or not both:
        return []
    sums = [
        (sum(own.parts[f"alone {n}"] for n in both.values()), sum(peer.parts[f] for f in both))
        for own, peer in zip(ours, hta, strict=True)
    ]
    times = median(theirs / own for own, theirs in sums)
    figures = {
        "analyses": len(both),
        "HTA ms": 1e3 * median(theirs for _, theirs in sums),
        "times HTA": times,
    }
    target = Target(f"{_TIMES_HTA:.0f} times HTA", times >= _TIMES_HTA)
    return [
        Row(
            "analyses",
            "all that HTA has, each alone",
            median(own for own, _ in sums),
            None,
            None,
            figures,
            target,
        )
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analyses", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a Kineto trace")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="the folder of real traces")
    parser.add_argument("--only", action="append", metavar="NAME", help="show only this; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often each is measured (5)")
    parser.add_argument(
        "--hta-python", metavar="PATH", help="an interpreter that has HTA, to measure it as well"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    main()
