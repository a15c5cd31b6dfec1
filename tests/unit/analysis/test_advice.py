"""Advice: each detector finds its planted pattern, a user's own is found through an entry point, and bounds hold."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings

import tracebraid
from tests.planted import Copy, PlannedJob, Scene, Stream, Thread, host_scene, write_ranks
from tests.planted.patterns import PATTERNS
from tests.planted.random_scenes import scenes
from tests.planted.scenes import clean
from tests.planted.training_loop import training_loop
from tracebraid import analyses
from tracebraid.analysis.antipatterns.catalog import job_detectors
from tracebraid.analysis.antipatterns.ranking import profiler_cost
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.api.advising import detectors
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import Advice

ALL = [detector.name for detector in detectors()]
WITHOUT_WAIT = {"hidable-communication", "unbalanced-buckets"}
"""In the programs of these no work waits for the communication: a replay without it gains nothing."""

_LEAST = 0.001
"""Of a step: what is less is the size of a launch."""


@cache
def advice_on(pattern: str) -> Advice:
    scenes = PATTERNS[pattern].scenes
    if len(scenes) == 1:
        return tracebraid.advise(scenes[0].linked(), _LEAST)
    with tempfile.TemporaryDirectory() as folder:
        return tracebraid.advise(tracebraid.open(write_ranks(Path(folder), scenes)), _LEAST)


def covered(advice: Advice) -> list[tuple[str, int]]:
    """The detectors of items that are no part of others, and the time that these cover over all steps."""
    items = advice.items.filter(pl.col("under").is_null())
    ns = (pl.col("bound_per_step_ns") * max(advice.steps, 1)).round().cast(pl.Int64)
    return list(items.select("detector", ns).iter_rows())


EXAMINED = {"interpreter-lock"}
"""Planted in the examination, with threads of its own: `threads_keep_the_interpreter_lock`."""


def test_every_detector_has_its_pattern() -> None:
    assert sorted(PATTERNS) == sorted(set(ALL) - EXAMINED)


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
def test_only_its_detector_finds_a_pattern(pattern: str) -> None:
    found = covered(advice_on(pattern))
    least, most = PATTERNS[pattern].saving_ns
    assert {detector for detector, _ in found} == set() if pattern in WITHOUT_WAIT else {pattern}
    assert pattern in WITHOUT_WAIT or least <= sum(ns for _, ns in found) <= most


@pytest.mark.full(keep=6)
@pytest.mark.parametrize("pattern", sorted(set(PATTERNS) - WITHOUT_WAIT))
def test_evidence_names_events_of_the_trace(pattern: str) -> None:
    evidence = advice_on(pattern).evidence
    assert not evidence.is_empty()
    assert (evidence.get_column("saving_ns") > 0).all()
    long = evidence.get_column("end_ns") - evidence.get_column("start_ns")
    assert (evidence.get_column("saving_ns") <= long).all()


@pytest.mark.slow
@pytest.mark.parametrize("traces", [clean().linked(), training_loop().linked()], ids=["clean", "loop"])
def test_nothing_is_found_where_nothing_is_wrong(traces: LinkedTrace) -> None:
    advice = tracebraid.advise(traces, _LEAST)
    assert advice.items.rows() == []
    assert not advice.is_unanswerable


@pytest.mark.full
@pytest.mark.slow
def test_a_job_is_read_once_however_often_it_is_asked(tmp_path: Path) -> None:
    job = tracebraid.open(write_ranks(tmp_path, PATTERNS["rank-imbalance"].scenes))
    first = tracebraid.advise(job, _LEAST)
    for file in tmp_path.rglob("*.json*"):
        file.unlink()
    assert tracebraid.advise(job, _LEAST).items.equals(first.items)
    assert tracebraid.advise(job, 1.0).items.height <= first.items.height


@pytest.mark.parametrize(
    ("op", "others_ns", "name"),
    [
        ("DragBackward", 10_000, "late-rank"),
        ("DragBackward", 30_000_000, "rank-imbalance"),
        ("aten::addmm", 10_000, "rank-imbalance"),
    ],
)
def test_an_op_that_is_slow_on_one_rank_alone_is_no_uneven_work(
    tmp_path: Path, op: str, others_ns: int, name: str
) -> None:
    job = PlannedJob(3, devices=[])
    for number in range(1, 4):
        with job.step(number):
            for rank, thread in enumerate(job.threads):
                thread.run("aten::mm", 2_000_000)
                thread.run(op, 40_000_000 if rank == 1 else others_ns)
            job.collective(transfer=100_000)
    traces = tracebraid.open(job.write(tmp_path))
    first = tracebraid.advise(traces).items.row(0, named=True)
    assert first["detector"] == name
    lost_ns = 40_000_000 - others_ns
    # Of uneven work, each rank takes its part.
    mended_ns = lost_ns if name == "late-rank" else lost_ns * 2 / 3
    assert first["saving_per_step_ns"] == pytest.approx(mended_ns, rel=0.02)
    if name == "late-rank":
        found = tracebraid.what_if(traces, f"remove name={op} rank=1")
        assert first["saving_per_step_ns"] == pytest.approx(found.gain_ns, rel=0.02)


_SLOW_NS = 5_000_000
_OP_NS = 10_000_000


def host_steps(slow: str, kind: str, steps: int = 3) -> Scene:
    """Steps on the CPU, each with an op and, if it is named, something slow."""
    scene, host = host_scene(devices=())
    for number in range(1, steps + 1):
        with host.step(number):
            host.run("aten::mm", _OP_NS, dims=[[8, 8], [8, 8]])
            if slow:
                with getattr(host, kind)(slow, _SLOW_NS):
                    pass
    return scene


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slow", "kind", "detector"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation", "data-loader"),
        ("torch/utils/data/dataloader.py(630): __next__", "frame", "data-loader"),
        ("torch/serialization.py(900): save", "frame", "recording"),
        ("<built-in function print>", "frame", "recording"),
        ("logging/__init__.py(1478): info", "frame", "recording"),
        ("## metrics:add ##", "annotation", "recording"),
        ("save_checkpoint", "annotation", "recording"),
        ("train.py(10): save_nothing", "frame", "host-work"),
    ],
)
def test_without_a_device_the_hosts_time_counts(slow: str, kind: str, detector: str) -> None:
    advice = tracebraid.advise(host_steps(slow, kind).linked())
    assert covered(advice) == [(detector, 3 * _SLOW_NS)]
    share = pytest.approx(_SLOW_NS / (_SLOW_NS + _OP_NS), rel=0.01)
    assert advice.items.get_column("share").to_list() == [share]
    if detector == "host-work":
        assert advice.items.item(0, "call_site") == slow


@pytest.mark.parametrize(
    ("lines", "site"),
    [
        ((12,), "train.py(12): prepare"),
        ((12, 14, 14), "train.py(14): prepare"),
        ((12, 13, 14), "train.py(10): prepare"),
        ((0, 12, 0), "train.py(10): prepare"),
    ],
)
def test_host_work_is_at_the_line_that_takes_most_of_it(lines: tuple[int, ...], site: str) -> None:
    scene, host = host_scene(devices=())
    for number in range(3):
        with host.step(number):
            host.run("aten::mm", _OP_NS, dims=[[8, 8], [8, 8]])
            with host.frame("train.py(10): prepare", called_from="train.py:30"):
                for line in lines:
                    with host.frame(
                        "<built-in function sleep>", _SLOW_NS, f"train.py:{line}" if line else ""
                    ):
                        pass
    (item,) = tracebraid.advise(scene.linked()).items.iter_rows(named=True)
    assert (item["detector"], item["call_site"], item["count"]) == ("host-work", site, 3)


_PREPARE_NS = 20_000_000


@pytest.mark.parametrize(
    ("own", "own_ns"),
    [("<built-in function sleep>", 30_000_000), ("", 30_000_000), ("", 50_000)],
)
@pytest.mark.parametrize("around_all_steps", [True, False])
def test_of_a_function_that_is_the_step_only_what_it_does_itself_is_saved(
    own: str, own_ns: int, around_all_steps: bool
) -> None:
    step, prepare = "train.py(1): train", "train.py(10): prepare"
    scene, host = host_scene(devices=())
    with host.frame(step) if around_all_steps else nullcontext():
        for number in range(1, 4):
            with host.step(number), nullcontext() if around_all_steps else host.frame(step):
                host.run("aten::mm", _OP_NS, dims=[[8, 8], [8, 8]])
                if own:
                    with host.frame(own, own_ns):
                        pass
                else:
                    host.spend(own_ns)
                with host.frame(prepare, _PREPARE_NS):
                    pass
    items = tracebraid.advise(scene.linked()).items
    found = dict(items.select("call_site", "bound_per_step_ns").iter_rows())
    expected = {prepare: _PREPARE_NS} | ({step: own_ns} if own_ns >= _SLOW_NS else {})
    assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("", "frame", []),
        ("torch/utils/checkpoint.py(200): checkpoint", "frame", ["host-work"]),
        ("CheckpointFunction", "annotation", ["host-work"]),
        ("dialog", "annotation", ["host-work"]),
        ("Optimizer.step#AdamW.step", "annotation", ["host-work"]),
    ],
)
def test_what_is_named_alike_is_something_else(name: str, kind: str, expected: list[str]) -> None:
    found = [detector for detector, _ in covered(tracebraid.advise(host_steps(name, kind).linked()))]
    assert found in ([], expected)


@pytest.mark.slow
def test_compiling_counts_from_the_second_step_on() -> None:
    scene = host_steps("_compile.compile_inner (dynamo_timed)", "annotation")
    assert covered(tracebraid.advise(scene.linked())) == [("recompilation", 2 * _SLOW_NS)]


def test_python_between_compiled_regions_counts_outside_of_ops() -> None:
    scene, host = host_scene(devices=())
    for number in (1, 2):
        with host.step(number):
            host.run("Torch-Compiled Region: 0/0", 1_000_000)
            host.spend(_SLOW_NS)
            host.run("aten::mm", _OP_NS)
            host.run("Torch-Compiled Region: 1/0", 1_000_000)
    assert covered(tracebraid.advise(scene.linked())) == [("graph-break", 2 * _SLOW_NS)]


_LOOP = "train.py(10): loss_by_sample"


def loop_of_short_ops(taken_by_others: int) -> Scene:
    """A step that multiplies row by row and backward; some ops wait for a core that other programs have."""
    scene, host = host_scene(devices=())
    with host.step(1, 1_000):
        done = []
        with host.frame(_LOOP):
            for number in range(200):
                slow = _SLOW_NS if number < taken_by_others else 0
                done.append(host.run("aten::mul", 5_000 + slow, sequence=scene.count("sequence")))
        for forward in reversed(done):
            with host.backward("MulBackward0", forward, host), host.op("aten::mul", 10_000):
                pass
    return scene


@pytest.mark.slow
@pytest.mark.parametrize("taken_by_others", [0, 20])
def test_a_loop_of_short_ops_is_found_also_where_other_programs_compute(taken_by_others: int) -> None:
    advice = tracebraid.advise(loop_of_short_ops(taken_by_others).linked())
    item = advice.items.row(0, named=True)
    assert (item["detector"], item["call_site"]) == ("tiny-ops", _LOOP)


def detectors_of(scene: Scene) -> list[str]:
    return tracebraid.advise(scene.linked()).items.get_column("detector").to_list()


@pytest.mark.slow
def test_large_ops_and_copies_of_objects_are_no_loop_of_short_ops() -> None:
    large, copies = Scene(devices=()), Scene(devices=())
    host = large.thread()
    with host.step(1, 1_000), host.frame(_LOOP):
        for _ in range(100):
            host.run("aten::mm", 1_000_000)
            host.run("aten::view", 2_000)
            host.run("aten::t", 2_000)
    assert "tiny-ops" not in detectors_of(large)
    host = copies.thread()
    with host.step(1, 1_000), host.frame("train.py(10): keep_best"), host.frame("copy.py(128): deepcopy"):
        for _ in range(200):
            host.run("aten::clone", 5_000)
            host.spend(5_000)
    assert {"host-work", "tiny-ops"} & set(detectors_of(copies)) == {"host-work"}


def test_the_backward_pass_of_a_loop_of_short_ops_is_a_part_of_its_cost() -> None:
    forward_ns, backward_ns = 200 * 5_000, 200 * 10_000
    ((detector, ns),) = covered(tracebraid.advise(loop_of_short_ops(0).linked()))
    assert detector == "tiny-ops"
    assert ns == pytest.approx((forward_ns + backward_ns) * 199 / 200, rel=0.001)


@pytest.mark.slow
def test_a_saving_and_its_step_are_both_without_the_profiler() -> None:
    scene = host_steps("train.py(10): dumps", "frame")
    recorded, own = 15_000_000, 5_000_000
    scene.facts = {"untraced_step_median_ns": own}
    advice = tracebraid.advise(scene.linked())
    assert advice.step_ns == pytest.approx(recorded, rel=0.01)
    assert own < advice.own_step_ns < recorded * 0.7
    item = advice.items.row(0, named=True)
    assert item["share"] == pytest.approx(item["saving_per_step_ns"] / advice.own_step_ns)
    assert item["share"] == pytest.approx(_SLOW_NS / recorded, rel=0.01)
    assert item["saving_high_per_step_ns"] <= advice.own_step_ns


def test_nothing_saves_more_than_the_step() -> None:
    scene = host_steps("train.py(10): dumps", "frame")
    scene.facts = {"untraced_step_median_ns": 500_000}
    advice = tracebraid.advise(scene.linked())
    assert advice.items.height
    assert (advice.items.get_column("saving_high_per_step_ns") <= advice.own_step_ns).all()


@pytest.mark.parametrize(("cpu_ns", "most_ns"), [(1_000, 3_000), (500, 6_000), (1, 12_000)])
def test_events_cost_more_where_the_process_had_its_processors_for_a_part_of_the_time(
    cpu_ns: int, most_ns: int
) -> None:
    scene = host_steps("train.py(10): dumps", "frame")
    # Its few events explain a small part of what is missing, at any cost.
    scene.facts = {"untraced_step_median_ns": 1_000_000, "window_ns": 1_000, "cpu_ns": cpu_ns}
    linked = scene.linked()
    cost = profiler_cost(linked, step_windows(linked))
    assert cost is not None
    assert cost.event_ns == most_ns


def test_what_needs_a_device_is_named_where_there_is_none() -> None:
    advice = tracebraid.advise(host_steps("", "frame").linked())
    assert "item-sync" in advice.unavailable
    assert "data-loader" not in advice.unavailable
    assert not advice.is_unanswerable


def _waits_for_nothing(host: Thread, _: Stream, __: int) -> None:
    with host.op("aten::item"), host.op("aten::_local_scalar_dense"):
        host.call("cudaStreamSynchronize", 50_000)


def _copies_beside_work(host: Thread, _: Stream, __: int) -> None:
    with host.op("aten::copy_"):
        host.copy(host.scene.stream(20), Copy.PAGEABLE_TO_DEVICE, 1 << 20, 1_000_000)


def _loads_at_first(host: Thread, _: Stream, number: int) -> None:
    if number == 1:
        host.load_data(20 * _OP_NS)


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "steps"), [(_waits_for_nothing, 4), (_copies_beside_work, 4), (_loads_at_first, 3)]
)
def test_what_delays_no_step_is_no_advice(body: Callable[[Thread, Stream, int], None], steps: int) -> None:
    """The third only delays the warm-up, which is left out."""
    advice = tracebraid.advise(training_loop(body).linked())
    assert (covered(advice), advice.steps) == ([], steps)


@pytest.mark.slow
def test_evidence_names_op_shapes_line_and_step() -> None:
    def read(host: Thread, stream: Stream, _: int) -> None:
        with (
            host.frame("train.py(30): loss_of"),
            host.op("aten::item", dims=[[]]),
            host.op("aten::_local_scalar_dense", dims=[[]]),
        ):
            host.synchronize(stream)
        host.spend(_SLOW_NS)

    advice = tracebraid.advise(training_loop(read).linked())
    item = advice.items.row(0, named=True)
    assert (item["detector"], item["op"], item["call_site"]) == (
        "item-sync",
        "aten::item",
        "train.py(30): loss_of",
    )
    assert item["count"] == item["steps"] == 4
    assert advice.evidence.filter(pl.col("event_id").is_null()).is_empty()
    assert set(advice.evidence.get_column("step")) <= {f"ProfilerStep#{n}" for n in range(1, 5)}


_OWN = len(ALL) - len(job_detectors())
"""Of one rank: those that compare ranks are not asked."""

_MODULE = '''
import polars as pl

import tracebraid


def steps(linked):
    """Steps are too long.

    Do less.
    """
    return tracebraid.analyses.steps(linked).select(
        "start_ns", "end_ns", (pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns"), pl.lit("me").alias("op")
    )


def raises(linked):
    return 1 / 0


def exits(linked):
    raise SystemExit(3)


def no_frame(linked):
    return [1, 2]


def no_times(linked):
    return pl.DataFrame({"op": ["a"]})


def nulls(linked):
    return pl.DataFrame({"start_ns": [1, None], "end_ns": [2, 3], "saving_ns": [1, 1]})


def text(linked):
    return pl.DataFrame({"start_ns": ["x"], "end_ns": ["y"], "saving_ns": ["z"]})


def one_row(saving, start=1, end=100):
    return pl.DataFrame({"start_ns": [start], "end_ns": [end], "saving_ns": [saving]})


def not_a_number(linked):
    return one_row(float("nan"))


def endless(linked):
    return one_row(float("inf"))


def beyond_64_bits(linked):
    return one_row(5, start=-(2**63), end=2**63 - 1)


def too_many(linked):
    return pl.select(start_ns=pl.repeat(0, 1_000_001), end_ns=pl.lit(1), saving_ns=pl.lit(1))


def nowhere(ranks):
    return one_row(5).with_columns(rank=pl.lit(None, dtype=pl.Int64))


nowhere_job = tracebraid.plugins.JobDetector("nowhere", "a title", "a change", nowhere)


def too_much(linked):
    return pl.DataFrame({"start_ns": [100_000, 100_050], "end_ns": [100_010, 5], "saving_ns": [10**6, 5]})


def gather_fails(linked):
    raise RuntimeError("no")


def never(ranks):
    raise AssertionError


job = tracebraid.plugins.JobDetector("my-job", "a title", "a change", never, (gather_fails,))
whole = tracebraid.plugins.Detector("my-detector", "a title", "a change", steps)
clash = tracebraid.plugins.Detector("item-sync", "a title", "a change", steps)
number = 3
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A folder on `sys.path` with a module of detectors; `declare` adds the distribution."""
    (tmp_path / "my_detectors.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_detectors", raising=False)
    return monkeypatch


