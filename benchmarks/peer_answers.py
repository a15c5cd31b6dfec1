"""One question about one trace, from its file to the answer, as each tool is asked; run in an interpreter that has it.

The time is that of a script: with the loading of the tool's libraries, of which one part tells. An answer is figures by
name, in microseconds or counts: those of one name are of the same thing, and tell whether the tools agree.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.measure import Measured, Stopwatch, silenced

_Figures = dict[str, float]
_Ask = Callable[[str], Any]
"""From a path to figures; loading gives what is loaded, of which tools keep different events."""

OURS = "tracebraid"

LIBRARIES = "libraries s"
"""The part of the time that the loading of libraries took."""


def questions(tool: str) -> Measured:
    """The parts name the questions that a tool answers."""
    return replace(Stopwatch().stop(), parts=dict.fromkeys(TOOLS[tool](), 1.0))


def version(tool: str) -> Measured:
    """The part is named by the tool's version."""
    public, _, _ = importlib.metadata.version(_DISTRIBUTIONS[tool]).partition("+")
    return replace(Stopwatch().stop(), parts={public: 1.0})


def ask(tool: str, question: str, path: str) -> Measured:
    """Answer a question with a tool; the parts are the answer's figures, and the loading of its libraries."""
    with silenced():
        watch = Stopwatch()
        answer = TOOLS[tool]()[question]
        watch.lap(LIBRARIES)
        held = answer(path)
        measured = watch.stop()
    figures = held if isinstance(held, dict) else {}
    return replace(measured, parts={**measured.parts, **{name: float(v) for name, v in figures.items()}})


def _tracebraid() -> Mapping[str, _Ask]:
    import tracebraid
    from tracebraid import analyses

    def linked(path: str) -> Any:
        (rank,) = tracebraid.open(path)
        return rank

    def whole(frame: Any) -> Any:
        return frame.filter(frame.get_column("step").is_null())

    def breakdown(path: str) -> _Figures:
        row = whole(analyses.breakdown(linked(path))).row(0, named=True)
        return {"window us": row["span_ns"] / 1e3, "idle us": row["idle_ns"] / 1e3}

    def kernels(path: str) -> _Figures:
        frame = whole(analyses.kernels(linked(path)))
        of_kernels = frame.filter(frame.get_column("kind") != "memory")
        return {"kernels us": of_kernels.get_column("total_ns").sum() / 1e3}

    def overlap(path: str) -> _Figures:
        return {"overlap %": 100 * whole(analyses.overlap(linked(path))).row(0, named=True)["overlap_share"]}

    def queue(path: str) -> _Figures:
        return {"longest queue": whole(analyses.queue_lengths(linked(path))).get_column("max").max()}

    def ops(path: str) -> _Figures:
        frame = whole(analyses.kernels_by_op(linked(path)))
        of_ops = frame.filter(frame.get_column("op").is_not_null())
        return {"us of ops": of_ops.get_column("total_ns").sum() / 1e3}

    def critical_path(path: str) -> Any:
        rank = linked(path)
        first = analyses.steps(rank).item(0, "step")
        return tracebraid.critical_path(rank, step=first, replays=0, with_error=False).segments

    def difference(path: str) -> _Figures:
        kernels = tracebraid.diff(path, path).kernels
        return {"changed": kernels.filter(kernels.get_column("change") != "same").height}

    return {
        "load": tracebraid.read_timeline,
        "breakdown": breakdown,
        "kernels": kernels,
        "overlap": overlap,
        "queue length": queue,
        "ops": ops,
        "critical path": critical_path,
        "diff": difference,
    }


def _hta() -> Mapping[str, _Ask]:
    from hta.trace_analysis import TraceAnalysis
    from hta.trace_diff import TraceDiff

    def load(path: str) -> Any:
        return TraceAnalysis(trace_files={0: path}, trace_dir=".")

    def breakdown(path: str) -> _Figures:
        row = load(path).get_temporal_breakdown(visualize=False).iloc[0]
        return {"window us": row["kernel_time(us)"], "idle us": row["idle_time(us)"]}

    def kernels(path: str) -> _Figures:
        _, frame = load(path).get_gpu_kernel_breakdown(visualize=False)
        return {"kernels us": frame["sum (us)"].sum()}

    def overlap(path: str) -> _Figures:
        frame = load(path).get_comm_comp_overlap(visualize=False)
        return {"overlap %": frame["comp_comm_overlap_pctg"].iloc[0]}

    def queue(path: str) -> _Figures:
        frame = load(path).get_queue_length_summary(ranks=[0])
        return {"longest queue": frame["queue_length"]["max"].max()}

    def critical_path(path: str) -> Any:
        return load(path).critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=0)

    def difference(path: str) -> _Figures:
        return {"changed": TraceDiff.compare_traces(load(path).t, load(path).t)["diff_counts"].ne(0).sum()}

    return {
        "load": load,
        "breakdown": breakdown,
        "kernels": kernels,
        "overlap": overlap,
        "queue length": queue,
        "critical path": critical_path,
        "diff": difference,
    }


