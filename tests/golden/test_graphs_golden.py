"""Critical paths of real traces: path and residuals are the step, and explain more of it than HTA's path."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.conftest import find_real_traces
from tests.golden.graphs import graph_of
from tests.golden.linked import names_of, pair
from tests.golden.test_analyze_golden import FILES, linked_of
from tests.golden.test_links_golden import KINETO_FILES, alone
from tests.integration.command import run
from tests.planted.graphs import check_graph
from tests.planted.small_graphs import check_sums
from tracebraid import analyses
from tracebraid.api.graphing import critical_path, dependency_graph
from tracebraid.errors import InputError
from tracebraid.graph.critical_path.find_path import edge_slack
from tracebraid.graph.critical_path.step_bounds import step_bounds
from tracebraid.linking.dependencies import find_dependencies
from tracebraid.linking.nesting import TOLERANCE_NS
from tracebraid.model.engine import Job
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import CriticalPath, DependencyGraph, EdgeKind
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.quantities import duration
from tracebraid.reports.findings import gap_lines
from tracebraid.reports.verdict import verdict

HTA = {
    "a100_ddp_nccl_rank0of2": "a100_ddp_nccl_rank0of2",
    "a100_event_sync": "a100_event_sync",
    "mi250_minitoy_train": "mi250_minitoy_train",
    "sampled_2_of_128:0": "sampled_2_of_128",
    "triton_example": "triton_example",
}
"""The traces of which HTA gives a path, and where it stands."""


@cache
def path_of(folder: Path, name: str) -> CriticalPath:
    return critical_path(graph_of(folder, name), replays=3)


@pytest.mark.traces
@pytest.mark.parametrize("name", sorted(FILES))
def test_path_and_residuals_are_the_step(real_traces: Path, name: str) -> None:
    found = path_of(real_traces, name)
    check_sums(found)
    assert found.steps.height > 0
    for share in (found.steps["explained"], found.segments["on_path"], found.stability["on_path"]):
        assert share.is_finite().all()
        assert ((share >= 0) & (share <= 1)).all()


@pytest.mark.traces
@pytest.mark.parametrize("name", sorted(FILES))
def test_no_slack_is_negative_and_none_is_on_a_path(real_traces: Path, name: str) -> None:
    graph = graph_of(real_traces, name)
    assert edge_slack(graph, step_bounds(graph)).min() >= 0
    found = path_of(real_traces, name)
    own = found.segments.filter(
        pl.col("kind").cast(pl.String).is_in(["host op", "call", "kernel", "python", "copy"])
    )
    slack = found.slack.filter(pl.col("activity").is_in(own["activity"].implode()))["slack_ns"]
    assert slack.drop_nulls().eq(0).all()


@pytest.mark.traces
@pytest.mark.parametrize("name", sorted(HTA))
def test_the_path_explains_more_than_htas(real_traces: Path, name: str) -> None:
    steps = path_of(real_traces, name).steps
    expected = real_traces / "expected/hta" / HTA[name] / "critical_path.ProfilerStep.0.json"
    weight_us = sum(json.loads(expected.read_text())["weight_by_type"].values())
    shares = steps["path_ns"] / steps["span_ns"]
    assert shares.max() >= 1000 * weight_us / steps.item(0, "span_ns")


@pytest.fixture(scope="module")
def demo_graph(demo: Path) -> DependencyGraph:
    return dependency_graph(tracebraid.open(demo))


@pytest.mark.parametrize("rank", [None, 0, 1])
def test_the_demo_has_a_path_over_all_ranks_and_within_each(
    demo_graph: DependencyGraph, rank: int | None
) -> None:
    found = tracebraid.critical_path(demo_graph, rank=rank, replays=5)
    check_sums(found)
    assert found.steps.height == 3
    if rank is not None:
        assert set(found.segments["rank"].drop_nulls()) == {rank}


# --- Graphs of real jobs: what their collectives wait for, and that replay gives the measured t ------


SMALL_BYTES = 1_000_000
"""Larger files are not built a second time."""


def test_four_of_dlrms_eight_ranks_wait_for_each_other(real_traces: Path) -> None:
    graph = graph_of(real_traces, "pairs/dlrm_v100_8rank")
    check_graph(graph)
    assert (graph.edges.kind == EdgeKind.TRANSFER).sum() == 32
    codes = {found.code: found.count for found in graph.findings}
    assert codes[FindingCode.GRAPH_COLLECTIVES_INCOMPLETE] == 8
    assert FindingCode.GRAPH_COLLECTIVES_CONTRADICTED not in codes
    found = tracebraid.graph_coverage(graph).with_columns(pl.col("kind").cast(pl.String))
    assert "transfer_bound" in found.get_column("kind").to_list()


def test_two_sampled_ranks_wait_in_what_they_share(real_traces: Path) -> None:
    graph = graph_of(real_traces, "kineto/sampled_2_of_128")
    check_graph(graph)
    assert (graph.edges.kind == EdgeKind.TRANSFER).sum() == 10
    assert graph.activities.get_column("kind").cast(pl.String).to_list().count("collective") == 5


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_real_trace_is_reproduced_whole_and_by_step(real_traces: Path, name: str) -> None:
    graph = graph_of(real_traces, name)
    check_graph(graph)
    tracebraid.graph_coverage(graph)
    step = graph.steps.get_column("step").drop_nulls()
    if len(step) and (real_traces / FILES[name]).stat().st_size < SMALL_BYTES:
        some = tracebraid.dependency_graph(linked_of(real_traces, name), steps=step[0])
        check_graph(some)
        assert some.steps.get_column("step").unique().to_list() == [step[0]]


# --- Dependencies of real traces: how many of each kind, by what evidence, and all of them forw ------


COUNTS = {
    "a100_alexnet_cuda_sync": {"event_wait": 6, "launch": 98, "stream_order": 96, "sync": 25},
    "a100_event_sync": {"launch": 5, "stream_order": 4, "sync": 5},
    "a100_event_sync_multi_stream": {"event_wait": 1, "launch": 6, "stream_order": 3, "sync": 5},
    "a100_ddp_nccl_rank0of2": {
        "forward_backward": 1086,
        "inter_thread": 6,
        "launch": 3774,
        "stream_order": 3772,
    },
    "mi250_minitoy_train": {"forward_backward": 8, "inter_thread": 2, "launch": 16, "stream_order": 15},
    "mi300x_decode_graph_launch": {"launch": 558, "stream_order": 556, "sync": 1},
    "v100_rank1of2_54MB": {
        "forward_backward": 20,
        "inter_thread": 10,
        "launch": 22_290,
        "stream_order": 22_288,
    },
}


def counts(linked: LinkedTrace) -> dict[str, int]:
    kinds = linked.dependencies.get_column("kind").cast(pl.String).value_counts()
    return dict(sorted(kinds.iter_rows()))


def named(linked: LinkedTrace, kind: str) -> list[tuple[str, str, str, str]]:
    names = names_of(linked)
    rows = linked.dependencies.filter(pl.col("kind").cast(pl.String) == kind)
    columns = ("before_event", "before_moment", "after_event", "after_moment")
    return [(names[a], m, names[b], k) for a, m, b, k in rows.select(columns).iter_rows()]


@pytest.mark.parametrize("name", COUNTS)
def test_how_many_dependencies_of_each_kind(real_traces: Path, name: str) -> None:
    assert counts(alone(real_traces / f"kineto/{name}.json.gz")) == COUNTS[name]


@pytest.mark.parametrize("name", KINETO_FILES)
def test_all_dependencies_hold_in_time_and_none_is_contradicted(real_traces: Path, name: str) -> None:
    linked = alone(real_traces / f"{name}.json.gz")
    slack = linked.dependencies.get_column("slack_ns")
    assert (slack >= -TOLERANCE_NS).all()
    assert [one for one in linked.findings if one.code == "dependency-backward"] == []


@pytest.mark.parametrize("name", KINETO_FILES)
def test_all_work_of_a_stream_but_the_first_follows_other_work_there(real_traces: Path, name: str) -> None:
    linked = alone(real_traces / f"{name}.json.gz")
    lanes = (
        linked.timeline.device_work.join(linked.timeline.events, on="event_id").get_column("lane").n_unique()
    )
    followed = counts(linked).get("stream_order", 0)
    assert followed == linked.device_links.height - lanes


def test_each_step_hands_over_to_backward_and_back(real_traces: Path) -> None:
    linked = alone(real_traces / "kineto/v100_rank1of2_54MB.json.gz")
    there = ("aten::ones_like", "end", "autograd::engine::evaluate_function: SumBackward0", "start")
    last = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    back = (last, "end", "Optimizer.step#SGD.step", "start")
    assert sorted(named(linked, "inter_thread")) == [there] * 5 + [back] * 5


def test_dlrms_hand_overs_and_blocking_calls(real_traces: Path) -> None:
    linked = pair(real_traces / "pairs/dlrm_v100_8rank")
    assert counts(linked) == {
        "forward_backward": 76,
        "inter_thread": 2,
        "launch": 261,
        "stream_order": 257,
        "sync": 10,
    }
    assert named(linked, "inter_thread")[1] == ("aten::_local_scalar_dense", "end", "## backward ##", "end")
    sync = linked.dependencies.filter(pl.col("kind").cast(pl.String) == "sync").get_column("evidence")
    assert dict(sorted(sync.value_counts().iter_rows())) == {
        "cudaMemcpyAsync outlasts it": 2,
        "cudaStreamSynchronize outlasts it": 8,
    }


def test_what_the_device_recorded_agrees_with_what_the_effect_alone_proves(real_traces: Path) -> None:
    """Without its `cuda_sync` events, alexnet's blocking calls lead to the same work wherever they had to wait."""
    linked = alone(real_traces / "kineto/a100_alexnet_cuda_sync.json.gz")
    bare = replace(
        linked.timeline, tables={**linked.timeline.tables, "syncs": linked.timeline.tables["syncs"].clear()}
    )
    found = find_dependencies(bare, linked.host_tree, linked.device_links, linked.forward_backward).table
    pairs = [
        set(
            one.filter(pl.col("kind").cast(pl.String) == "sync")
            .select("before_event", "after_event")
            .iter_rows()
        )
        for one in (found, linked.dependencies)
    ]
    assert pairs[0] <= pairs[1]
    assert (len(pairs[0]), len(pairs[1])) == (17, 25)