def declare(folder: Path, **entries: str) -> None:
    info = folder / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[tracebraid.detectors]\n{lines}\n")


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.usefixtures("install")
@pytest.mark.parametrize(
    ("target", "name", "change"), [("steps", "long-steps", "Do less."), ("whole", "my-detector", "a change")]
)
def test_a_function_or_a_detector_is_used_as_any_other(
    tmp_path: Path, target: str, name: str, change: str
) -> None:
    declare(tmp_path, long_steps=f"my_detectors:{target}")
    advice = tracebraid.advise(clean().linked())
    assert advice.items.select("detector", "op", "steps").rows() == [(name, "me", 3)]
    assert advice.detectors[name].change == change
    item = advice.items.row(0, named=True)
    assert item["share"] == pytest.approx(item["saving_per_step_ns"] / advice.step_ns)
    assert advice.findings == ()


@pytest.mark.full(keep=1)
@pytest.mark.slow
@pytest.mark.usefixtures("install")
@pytest.mark.parametrize(
    "value",
    [
        *("raises", "exits", "no_frame", "no_times", "nulls", "text", "absent", "number", "clash", "job"),
        *("not_a_number", "endless", "beyond_64_bits", "too_many"),
    ],
)
def test_one_that_fails_is_a_finding_and_the_others_are_used(tmp_path: Path, value: str) -> None:
    declare(tmp_path, broken=f"my_detectors:{value}", long_steps="my_detectors:steps")
    advice = tracebraid.advise(PATTERNS["item-sync"].scenes[0].linked())
    (finding,) = advice.findings
    assert (finding.code, finding.path) == (FindingCode.DETECTOR_FAILED, "my-package")
    assert advice.items.get_column("detector").to_list() == ["long-steps", "item-sync"]
    if value == "raises":
        assert "my_detectors.py" in finding.where
        assert finding.details["detector"] == "broken"


