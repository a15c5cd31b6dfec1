"""Does a check say of real traces what is true of them?"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path

import pytest

import tracebraid
from tests.builders import Json
from tests.unit.validation.made import codes, diagnosis
from tracebraid import check
from tracebraid.model.check import Check, Diagnosis
from tracebraid.model.coverage import OrphanReason
from tracebraid.model.finding_code import FindingCode, Severity

pytestmark = pytest.mark.traces


@cache
def checked(path: Path) -> Check:
    return check(path)


@cache
def events_of(path: Path) -> list[Json]:
    return json.loads(gzip.decompress(path.read_bytes()), strict=False)["traceEvents"]


def unattributed(found: Check) -> Diagnosis:
    """The diagnosis of device events without an operator."""
    codes = (FindingCode.LAUNCH_UNKNOWN, FindingCode.LAUNCH_OUTSIDE)
    (one,) = [one for one in found.diagnoses if one.finding.code in codes]
    return one


def shares(found: Check) -> list[tuple[float, float, float]]:
    """Linked shares of host ops, of nodes and of device events, by rank."""
    coverages = [one.coverage for one in found.ranks]
    return [(c.host_ops.share, c.et_nodes.share, c.gpu_events.share) for c in coverages if c is not None]


# --- pairs ------------------------------------------------------------------------------------------


def test_simple_add_links(real_traces: Path) -> None:
    found = checked(real_traces / "pairs/simple_add_a100")
    assert found.links
    assert codes(found) == ["no-steps"]
    assert shares(found) == [(1.0, 1.0, 1.0)]


@pytest.mark.full
def test_dlrm_links_by_alignment_and_lacks_half_of_its_ranks(real_traces: Path) -> None:
    found = checked(real_traces / "pairs/dlrm_v100_8rank")
    (error,) = [one.finding for one in found.diagnoses if one.severity is Severity.ERROR]
    assert (error.code, error.details["missing"]) == ("rank-missing", 4)
    lost = {
        Path(one.finding.path).name: one.finding.count
        for one in found.diagnoses
        if one.finding.code == "launch-unknown"
    }
    assert lost == {"kineto_trace_1.json.gz": 64, "kineto_trace_3.json.gz": 64}
    assert {one.steps for one in found.ranks} == {("ProfilerStep#10",)}
    assert all(nodes == 1.0 for _, nodes, _ in shares(found))
    assert all(0.9 < (one.confidence or 0) < 1.0 for one in found.ranks)


def test_linear_links_by_alignment(real_traces: Path) -> None:
    found = checked(real_traces / "pairs/linear_2080ti")
    assert codes(found) == ["matched", "no-steps"]
    assert found.links
    assert shares(found) == [(1.0, 1.0, 1.0)]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("pair", "errors"),
    [
        ("dlrm_v100_8rank", ["too-old-for-ids"] * 4 + ["rank-missing"]),
        ("linear_2080ti", ["too-old-for-ids"]),
    ],
)
def test_by_ids_alone_traces_from_before_the_ids_do_not_link(
    real_traces: Path, pair: str, errors: list[str]
) -> None:
    """Torch before 2.4 wrote no `Record function id` even while an observer ran, as it did for DLRM."""
    folder = real_traces / "pairs" / pair
    ops = [one for one in events_of(folder / "kineto_trace_0.json.gz") if one.get("cat") == "cpu_op"]
    assert not any("Record function id" in one["args"] for one in ops)
    found = check(folder, matching="exact")
    assert [one.finding.code for one in found.diagnoses if one.severity is Severity.ERROR] == errors


@pytest.mark.full
@pytest.mark.parametrize("pair", ["dlrm_v100_8rank", "linear_2080ti", "simple_add_a100"])
@pytest.mark.parametrize("matching", ["auto", "exact"])
def test_a_check_links_what_link_links(real_traces: Path, pair: str, matching: str) -> None:
    """One judgement, whoever asks."""
    folder = real_traces / "pairs" / pair
    found = check(folder, matching=matching)
    job = tracebraid.open(folder, matching=matching)
    assert [one.coverage for one in found.ranks] == [job[rank].coverage for rank in job.ranks]


# --- pairs of different processes -------------------------------------------------------------------


def swapped(source: Path, folder: Path, ranks: dict[int, int]) -> Path:
    """A folder with each rank's Kineto trace, and beside it the Execution Trace of the rank named."""
    folder.mkdir()
    for rank, other in ranks.items():
        (folder / f"kineto_trace_{rank}.json.gz").symlink_to(source / f"kineto_trace_{rank}.json.gz")
        (folder / f"torch_et_{rank}.json.gz").symlink_to(source / f"torch_et_{other}.json.gz")
    return folder


