"""Straggler metrics of a published job, beside the answers that were published with it.

    python -m benchmarks.stragglers DIR [--json]

DIR has `ops.parquet` (`step, dp_rank, stage, rank, optype, op, duration, transfer_duration, launch_delay`, in s),
`edges.parquet` (`before, after`), `groups.parquet` (`group, op, across_dp_ranks`), and where there are published
answers `expected.json`. The dependencies are given, so this checks the engine, not how a graph is made of traces.
`error` of step times is the mean over steps of what they differ by, by the published time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.straggler_job import StragglerJob, straggler_job
from tracebraid.simulation.replay import replay
from tracebraid.simulation.step_times import job_step_times, step_moments
from tracebraid.simulation.stragglers.metrics import StragglerMetrics, straggler_metrics_of
from tracebraid.simulation.stragglers.operations import ideal_work

__all__ = ["as_published", "straggler_step_errors"]

_BY = ("dp_rank", "stage", "optype")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--json", action="store_true", help="ours alone, as JSON")
    given = parser.parse_args(arguments)
    begun = time.perf_counter()
    job = straggler_job(given.folder)
    found = as_published(straggler_metrics_of(job.graph, job.operations))
    found["seconds"] = time.perf_counter() - begun
    if given.json:
        print(json.dumps(found))
        return
    path = given.folder / "expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    print("\n".join(_lines(found, expected)))
    for name, (error, worst) in straggler_step_errors(job, expected).items():
        print(f"{name:<40} error {error:.1e}  worst {worst:.1e}")


def as_published(metrics: StragglerMetrics) -> dict[str, Any]:
    """The metrics as the paper names them."""
    return {
        "S": metrics.slowdown,
        "S_by": {name: dict(metrics.by.get(name, {})) for name in _BY},
        "M_S": metrics.last_stage,
        "M_W": metrics.slowest_workers,
    }


def straggler_step_errors(job: StragglerJob, expected: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """By how much step times differ from the published, as a share: the mean of steps, and the most.

    Args:
        job: the job.
        expected: published times in s by step: with launch delays, without, and ideal.
    """
    edges, delay = job.graph.edges, job.graph.moments.residual_ns
    none = np.zeros_like(delay)
    given = {
        "step_t_base": (edges.work_ns, delay),
        "step_t_nodelay": (edges.work_ns, none),
        "step_t_noblk": (ideal_work(job.graph, job.operations), none),
    }
    moments = step_moments(job.graph.steps)
    found = {}
    for name, (work_ns, residual_ns) in given.items():
        published: NDArray[np.float64] = np.array(
            [expected.get(name, {}).get(step, np.nan) for step in moments.names]
        )
        times = replay(edges.first, edges.before, work_ns, residual_ns)
        errors = np.abs(job_step_times(times, moments).time_ns / 1e9 / published - 1)
        if not np.isnan(errors).all():
            found[name] = (float(np.nanmean(errors)), float(np.nanmax(errors)))
    return found


def _lines(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    lines = [f"{'':<40} {'ours':>9} {'published':>9} {'differ':>9}"]
    lines.append(_line("S", found["S"], expected.get("blocking_slowdown")))
    for by in _BY:
        published = expected.get(f"blocking_decompose_by_{by}", {})
        own = found["S_by"][by]
        labels = dict.fromkeys([*own, *published])
        lines += [_line(f"S {by} {label}", own.get(label), published.get(label)) for label in labels]
    lines.append(_line("M_S", found["M_S"], expected.get("Ms")))
    lines.append(_line("M_W", found["M_W"], expected.get("Mw")))
    return [*lines, f"{'seconds':<40} {found['seconds']:9.3f}"]


def _line(name: str, own: float | None, published: float | None) -> str:
    texts = ["" if value is None else f"{value:.5f}" for value in (own, published)]
    differ = f"{own / published - 1:+.1e}" if own is not None and published else ""
    return f"{name:<40} {texts[0]:>9} {texts[1]:>9} {differ:>9}"


if __name__ == "__main__":
    main(sys.argv[1:])
