"""Who asks for what pays for what?"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import Json, call, et_text, kernel, kineto_text, node, op, write
from tests.growth import grows_less
from tests.unit.linking.made import et_of, linked_of
from tracebraid import link
from tracebraid.analysis.ops.ops import ops
from tracebraid.linking.link_traces import link_traces
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.stage import Stage

EVENTS = [
    op("ProfilerStep#1", 0, 100, cat="user_annotation", Record_function_id=4),
    op("mm", 10, 50, Record_function_id=5),
    call("launch", 20, 5, 7),
    kernel("gemm", 40, 10, 7),
]
NODES = et_of(node(19, "ProfilerStep#1", 1001, rf_id=4), node(20, "mm", 19, rf_id=5))
OF_THE_KINETO_TRACE = ("host_tree", "launches", "forward_backward", "dependencies")
OF_BOTH = ("host_links", "node_links", "matched", "device_links", "coverage")


def job_of(folder: Path, et: str | None = None) -> tracebraid.Job:
    write(folder / "kineto_trace_0.json", kineto_text(EVENTS))
    write(folder / "torch_et_0.json", et_text(NODES) if et is None else et)
    return tracebraid.open(folder)


def computed_stages(linked: LinkedTrace) -> set[str]:
    return {
        name for name in ("et", *OF_THE_KINETO_TRACE, *OF_BOTH) if getattr(linked.stages, name).is_computed
    }


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # Gaps of the trace hang on launches, and are known with every answer.
        (tracebraid.analyses.steps, {"host_tree", "launches"}),
        (tracebraid.analyses.breakdown, {"host_tree", "launches"}),
        (tracebraid.analyses.kernels, {"host_tree", "launches"}),
        (tracebraid.analyses.ops, {"host_tree", "launches"}),
        (lambda linked: linked.dependencies, set(OF_THE_KINETO_TRACE)),
        (lambda linked: linked.coverage, {"et", "host_tree", "launches", "coverage"}),
        (lambda linked: linked.device_links, {"et", "host_tree", "launches", "device_links"}),
        (lambda linked: linked.compute_all(), {"et", *OF_THE_KINETO_TRACE, *OF_BOTH}),
        (repr, set()),
        (lambda linked: linked.has_et, set()),
        (lambda linked: linked.known_findings, {"host_tree", "launches"}),
    ],
)
def test_a_question_computes_what_it_needs_and_no_more(
    tmp_path: Path, question: Callable[[LinkedTrace], object], expected: set[str]
) -> None:
    linked = job_of(tmp_path)[0]
    question(linked)
    assert computed_stages(linked) == expected


def test_answers_are_the_same_with_and_without_an_execution_trace(tmp_path: Path) -> None:
    with_et = job_of(tmp_path)
    without = tracebraid.open(tmp_path / "kineto_trace_0.json")
    for name in ("breakdown", "kernels", "ops", "steps"):
        question = getattr(tracebraid.analyses, name)
        assert question(with_et).equals(question(without))


@pytest.mark.parametrize("text", ["damaged", "", '{"traceEvents": []}'])
def test_what_is_wrong_with_an_execution_trace_is_raised_by_what_needs_it(tmp_path: Path, text: str) -> None:
    linked = job_of(tmp_path, text)[0]
    assert tracebraid.analyses.breakdown(linked).height == 2
    assert linked.dependencies.height > 0
    for stage in OF_BOTH:
        with pytest.raises(tracebraid.InputError):
            getattr(linked, stage)
    with pytest.raises(tracebraid.InputError):
        _ = linked.all_findings


def test_link_raises_at_once_what_is_wrong_with_either_trace(tmp_path: Path) -> None:
    job_of(tmp_path, "damaged")
    with pytest.raises(tracebraid.InputError):
        tracebraid.link(tmp_path / "torch_et_0.json", tmp_path / "kineto_trace_0.json")


def test_known_findings_are_those_of_what_was_computed(tmp_path: Path) -> None:
    write(tmp_path / "kineto_trace_0.json", kineto_text(EVENTS)[:-3])
    write(tmp_path / "torch_et_0.json", et_text([*NODES, node(30, "lost", 999)], "9.9.9"))
    linked = tracebraid.open(tmp_path)[0]
    tracebraid.analyses.breakdown(linked)
    of_kineto = linked.timeline.findings
    assert linked.known_findings == of_kineto != ()
    _ = linked.coverage
    assert linked.et is not None
    assert linked.known_findings == (*linked.et.findings, *of_kineto)
    assert linked.et.findings != ()
    assert linked.compute_all().known_findings == linked.all_findings


def test_threads_share_one_reading_of_the_execution_trace(tmp_path: Path) -> None:
    write(tmp_path / "kineto_trace_0.json", kineto_text(EVENTS))
    et = write(tmp_path / "torch_et_0.json", et_text(NODES))
    reads: list[int] = []

    def read() -> ExecutionTrace:
        reads.append(1)
        return tracebraid.read_execution_trace(et)

    linked = link_traces(tracebraid.read_timeline(tmp_path / "kineto_trace_0.json"), Stage(read))
    found: list[object] = []
    asked = [name for name in (*OF_BOTH, *OF_THE_KINETO_TRACE) for _ in range(3)]
    threads = [
        threading.Thread(target=lambda name=name: found.append(getattr(linked, name))) for name in asked
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(found), len(reads)) == (len(asked), 1)


def test_a_linked_trace_can_be_pickled(tmp_path: Path) -> None:
    linked = job_of(tmp_path)[0]
    again = pickle.loads(pickle.dumps(linked))
    assert again.coverage == linked.coverage
    assert again.dependencies.equals(linked.dependencies)


def test_it_says_in_a_line_what_it_is(tmp_path: Path) -> None:
    linked = job_of(tmp_path)[0]
    assert len(repr(linked)) < len(str(tmp_path)) + 200
    assert "host_tree" not in repr(linked)
    _ = linked.host_tree
    assert "host_tree" in repr(linked)


# --- Both traces of a rank to one --------------------------------------------------------------------


def test_an_execution_trace_of_another_rank_is_said(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text([op("a", 0, 1, Record_function_id=5)]))
    et = write(tmp_path / "torch_et_3.json", et_text(et_of(node(20, "a", 1001, rf_id=5))))
    found = [finding for finding in link(et, kineto).findings if finding.code == "ranks-differ"]
    assert [finding.path for finding in found] == [str(et)]
    assert "rank 3" in found[0].message
    assert "rank 0" in found[0].message


def test_all_findings_are_those_of_both_traces_and_of_the_link(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text([op("a", 0, 1)])[:-20])
    et = write(tmp_path / "torch_et_3.json", et_text([node(20, "a", 999, rf_id=5)], "9.9.9"))
    codes = [finding.code for finding in link(et, kineto).all_findings]
    assert {"schema-unknown", "parent-missing", "truncated", "ranks-differ"} <= set(codes)


def test_a_timeline_without_any_event_links_to_nothing(tmp_path: Path) -> None:
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text([]))
    linked = link(None, kineto)
    assert linked.host_tree.is_empty()
    assert linked.host_links.is_empty()
    assert linked.device_links.is_empty()
    assert linked.coverage.share == 1.0


def deep(levels: int) -> list[Json]:
    events = [op(f"op{i % 9}", i, 2 * levels - 2 * i + 10, Record_function_id=i + 1) for i in range(levels)]
    return [*events, call("launch", levels, 5, 7), kernel("k", levels + 3, 50, 7)]


@pytest.mark.full
@pytest.mark.slow
def test_deep_nesting_links_and_is_answered_in_linear_time() -> None:
    """Launches and device totals look at the ops around an op, and may not go up level by level."""
    et = et_of(node(20, "op0", 1001, rf_id=1))

    def answered(events: list[Json]) -> tuple[LinkedTrace, pl.DataFrame]:
        linked = linked_of(events, et)
        return linked, ops(linked)

    small, large = deep(1250), deep(10_000)
    assert grows_less(24, answered, small, large), "8 times the levels: 8 times the time, 64 if quadratic"
    linked, table = answered(large)
    assert linked.device_links.get_column("node_id").to_list() == [20]
    assert table.get_column("device_total_ns").to_list() == [50_000] * 9