# --- One length of a step: every answer has the same, and the accounting adds up to it, on real ------


REAL = find_real_traces()
_FOUND = [] if REAL is None else [*sorted((REAL / "kineto").iterdir()), *sorted((REAL / "pairs").iterdir())]
PATHS = [
    pytest.param(tracebraid.demo_path(), id="demo"),
    *(pytest.param(path, id=path.name, marks=pytest.mark.traces) for path in _FOUND),
]


@cache
def opened(path: Path) -> Job | str:
    try:
        return tracebraid.open(path)
    except InputError as error:
        return str(error)


def job_of(path: Path) -> Job:
    job = opened(path)
    if isinstance(job, str):
        pytest.skip(job)
    return job


def lengths(frame: pl.DataFrame, column: str) -> dict[str | None, int]:
    """By step."""
    return dict(frame.group_by("step").agg(pl.col(column).sum()).iter_rows())


@pytest.mark.full
@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_same_length_of_a_step(path: Path) -> None:
    job = job_of(path)
    advice = tracebraid.advise(job, 0)
    if advice.is_unknown:
        with pytest.raises(InputError, match="lost events"):
            tracebraid.critical_path(job)
        return
    found = tracebraid.critical_path(job, replays=0)
    by_step = lengths(advice.of_job, "ns")
    spans = lengths(found.steps, "span_ns")
    assert by_step == {step: span for step, span in spans.items() if step in by_step}
    assert sum(by_step.values()) == pytest.approx(advice.step_ns * max(advice.steps, 1))
    if advice.of_job.is_empty():
        return
    assert duration(advice.step_ns) in verdict(advice)[len(gap_lines(job.findings))]
    changed = tracebraid.what_if(job, "scale 0.5")
    before = changed.steps.filter(pl.col("rank").is_null())
    assert lengths(before, "before_ns") == spans
    if not advice.steps:
        return
    of_ranks = lengths_of_ranks(changed.steps, "before_ns")
    assert lengths_of_ranks(analyses.rank_steps(job), "span_ns") == of_ranks
    # By itself a rank does not know when the others began the job's first step.
    measured = pl.concat(list(job.ask(analyses.step_times)))
    own = lengths_of_ranks(measured.unique(["rank", "step"], keep="first", maintain_order=True), "span_ns")
    later = {key for key in own if key[1] != measured.item(0, "step")}
    assert {key: own[key] for key in later} == {key: of_ranks[key] for key in later}
    assert all(own[key] >= of_ranks[key] for key in own)
    mean = tracebraid.metrics(job, only=["step_time_mean"], with_doubtful=True).row(0, named=True)
    assert mean["value"] == pytest.approx(advice.step_ns)