def _tracelens() -> Mapping[str, _Ask]:
    from TraceLens import TreePerfAnalyzer
    from TraceLens.TraceDiff.trace_diff import TraceDiff

    def load(path: str) -> Any:
        return TreePerfAnalyzer.from_file(path)

    def breakdown(path: str) -> _Figures:
        ms = load(path).get_df_gpu_timeline().set_index("type")["time ms"]
        return {"window us": 1e3 * ms["total_time"], "idle us": 1e3 * ms["idle_time"]}

    def overlap(path: str) -> _Figures:
        ms = load(path).get_df_gpu_timeline().set_index("type")["time ms"]
        return {"overlap %": 100 * (1 - ms["exposed_comm_time"] / ms["total_comm_time"])}

    def kernels(path: str) -> _Figures:
        frame = load(path).get_df_kernels().groupby("Kernel name")["Kernel duration (µs)"].sum()
        return {"kernels us": frame.sum()}

    def ops(path: str) -> _Figures:
        trace = load(path)
        frame = trace.get_df_kernel_launchers_summary(trace.get_df_kernel_launchers())
        return {"us of ops": frame["total_direct_kernel_time_sum"].sum()}

    def difference(path: str) -> _Figures:
        frame = TraceDiff(load(path).tree, load(path).tree).generate_diff_stats()
        return {"changed": frame.groupby("source")["kernel_time"].sum().nunique() - 1}

    return {
        "load": load,
        "breakdown": breakdown,
        "kernels": kernels,
        "overlap": overlap,
        "ops": ops,
        "diff": difference,
    }


def _pandas() -> Mapping[str, _Ask]:
    import pandas as pd

    def load(path: str) -> Any:
        data = Path(path).read_bytes()
        return pd.DataFrame(
            json.loads(gzip.decompress(data) if path.endswith(".gz") else data)["traceEvents"]
        )

    def kernels(path: str) -> _Figures:
        events = load(path)
        work = events[events["cat"].str.lower() == "kernel"]
        return {"kernels us": work.groupby("name")["dur"].sum().sum()}

    return {"load": load, "kernels": kernels}


def _duckdb() -> Mapping[str, _Ask]:
    import duckdb

    structure = "STRUCT(name VARCHAR, cat VARCHAR, ph VARCHAR, ts DOUBLE, dur DOUBLE)[]"
    file = f"read_json(?, maximum_object_size = 2147483647, columns = {{traceEvents: '{structure}'}})"
    events = f"SELECT unnest(traceEvents, recursive := true) FROM {file}"

    def load(path: str) -> None:
        with duckdb.connect() as connection:
            connection.sql(events, params=[path]).create("events")

    def kernels(path: str) -> _Figures:
        by_name = f"SELECT name, sum(dur) AS us FROM ({events}) WHERE lower(cat) = 'kernel' GROUP BY name"
        return {"kernels us": duckdb.execute(f"SELECT sum(us) FROM ({by_name})", [path]).fetchall()[0][0]}

    return {"load": load, "kernels": kernels}


TOOLS: Mapping[str, Callable[[], Mapping[str, _Ask]]] = {
    OURS: _tracebraid,
    "HTA": _hta,
    "TraceLens": _tracelens,
    "pandas": _pandas,
    "DuckDB": _duckdb,
}
"""What each answers of what is asked of us; it loads the tool."""

# HTA's distribution is named `traceinsight` from 0.6 on.
_DISTRIBUTIONS = {
    OURS: "tracebraid",
    "HTA": "traceinsight",
    "TraceLens": "TraceLens",
    "pandas": "pandas",
    "DuckDB": "duckdb",
}

_LAST_STEP = "HTA leaves out the work of the last step"
DIFFERENCES: Mapping[tuple[str, str], str] = {
    ("breakdown", "HTA"): f"{_LAST_STEP}, so that its window is 1,397 of 1,733 ms in the trace of 54 MB",
    ("kernels", "HTA"): _LAST_STEP,
    ("queue length", "HTA"): _LAST_STEP,
    (
        "ops",
        "TraceLens",
    ): "TraceLens leaves out communication, whose operator it does not find: 643 of 1,001 ms",
    (
        "critical path",
        "HTA",
    ): "The two mean different paths: see [the critical path](critical_path.md#beside-htas)",
}
"""Why an answer about the trace of 54 MB is another than ours, by question and tool."""
