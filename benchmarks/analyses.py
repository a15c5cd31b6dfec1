"""Analyses of one trace, beside HTA's, and questions about whole jobs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.inputs import Given
from benchmarks.made_jobs import write_job
from benchmarks.measure import Measured, Row, Target, command, side_by_side, task, typical

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
"""Analyses by the functions of HTA that they correspond to; those that are not in the catalog are left out."""

_LIMIT_S = 2.0
"""All analyses of the trace of 54 MB, after loading (seconds): the project's target."""

_TIMES_HTA = 20.0
"""Target of the project: the time of HTA by ours, for the analyses that it has."""

_OURS, _HTA = "tracebraid", "HTA"


def analysis_rows(ours: Sequence[Measured], hta: Sequence[Measured], has_target: bool = False) -> list[Row]:
    """A row for each analysis, the slowest first, then linking, then all with it."""
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


def analyses(given: Given) -> list[Row]:
    """Every analysis of a trace, alone on a trace linked anew and together on one, beside HTA's.

    Reading does not count; linking has a row of its own and counts in the whole, HTA's load in none of its figures."""
    path = given.timeline
    subjects: dict[str, Callable[[], Measured]] = {_OURS: partial(task, "tasks:analyses", path)}
    if given.hta_python:
        subjects[_HTA] = partial(task, "hta:hta_analyses", path, python=given.hta_python)
    runs = side_by_side(subjects, given.rounds)
    rows = analysis_rows(runs[_OURS], runs.get(_HTA, []), has_target=not given.paths)
    return [row for row in rows if not given.only or row.subject in given.only]


_COMMANDS = (("analyze", "stragglers"), ("advise",), ("metrics",))


def job_rows(runs: dict[int, Measured]) -> list[Row]:
    """A row for each part, with its time on the most ranks; then memory, and what is kept of a rank."""
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


def whole_job(given: Given) -> list[Row]:
    """Questions about a whole job by the number of its ranks, all copies of one trace, which is read once.

    `first` is the time after the questions above it, `again` that of the same once more, `alone` that on a job that was
    asked nothing. `per doubling` is the ratio of the last two numbers of ranks by powers of two: 2 is linear."""
    path, numbers = given.timeline, sorted(set(given.ranks))
    rows = job_rows({ranks: task("made_jobs:whole_job", path, ranks) for ranks in numbers})
    return [*rows, *(_commands(path, given.folder, numbers) if given.commands else [])]
