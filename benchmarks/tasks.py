"""Work that is measured in a fresh process: each task imports what it needs before its clock starts."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import Measured, Stopwatch


def json_loads(path: str) -> Measured:
    """Bare `json.loads` of bytes that are in memory; of a .gz, unpacking counts."""
    data = Path(path).read_bytes()
    watch = Stopwatch()
    held = json.loads(gzip.decompress(data) if path.endswith(".gz") else data)
    measured = watch.stop()
    del held
    return measured


def read(path: str) -> Measured:
    """A Kineto trace into all its tables, from the file on disk."""
    from tracebraid import read_timeline

    watch = Stopwatch()
    held = read_timeline(path)
    measured = watch.stop()
    del held
    return measured


def read_et(path: str) -> Measured:
    """An Execution Trace: its nodes and their values, then its tensor graph."""
    from tracebraid import read_execution_trace

    watch = Stopwatch()
    held = read_execution_trace(path)
    watch.lap("nodes")
    edges = held.tensor_edges
    watch.lap("tensor graph")
    measured = watch.stop()
    del held, edges
    return measured


def link(et: str, kineto: str) -> Measured:
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


def align(et: str, kineto: str) -> Measured:
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


def start() -> Measured:
    """`import tracebraid`, and the names that reading and linking need."""
    watch = Stopwatch()
    import tracebraid

    watch.lap("import alone")
    read_timeline = tracebraid.read_timeline
    measured = watch.stop()
    del read_timeline
    return measured


def check_all(folder: str) -> Measured:
    """Check each folder, once some folders have been checked."""
    from tracebraid import check

    jobs = sorted(Path(folder).iterdir(), key=lambda path: (path.name != "warm_up", path))
    for warm_up in sorted(jobs.pop(0).iterdir()):
        check(warm_up, engine="in-process")
    watch = Stopwatch()
    for job in jobs:
        check(job, engine="in-process")
    return watch.stop()


def open_store(store: str) -> Measured:
    """Open a store a second time."""
    import tracebraid

    tracebraid.open(store)
    watch = Stopwatch()
    tracebraid.open(store)
    return watch.stop()


def analyses(path: str) -> Measured:
    """Ask every analysis of a trace, alone and together."""
    from tracebraid import demo_path, read_timeline
    from tracebraid.analysis.catalog import rank_analyses
    from tracebraid.linking.link_traces import link_traces
    from tracebraid.model.linked_trace import LinkedTrace

    def answer_all(linked: LinkedTrace) -> dict[str, float]:
        parts: dict[str, float] = {}
        for analysis in rank_analyses():
            watch = Stopwatch()
            rows = analysis.answer(linked).height
            parts |= {f"together {analysis.name}": watch.stop().seconds, f"rows {analysis.name}": rows}
        return parts

    answer_all(link_traces(read_timeline(demo_path() / "kineto_trace_0.json.gz")))
    timeline = read_timeline(path)
    parts: dict[str, float] = {}
    for analysis in rank_analyses():
        # A copy of the timeline, without what the last analysis made it keep.
        linked = link_traces(replace(timeline))
        held = linked.launches
        watch = Stopwatch()
        analysis.answer(linked)
        parts[f"alone {analysis.name}"] = watch.stop().seconds
    linked = link_traces(replace(timeline))
    watch = Stopwatch()
    held = linked.launches
    parts["linking"] = watch.stop().seconds
    parts |= answer_all(linked)
    measured = replace(watch.stop(), parts=parts)
    del held
    return measured