@pytest.mark.full
def test_two_execution_traces_of_a_run_that_changed_ranks_are_found(
    real_traces: Path, demo: Path, tmp_path: Path
) -> None:
    """The demo has record-function ids, which agree between its ranks; DLRM has none."""
    pairs = {
        "demo": (demo, {0: 1, 1: 0}),
        "dlrm": (real_traces / "pairs/dlrm_v100_8rank", {0: 1, 1: 0, 2: 2}),
    }
    for name, (source, ranks) in pairs.items():
        found = check(swapped(source, tmp_path / name, ranks))
        files = [Path(one.finding.path).name for one in found.diagnoses if one.finding.code == "another-rank"]
        assert files == ["torch_et_0.json.gz", "torch_et_1.json.gz"], name
        assert not found.links
        for one in found.ranks[:2]:
            assert one.coverage is not None
            assert "record_function_id" not in one.coverage.host_ops.by_method
            assert one.coverage.et_nodes.share > 0.99, name


def test_the_execution_trace_of_another_run_links_nothing_by_ids(real_traces: Path, demo: Path) -> None:
    """Ids of all runs count from one, so that some agree by chance, and some of these in name."""
    linked = tracebraid.link(
        real_traces / "et/resnet_2gpu_1.1.0.json.gz", demo / "kineto_trace_0.json.gz", matching="exact"
    )
    assert linked.coverage.host_ops.linked == 0
    assert [one.code for one in linked.findings if one.code.startswith("another")] == ["another-run"]
    assert {one.reason for one in linked.coverage.orphans if one.kind == "host_op"} == {
        OrphanReason.ANOTHER_RUN
    }


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("size", ["resnet_1gpu_1.0.3", "resnet_2gpu_1.1.0"])
def test_traces_of_two_runs_do_not_link(real_traces: Path, demo: Path, tmp_path: Path, size: str) -> None:
    """Ids of all runs count from one, so that some agree by chance, and some of these in name."""
    (tmp_path / "torch_et_0.json.gz").symlink_to(real_traces / f"et/{size}.json.gz")
    (tmp_path / "kineto_trace_0.json.gz").symlink_to(demo / "kineto_trace_0.json.gz")
    found = check(tmp_path)
    assert not found.links
    assert {"another-run", "another-program"} <= set(codes(found))
    assert found.ranks[0].coverage is not None
    assert found.ranks[0].coverage.host_ops.linked == 0


# --- files alone ------------------------------------------------------------------------------------

LAUNCHES = "some code for device events without an operator"
ALONE = {
    "a100_alexnet_cuda_sync": ["no-steps"],
    "a100_cupti_counters": ["device-events-missing", "no-steps"],
    "a100_ddp_nccl_rank0of2": [],
    "a100_event_sync": [],
    "a100_event_sync_multi_stream": ["no-steps"],
    "cpu_only_rank34": [],
    "h100_qwen_stack_memory": [LAUNCHES, "rank-unknown"],
    "mi250_minitoy_train": ["warmup-caught", "rank-unknown"],
    "mi300x_compile_triton": ["rank-unknown", "no-steps"],
    "mi300x_decode_graph_launch": ["frame-end-late", "no-steps"],
    "mi300x_qwen_stack_memory": [LAUNCHES, "rank-unknown", "frame-end-late"],
    "mtia_inference": [LAUNCHES, "rank-unknown", "op-unfinished", "no-steps"],
    "no_distributed_info": ["rank-unknown"],
    "sampled_2_of_128/sampled_rank-0": [],
    "sampled_2_of_128/sampled_rank-1": [],
    "triton_example": ["outlasts-trace", "rank-unknown"],
    "v100_rank1of2_54MB": [],
}
LARGE = "v100_rank1of2_54MB"


