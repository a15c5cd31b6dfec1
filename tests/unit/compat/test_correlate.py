"""HTA's calls on Tracebraid's objects, and what they say to wrong use."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.unit.compat.made import et_node, files, op, trace_of
from tracebraid.compat.hta import (
    Trace,
    TraceAnalysis,
    add_et_column,
    correlate_execution_trace,
    load_execution_trace,
)
from tracebraid.errors import ArgumentError, InputError, MissingLibraryError, WrongTraceError
from tracebraid.model.execution_trace import ExecutionTrace


@pytest.fixture(scope="module")
def job() -> tracebraid.Job:
    return tracebraid.open(tracebraid.demo_path())


@pytest.fixture(scope="module")
def et(job: tracebraid.Job) -> ExecutionTrace:
    trace = job[0].et
    assert trace is not None
    return trace


def test_all_kinds_of_traces_give_the_same_frame(job: tracebraid.Job, et: ExecutionTrace) -> None:
    frame = correlate_execution_trace(job, 0, et)
    for same in (job[0], job[0].timeline):
        assert correlate_execution_trace(same, 0, et).equals(frame)


def test_the_frame_has_each_event_once_with_the_node_of_its_link(
    job: tracebraid.Job, et: ExecutionTrace
) -> None:
    frame = correlate_execution_trace(job, 0, et)
    assert frame.columns == ["event_id", "name", "category", "pid", "tid", "ts_ns", "dur_ns", "et_node"]
    assert frame.get_column("event_id").equals(job[0].timeline.events.get_column("event_id"))
    linked = frame.drop_nulls("et_node").select("event_id", node_id="et_node")
    assert linked.equals(job[0].host_links.select("event_id", "node_id").drop_nulls())


def test_the_manner_of_hta_gives_the_same_nodes(job: tracebraid.Job, et: ExecutionTrace) -> None:
    analyzer = TraceAnalysis(trace_dir=tracebraid.demo_path())
    correlate_execution_trace(analyzer.t, 0, et)
    frame = analyzer.t.get_trace(0)
    ours = correlate_execution_trace(job, 0, et).to_pandas().set_index("event_id")["et_node"]
    assert frame.set_index("index")["et_node"].equals(ours.loc[frame["index"]])


def test_only_the_rank_that_was_asked_for_gets_the_column(et: ExecutionTrace) -> None:
    analyzer = TraceAnalysis(trace_dir=tracebraid.demo_path())
    correlate_execution_trace(analyzer.t, 0, et)
    assert ["et_node" in analyzer.t.get_trace(rank) for rank in analyzer.t.get_ranks()] == [True, False]


def test_a_path_with_the_home_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path, [op("aten::a", 0, 1)], [et_node(3, "aten::a", 2)])
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_execution_trace("~/torch_et_0.json").nodes.height == 3
    assert Trace(trace_dir="~").get_ranks() == [0]


@pytest.mark.parametrize("path", [None, 3, b"torch_et_0.json", {"nodes": []}])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(ArgumentError, match="give the path of an Execution Trace"):
        load_execution_trace(path)


def test_a_kineto_trace_is_no_execution_trace(demo: Path) -> None:
    with pytest.raises(WrongTraceError):
        load_execution_trace(demo / "kineto_trace_0.json.gz")


@pytest.mark.parametrize("rank", [2, -1])
def test_an_unknown_rank_is_refused_with_those_that_are(
    job: tracebraid.Job, et: ExecutionTrace, rank: int
) -> None:
    with pytest.raises(ArgumentError, match="ranks 0, 1"):
        correlate_execution_trace(job, rank, et)
    with pytest.raises(ArgumentError, match="ranks 0, 1"):
        correlate_execution_trace(Trace(trace_dir=tracebraid.demo_path()), rank, et)
    with pytest.raises(ArgumentError, match=f"of rank 0, and rank {rank} was asked for"):
        correlate_execution_trace(job[0], rank, et)


def test_the_execution_trace_of_another_program_is_refused(
    job: tracebraid.Job, et: ExecutionTrace, tmp_path: Path
) -> None:
    kineto, other = files(tmp_path, [op("aten::a", 0, 1)], [et_node(3, "aten::a", 2, rf_id=10**9)])
    with pytest.raises(InputError, match="no op of rank 0"):
        correlate_execution_trace(job, 0, load_execution_trace(other))
    trace = trace_of(kineto)
    with pytest.raises(InputError, match="no op of rank 0"):
        correlate_execution_trace(trace, 0, et)
    assert "et_node" not in trace.get_trace(0)


def test_the_execution_trace_of_another_rank_is_warned_of(job: tracebraid.Job) -> None:
    other = job[1].et
    assert other is not None
    with pytest.warns(UserWarning, match="name says rank 1, the Kineto trace is of rank 0") as told:
        correlate_execution_trace(job, 0, other)
    assert told[0].filename == __file__


def test_what_is_no_execution_trace_is_refused(job: tracebraid.Job) -> None:
    with pytest.raises(ArgumentError, match=r"et is a str; give what .*load_execution_trace returns"):
        correlate_execution_trace(job, 0, "torch_et_0.json")  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="et is a SimpleNamespace"):
        add_et_column(pl.DataFrame({"et_node": [3]}), SimpleNamespace(nodes={}), "rf_id")  # type: ignore[arg-type]


def test_what_is_no_trace_is_refused(et: ExecutionTrace) -> None:
    with pytest.raises(ArgumentError, match=r"trace is a TraceAnalysis; give its `\.t`"):
        correlate_execution_trace(TraceAnalysis(trace_dir=tracebraid.demo_path()), 0, et)  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="trace is a str; give HTA's Trace"):
        correlate_execution_trace("traces", 0, et)  # type: ignore[call-overload]


def test_without_pandas_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(self: pl.DataFrame) -> None:
        raise ModuleNotFoundError("No module named 'pandas'")

    monkeypatch.setattr(pl.DataFrame, "to_pandas", missing)
    with pytest.raises(MissingLibraryError, match=r"pip install 'tracebraid\[pandas\]'"):
        Trace(trace_dir=tracebraid.demo_path())


@pytest.mark.full
def test_importing_loads_neither_pandas_nor_hta() -> None:
    import subprocess
    import sys

    code = "import sys, tracebraid.compat.hta; print({'pandas', 'hta', 'torch'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_times_are_microseconds_from_the_first_event_of_all_ranks() -> None:
    trace = Trace(trace_dir=tracebraid.demo_path())
    firsts = [trace.get_trace(rank)["ts"].min() for rank in trace.get_ranks()]
    assert min(firsts) == 0
    assert max(firsts) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = trace.get_trace(0)
        assert ((frame["end"] - frame["ts"] - frame["dur"]).abs() < 0.001).all()
