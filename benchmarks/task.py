"""What is measured inside a fresh process: `python -m benchmarks.task NAME ARGUMENTS` prints it as JSON.

Each task loads what it needs before its clock starts, and nothing that another one needs.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.measure import Measured, Stopwatch

__all__: list[str] = []


def _json_loads(path: str) -> Measured:
    """Bare `json.loads` of bytes that are in memory; of a .gz, unpacking counts."""
    data = Path(path).read_bytes()
    watch = Stopwatch()
    held = json.loads(gzip.decompress(data) if path.endswith(".gz") else data)
    measured = watch.stop()
    del held
    return measured


def _read(path: str, processes: str) -> Measured:
    """A Kineto trace into all its tables, from the file on disk."""
    from tracebraid import read_timeline

    watch = Stopwatch()
    held = read_timeline(path, int(processes))
    measured = watch.stop()
    del held
    return measured


def _read_et(path: str, processes: str) -> Measured:
    """An Execution Trace: its nodes and their values, then its tensor graph."""
    from tracebraid import read_execution_trace

    watch = Stopwatch()
    held = read_execution_trace(path, int(processes))
    watch.lap("nodes")
    edges = held.tensor_edges
    watch.lap("tensor graph")
    measured = watch.stop()
    del held, edges
    return measured


def _link(et: str, kineto: str) -> Measured:
    """Both traces of a rank: read, then linked."""
    from tracebraid import read_execution_trace, read_timeline
    from tracebraid.linking.link_traces import link_traces

    watch = Stopwatch()
    trace, timeline = read_execution_trace(et), read_timeline(kineto)
    watch.lap("reading")
    held = link_traces(timeline, trace).compute_all()
    watch.lap("linking")
    measured = watch.stop()
    del held
    return measured


def _align(et: str, kineto: str) -> Measured:
    """Both traces of a rank: read, then linked without ids; `nodes` is their number."""
    from tracebraid import Matching, read_execution_trace, read_timeline
    from tracebraid.linking.link_traces import link_traces

    watch = Stopwatch()
    trace, timeline = read_execution_trace(et), read_timeline(kineto)
    watch.lap("reading")
    held = link_traces(timeline, trace, Matching("approximate")).compute_all()
    watch.lap("linking")
    measured = watch.stop()
    return replace(measured, parts={**measured.parts, "nodes": held.et.op_nodes.height if held.et else 0})


def _start() -> Measured:
    """`import tracebraid`, and the names that reading and linking need."""
    watch = Stopwatch()
    import tracebraid

    watch.lap("import alone")
    read_timeline = tracebraid.read_timeline
    measured = watch.stop()
    del read_timeline
    return measured


_TASKS: dict[str, Callable[..., Measured]] = {
    "json_loads": _json_loads,
    "read": _read,
    "read_et": _read_et,
    "link": _link,
    "align": _align,
    "start": _start,
}

if __name__ == "__main__":
    print(json.dumps(asdict(_TASKS[sys.argv[1]](*sys.argv[2:]))))
