"""What a trace does not show: no command answers from it, and the first line says so. Sound traces are not doubted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracebraid
from tests.builders import Json, call, kernel, kineto_text, op, write
from tests.cases import cases
from tests.integration.command import run
from tests.planted.equal_steps import is_device, steps, without
from tracebraid import analyses
from tracebraid.analysis.catalog import rank_analyses
from tracebraid.errors import InputError
from tracebraid.model.analysis import Need
from tracebraid.model.gaps import Gap

KINDS = {
    "cuda": ("cuda_runtime", "cudaLaunchKernel", "cudaMemcpyAsync"),
    "hip": ("cuda_runtime", "hipLaunchKernel", "hipMemcpyAsync"),
    "xpu": ("xpu_runtime", "urEnqueueKernelLaunchWithArgsExp", "urEnqueueUSMMemcpy"),
    "level zero": ("xpu_driver", "zeCommandListAppendLaunchKernel", "zeCommandListAppendMemoryCopy"),
    "private use": ("privateuse1_runtime", "aclrtLaunchKernel", "aclrtMemcpyAsync"),
    "mtia": ("mtia_runtime", "mtiaLaunchKernel", "mtiaMemcpy"),
}
"""Of each kind of device: the category of its calls, one that launches, one that copies."""
COMMANDS = ("summary", "advise", "analyze breakdown", "analyze ops", "analyze kernels", "metrics")
FIRST = "In doubt: "
NO_WORK = "many launches have no work"


def of_kind(kind: str, copies: bool) -> list[Json]:
    """Three steps of ten products whose kernels are not in the trace, and one copy, whose work may be."""
    category, launch, copying = KINDS[kind]
    events: list[Json] = []
    for step in range(3):
        begin = 1000 * step
        events.append(op(f"ProfilerStep#{step}", begin, 1000, cat="user_annotation"))
        for i in range(11):
            at, correlation = begin + 50 + 80 * i, 100 * step + i + 1
            name = "aten::mm" if i < 10 else "aten::copy_"
            events.append(op(name, at, 60))
            events.append({**call(launch if i < 10 else copying, at + 10, 5, correlation), "cat": category})
        if copies:
            events.append({**kernel("Memcpy HtoD", begin + 900, 10, 100 * step + 11), "cat": "gpu_memcpy"})
    return events


@pytest.fixture(params=[(kind, copies) for kind in KINDS for copies in (False, True)], ids=str)
def lost(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / "trace_rank0.json", kineto_text(of_kind(*request.param)))


def test_no_answer_is_made_of_what_the_host_alone_did(lost: Path) -> None:
    [linked] = tracebraid.open(lost).each(lambda linked: linked)
    [found] = linked.gaps
    assert (found.gap, found.steps, found.count) == (
        Gap.DEVICE_EVENTS_MISSING,
        tuple(f"ProfilerStep#{step}" for step in range(3)),
        30,
    )
    assert found.is_whole
    for analysis in rank_analyses():
        if {Need.DEVICE_WORK} & {*analysis.needs, *analysis.uses}:
            assert analysis.answer(linked).is_empty(), analysis.name
            assert analyses.analyze(analysis.name, linked).is_unanswerable, analysis.name
    with pytest.raises(InputError, match=NO_WORK):
        tracebraid.dependency_graph(linked)
    with pytest.raises(InputError, match=NO_WORK):
        tracebraid.diff(linked, linked)
    advice = tracebraid.advise(linked)
    assert advice.is_unknown
    assert advice.items.is_empty()


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_line_says_it_and_there_is_no_figure(lost: Path, command: str) -> None:
    done = run(*command.split(), lost)
    first, *rest = done.stdout.splitlines()
    assert first.startswith(FIRST)
    assert NO_WORK in first
    assert "%" not in "".join(rest)
    assert NO_WORK not in "".join(rest) + done.stderr


@pytest.mark.full(keep=3)
def test_the_page_says_it_in_place_of_a_verdict(lost: Path) -> None:
    text = run("report", lost, "--text").stdout
    verdict = text.partition("What bounds the step\n")[2]
    assert verdict.partition("\n\n")[2].startswith(FIRST)
    assert "Step time" not in text


@pytest.mark.full(keep=3)
def test_check_and_machines_hear_it(lost: Path) -> None:
    assert run("check", lost).stdout.startswith(FIRST)
    for command in ("summary", "check", "advise"):
        found = json.loads(run(command, lost, "--json").stdout)
        assert [finding["code"] for finding in found["findings"]] == ["device-events-missing"]


@pytest.mark.full(keep=3)
def test_a_store_answers_no_more_than_its_traces(lost: Path, tmp_path: Path) -> None:
    tracebraid.pack(lost, tmp_path / "store")
    job = tracebraid.open(tmp_path / "store")
    assert analyses.analyze("breakdown", job).is_unanswerable
    assert [found.gap for found in job[0].gaps] == [Gap.DEVICE_EVENTS_MISSING]
    assert run("summary", tmp_path / "store").stdout == run("summary", lost).stdout


def test_a_gap_of_one_step_is_said_and_the_others_are_answered(tmp_path: Path) -> None:
    events = without(steps(4), lambda e: is_device(e) and 1000 <= e["ts"] < 2000)
    path = write(tmp_path / "trace_rank0.json", kineto_text(events))
    linked = tracebraid.open(path)[0]
    [found] = linked.gaps
    assert (found.gap, found.is_whole, linked.hidden) == (Gap.DEVICE_EVENTS_MISSING, False, frozenset())
    done = run("summary", path)
    assert done.stdout.startswith(FIRST)
    assert "Where the time goes" in done.stdout


CPU = [op("ProfilerStep#1", 0, 100, cat="user_annotation"), op("aten::mm", 10, 50)]


@cases(
    "events",
    {
        "work of each launch": steps(4),
        "a program on the CPU": CPU,
        "a machine with a device that the program does not use": [
            *CPU,
            call("cudaGetDeviceCount", 5, 2, 3),
            call("cudaDeviceSynchronize", 90, 2, 4),
        ],
        "launches without correlations": [
            *CPU,
            {**call("myLaunchKernel", 20, 5, 0), "args": {}},
            kernel("gemm", 30, 20, 7),
        ],
    },
)
def test_sound_traces_have_no_gap(events: list[Json], tmp_path: Path) -> None:
    path = write(tmp_path / "trace_rank0.json", kineto_text(events))
    assert tracebraid.open(path)[0].gaps == ()
    assert FIRST not in run("summary", path).stdout


@cases(
    "world, kernels, is_unseen",
    {
        "a kernel that nobody knows": (64, ["sgemm_128x64_nn", "vendor_moe_exchange<8>"], True),
        "in a rank alone": (1, ["sgemm_128x64_nn", "vendor_moe_exchange<8>"], False),
        "in a rank of a job of unknown size": (None, ["sgemm_128x64_nn", "vendor_moe_exchange<8>"], False),
        "all are known": (64, ["sgemm_128x64_nn", "triton_poi_fused_add_0"], False),
        "one that is known communicates": (
            64,
            ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "vendor_x"],
            False,
        ),
        "expert parallelism": (64, ["void uccl::ep::internode::dispatch<8>(int*)", "vendor_x"], False),
    },
)
def test_no_communication_is_no_answer_where_kernels_are_unknown(
    tmp_path: Path, world: int | None, kernels: list[str], is_unseen: bool
) -> None:
    """Times of the steps are as they were: only what is said of communication is doubted."""
    events: list[Json] = []
    for step in range(20):
        begin = 1000 * step
        events.append(op(f"ProfilerStep#{step}", begin, 900, cat="user_annotation"))
        for i, name in enumerate(kernels):
            correlation = 10 * step + i + 1
            events.append(call("cudaLaunchKernel", begin + 10 + 20 * i, 5, correlation))
            events.append(kernel(name, begin + 100 + 300 * i, 300, correlation))
    about = {} if world is None else {"distributedInfo": {"rank": 0, "world_size": world}}
    path = write(tmp_path / "trace_rank0.json", kineto_text(events, about))
    job = tracebraid.open(path)
    gaps = job[0].gaps
    assert [found.gap for found in gaps] == [Gap.COMMUNICATION_UNSEEN] * is_unseen
    assert analyses.validity(job).is_empty()
    times = analyses.breakdown(job)
    parts = times.select("communication_ns", "overlap_ns", "exposed_communication_ns")
    assert set(parts.null_count().row(0)) == {times.height if is_unseen else 0}
    assert not times.get_column("compute_ns").null_count()
    share = tracebraid.metrics(job, only=["communication_share"]).get_column("value").to_list()
    assert (share[0] is None) is is_unseen
    assert run("summary", str(path)).stdout.startswith(FIRST) is is_unseen


PAUSE = [op("aten::mm", 50, 200), op("aten::mm", 750, 200)]
"""Half a millisecond of nothing between two ops."""


def marked(step: int, *marks: tuple[int, int]) -> list[Json]:
    """A step, and further marks in it, as of a profiler of the program."""
    begin = 1000 * step
    spans = [(step, 0, 1000), *((1000 + 2 * step + i, at, end - at) for i, (at, end) in enumerate(marks))]
    found = [op(f"ProfilerStep#{i}", begin + at, dur, cat="user_annotation") for i, at, dur in spans]
    return [*found, *({**event, "ts": event["ts"] + begin} for event in PAUSE)]


def test_marks_that_are_left_out_divide_no_pause(tmp_path: Path) -> None:
    savings = []
    for name, marks in {"one": [], "two": [(270, 500), (500, 740)]}.items():
        events = [event for step in range(4) for event in marked(step, *marks)]
        path = write(tmp_path / f"{name}_rank0.json", kineto_text(events))
        items = tracebraid.advise(tracebraid.open(path)).items
        savings.append(items.filter(detector="host-work").select("saving_ns", "count").row(0))
    # Costs of recording are fitted to all events.
    assert savings[1] == pytest.approx(savings[0], rel=0.02)


@pytest.mark.parametrize("with_frames", [False, True])
def test_a_path_is_outside_of_all_that_was_recorded_only_without_frames(
    tmp_path: Path, with_frames: bool
) -> None:
    """A function that was called before the mark of the step, and ends in it, was recorded."""
    frame = {"Python id": 1, "Python parent id": None}
    events = [event for step in range(4) for event in marked(step)]
    for step in range(4) if with_frames else ():
        called = op("train.py(10): main", 1000 * step - 1, 1000, cat="python_function")
        events.append({**called, "args": {**frame, "Python id": step}})
    path = write(tmp_path / "trace_rank0.json", kineto_text(events))
    told = run("critical-path", path).stdout
    assert ("outside of all that was recorded" in told) is not with_frames
    assert ("capture --stacks" in told) is not with_frames