@pytest.mark.slow
@pytest.mark.usefixtures("install")
def test_a_module_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    declare(tmp_path, broken="no_such_module_of_detectors:steps")
    advice = tracebraid.advise(clean().linked())
    assert [finding.code for finding in advice.findings] == [FindingCode.DETECTOR_FAILED]
    assert len(advice.detectors) == _OWN


@pytest.mark.slow
@pytest.mark.usefixtures("install")
def test_more_than_the_time_is_never_saved(tmp_path: Path) -> None:
    declare(tmp_path, greedy="my_detectors:too_much")
    advice = tracebraid.advise(clean().linked(), 0)
    found = advice.items.filter(pl.col("detector") == "greedy")
    assert found.get_column("saving_ns").to_list() == [10]


@pytest.mark.slow
@pytest.mark.usefixtures("install")
def test_what_is_on_no_rank_is_a_finding(tmp_path: Path) -> None:
    declare(tmp_path, nowhere="my_detectors:nowhere_job")
    advice = tracebraid.advise(clean().linked(), 0)
    assert advice.items.is_empty()
    assert [finding.code for finding in advice.findings] == [FindingCode.DETECTOR_FAILED]


@pytest.mark.slow
@pytest.mark.usefixtures("install")
def test_nothing_is_imported_before_advice_is_asked_for(tmp_path: Path) -> None:
    declare(tmp_path, long_steps="my_detectors:steps")
    analyses.breakdown(clean().linked())
    assert "my_detectors" not in sys.modules
    tracebraid.advise(clean().linked())
    assert "my_detectors" in sys.modules


def test_a_module_in_the_working_folder_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_detectors.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert len(detectors()) == _OWN + len(job_detectors())


def test_names_are_codes_and_each_stands_once() -> None:
    names = [detector.name for detector in detectors()]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and " " not in name and "_" not in name for name in names)
    assert all(detector.title and detector.change for detector in detectors())


@pytest.mark.full
@pytest.mark.slow
@settings(max_examples=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(scenes())
def test_savings_are_bounded_in_any_scene(scene: Scene) -> None:
    advice = tracebraid.advise(scene.linked(), 0)
    by_step = advice.by_step
    assert (by_step.get_column("further_ns") >= 0).all()
    assert (by_step.get_column("further_ns") <= by_step.get_column("saving_ns")).all()
    together = by_step.group_by("step").agg(pl.col("further_ns").sum(), pl.col("step_ns").first())
    assert (together.get_column("further_ns") <= together.get_column("step_ns")).all()
    assert advice.items.get_column("share").is_between(0, 1).all()