def test_no_file_of_the_folder_is_left_out(real_traces: Path) -> None:
    there = (real_traces / "kineto").rglob("*.json.gz")
    assert {str(one.relative_to(real_traces / "kineto")).removesuffix(".json.gz") for one in there} == set(
        ALONE
    )


@pytest.mark.parametrize("name", ALONE)
def test_a_timeline_alone_is_told_its_faults(real_traces: Path, name: str) -> None:
    found = checked(real_traces / f"kineto/{name}.json.gz")
    expected = [unattributed(found).finding.code if code == LAUNCHES else code for code in ALONE[name]]
    assert codes(found) == expected
    assert found.links


@pytest.mark.parametrize("name", [name for name in ALONE if name != LARGE])
def test_steps_unfinished_ops_and_unknown_launches_are_those_of_the_file(
    real_traces: Path, name: str
) -> None:
    """Counted from the file's own events, by the plainest of means."""
    path = real_traces / f"kineto/{name}.json.gz"
    events, found = events_of(path), checked(path)
    host = [one for one in events if one.get("cat") in ("cpu_op", "user_annotation") and one.get("ph") == "X"]
    steps = sorted(
        (one for one in host if one["name"].startswith("ProfilerStep#")), key=lambda one: one["ts"]
    )
    assert [one["name"] for one in steps] == list(found.ranks[0].steps)
    count = {one.finding.code: one.finding.count for one in found.diagnoses}
    assert count.get(FindingCode.OP_UNFINISHED, 0) == sum(
        one["args"].get("finished") in (False, "false") for one in host if "args" in one
    )
    calls = {
        one["args"].get("correlation")
        for one in events
        if str(one.get("cat")).endswith(("_runtime", "_driver"))
    }
    device = [
        one["args"].get("correlation")
        for one in events
        if one.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    assert (unattributed(found).finding.count if LAUNCHES in ALONE[name] else 0) >= sum(
        one not in calls for one in device
    )


@pytest.mark.parametrize("name", ["h100_qwen_stack_memory", "mi300x_qwen_stack_memory"])
def test_kernels_without_a_call_ran_before_the_first_call_s_kernels(real_traces: Path, name: str) -> None:
    """They were launched before the profiler started, as the finding says."""
    path = real_traces / f"kineto/{name}.json.gz"
    one = unattributed(checked(path))
    assert one.finding.details["reason"] is OrphanReason.NO_CALL
    calls = {
        e["args"].get("correlation")
        for e in events_of(path)
        if e.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    device = [e for e in events_of(path) if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    late = min(e["ts"] for e in device if e["args"]["correlation"] in calls)
    assert all(e["ts"] < late for e in device if e["args"]["correlation"] not in calls)


def test_launches_outside_of_ops_are_not_blamed_on_the_profiler(real_traces: Path) -> None:
    one = unattributed(checked(real_traces / "kineto/mtia_inference.json.gz"))
    assert one.finding.details["reason"] is OrphanReason.OUTSIDE_OF_OPS
    assert "it drops launches" not in one.advice


def test_a_first_step_that_took_189_times_as_long_is_a_warm_up(real_traces: Path) -> None:
    one = diagnosis(checked(real_traces / "kineto/mi250_minitoy_train.json.gz"), "warmup-caught")
    assert one.finding.message.startswith("ProfilerStep#1 took 189.3 times as long")


@pytest.mark.parametrize("name", ["resnet_1gpu_1.0.3", "resnet_2gpu_1.1.0"])
def test_an_execution_trace_alone_is_sound(real_traces: Path, name: str) -> None:
    assert codes(checked(real_traces / f"et/{name}.json.gz")) == []


# --- folders ----------------------------------------------------------------------------------------


def test_two_sampled_ranks_of_128_miss_the_others_and_nothing_else(real_traces: Path) -> None:
    found = checked(real_traces / "kineto/sampled_2_of_128")
    assert codes(found) == ["rank-missing"]
    assert found.diagnoses[0].finding.details["missing"] == 126
    assert [one.rank for one in found.ranks] == [0, 1]


@pytest.mark.full
def test_a_folder_of_many_runs_is_seen_as_such(real_traces: Path) -> None:
    found = checked(real_traces / "kineto")
    assert not found.links
    assert {"world-differs", "rank-missing", "rank-claimed-twice", "steps-differ"} <= set(codes(found))