def lengths_of_ranks(frame: pl.DataFrame, column: str) -> dict[tuple[int, str], int]:
    rows = frame.filter(pl.col("rank").is_not_null()).select("rank", "step", column)
    return {(rank, step): span for rank, step, span in rows.iter_rows()}


@pytest.mark.full(keep=4)
@pytest.mark.parametrize("path", PATHS)
def test_the_accounting_is_exactly_the_time_of_the_run(path: Path) -> None:
    job = job_of(path)
    advice = tracebraid.advise(job, 0)
    for of_rank in [None, *advice.ranks]:
        rows = advice.accounting.filter(pl.col("of_rank").eq_missing(of_rank))
        if rows.is_empty():
            continue
        steps = set(rows.get_column("step"))
        path_steps = tracebraid.critical_path(job, rank=of_rank, replays=0).steps
        counted = path_steps.filter(pl.col("step").is_in(list(steps - {None})) | (None in steps))
        begin = int(counted.select(pl.col("start_ns").min()).item())
        end = int(counted.select((pl.col("start_ns") + pl.col("span_ns")).max()).item())
        assert rows.get_column("ns").sum() == end - begin
        assert (rows.get_column("ns") > 0).all()


@pytest.mark.full
@pytest.mark.parametrize("command", ["summary", "advise", "critical-path --replays 0"])
def test_commands_print_it(command: str, demo: Path) -> None:
    length = duration(tracebraid.advise(tracebraid.open(demo)).step_ns)
    assert length in run(*command.split(), demo).stdout


@pytest.mark.full
def test_the_page_prints_it(demo: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("report", demo, "-o", page).returncode == 0
    assert f"Step time {duration(tracebraid.advise(tracebraid.open(demo)).step_ns)}" in page.read_text(
        encoding="utf-8"
    )
