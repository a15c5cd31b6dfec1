"""Inference: its iterations by annotations and by shapes, batch sizes, the time of a token, and replays of graphs."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from tests.cases import cases
from tests.planted import CALL_NS, LATENCY_NS, Scene, Stream, Thread, device_scene, host_scene
from tests.planted.scenes import clean
from tests.planted.serving import HEADS, WIDTH, annotated, attend, forward
from tests.unit.linking.made import row_of
from tracebraid.analyses import batch_sizes, graph_replays, inference_phases, token_times
from tracebraid.analysis.inference.markers import marker_of
from tracebraid.model.answers.efficiency import Phase, PhaseEvidence

Counts = tuple[int | None, ...]
DETAILED = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"


@pytest.mark.parametrize(
    ("name", "phase", "evidence", "context", "generation", "batch"),
    [
        ("execute_context_1(1024)_generation_0(0)", "prefill", "VLLM", (1, 1024), (0, 0), (1, 1024)),
        ("execute_context_0(0)_generation_8(8)", "decode", "VLLM", (0, 0), (8, 8), (8, 8)),
        ("execute_context_2(100)_generation_3(3)", "mixed", "VLLM", (2, 100), (3, 3), (5, 103)),
        ("execute_context_0(0)_generation_0(0)", "idle", "VLLM", (0, 0), (0, 0), (0, 0)),
        (DETAILED, "decode", "VLLM", (0, 0), (32, 32), (32, 32)),
        ("execute_new_2_cached_0", "prefill", "VLLM", (2, None), (0, 0), (2, None)),
        ("execute_new_0_cached_4", "decode", "VLLM", (None, None), (None, None), (4, None)),
        ("execute_new_1_cached_4", "mixed", "VLLM", (None, None), (None, None), (5, None)),
        ("step[EXTEND bs=4 toks=512]", "prefill", "SGLANG", (4, 512), (0, 0), (4, 512)),
        ("step[EXTEND bs=1 toks=9 c_sqsq=81 c_sqsk=81 c_sk=9]", "prefill", "SGLANG", (1, 9), (0, 0), (1, 9)),
        ("step[DECODE bs=32]", "decode", "SGLANG", (0, 0), (32, 32), (32, 32)),
        ("step[TARGET_VERIFY bs=3]", "decode", "SGLANG", (0, 0), (3, None), (3, None)),
        ("step[DRAFT_EXTEND bs=3]", "draft", "SGLANG", (0, 0), (3, None), (3, None)),
        ("step[MIXED bs=2]", "mixed", "SGLANG", (None, None), (None, None), (2, None)),
        (
            "step[MIXED bs=9 c=1 g=8 c_sq=512 c_sk=9 g_sq=8 g_sk=7]",
            "mixed",
            "SGLANG",
            (1, 512),
            (8, 8),
            (9, 520),
        ),
        ("step[IDLE bs=0]", "idle", "SGLANG", (0, 0), (0, 0), (0, 0)),
        ("prefill[bs=2 tok=14721 ctx=[7803, 6918]]", "prefill", "ATOM", (2, 14721), (0, 0), (2, 14721)),
        ("decode[bs=117/128 tok=117 d=117]", "decode", "ATOM", (0, 0), (117, 117), (117, 117)),
        ("eager_decode[bs=3 tok=3 d=3]", "decode", "ATOM", (0, 0), (3, 3), (3, 3)),
        ("draft[1/3 bs=8]", "draft", "ATOM", (0, 0), (8, None), (8, None)),
        (
            "[Executor] _forward_step 12: 1 ctx reqs, 100 ctx tokens, 5 gen reqs",
            "mixed",
            "TENSORRT_LLM",
            (1, 100),
            (5, 5),
            (6, 105),
        ),
        (
            "[Executor] _forward_step 3: 2 ctx reqs, 0 gen reqs",
            "prefill",
            "TENSORRT_LLM",
            (2, None),
            (0, 0),
            (2, None),
        ),
        (
            "[Executor] _forward_step 3: 0 ctx reqs, 7 gen reqs",
            "decode",
            "TENSORRT_LLM",
            (0, 0),
            (7, 7),
            (7, 7),
        ),
        ("prefill", "prefill", "WORD", (None, None), (None, None), (None, None)),
        ("## Decode step 3 ##", "decode", "WORD", (None, None), (None, None), (None, None)),
        ("model_decode", "decode", "WORD", (None, None), (None, None), (None, None)),
    ],
)
def test_an_iteration_is_read_from_its_name(
    name: str, phase: str, evidence: str, context: Counts, generation: Counts, batch: Counts
) -> None:
    found = marker_of(name)
    assert found is not None
    assert (found.phase, found.evidence) == (Phase(phase), PhaseEvidence[evidence])
    assert (found.context_requests, found.context_tokens) == context
    assert (found.generation_requests, found.generation_tokens) == generation
    assert (found.requests, found.tokens) == batch


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "ProfilerStep#3",
            "## decoder fp8 None ##",
            "decode jpeg",
            "image_decode",
            "prefill and decode",
        ),
        *("execute_context", "step[WARMUP bs=3]", "nccl:all_reduce", "list.extend", "generation"),
    ],
)
def test_other_annotations_are_no_iterations(name: str) -> None:
    assert marker_of(name) is None


def test_engines_are_trusted_more_than_words() -> None:
    names = ["step[DECODE bs=1]", "execute_new_0_cached_1", "decode"]
    confidence = [found.confidence for name in names if (found := marker_of(name)) is not None]
    assert confidence == sorted(set(confidence), reverse=True)
    assert len(confidence) == 3


def test_each_annotation_is_an_iteration_with_its_times() -> None:
    scene, planted = annotated(["step[EXTEND bs=1 toks=9]", "step[DECODE bs=1]", "step[DECODE bs=1]"])
    found = inference_phases(scene.linked())
    assert found.get_column("phase").to_list() == ["prefill", "decode", "decode"]
    times = found.select("event_id", "start_ns", "host_ns", "span_ns").rows()
    assert times == [(p.event_id, p.ts, p.dur, p.dur) for p in planted]
    assert found.get_column("interval_ns").to_list() == [planted[1].ts - planted[0].ts] * 2 + [None]
    assert found.select("kernels", "device_ns", "graph_ns").unique().rows() == [(1, 10_000, 0)]


def test_an_iteration_lasts_until_its_last_work_ends() -> None:
    scene, host = host_scene()
    with host.annotation("step[DECODE bs=2]") as planted:
        work = host.launch(scene.stream(7), "k", 50_000)
    row = inference_phases(scene.linked()).row(0, named=True)
    assert (row["host_ns"], row["span_ns"]) == (CALL_NS, work.end - planted.ts)
    assert work.end - planted.ts == CALL_NS + LATENCY_NS + 50_000


@cases(
    "outer, inner, evidence",
    {
        "the outermost counts": (
            "execute_context_0(0)_generation_4(4)",
            "step[DECODE bs=4]",
            "annotation-vllm",
        ),
        "words count only where no engine wrote": ("decode", "step[DECODE bs=4]", "annotation-sglang"),
    },
)
def test_of_annotations_inside_each_other_one_counts(outer: str, inner: str, evidence: str) -> None:
    scene, host = host_scene()
    for _ in range(2):
        with host.annotation(outer), host.annotation(inner, 5_000):
            pass
    assert inference_phases(scene.linked()).get_column("evidence").to_list() == [evidence] * 2


def test_words_count_where_nothing_else_is_there() -> None:
    scene, _ = annotated(["prefill", "decode"])
    found = inference_phases(scene.linked())
    assert found.get_column("phase").to_list() == ["prefill", "decode"]
    assert found.get_column("tokens").to_list() == [None, None]
    assert (found.get_column("confidence") < 1).all()


def test_words_do_not_count_in_training() -> None:
    scene = clean()
    with scene.thread(start=scene.threads[0].now).annotation("decode", 10):
        pass
    assert inference_phases(scene.linked()).is_empty()


def test_work_that_another_thread_launches_meanwhile_is_not_of_the_iteration() -> None:
    scene = Scene()
    host, other = scene.thread(), scene.thread(start=1_000)
    with host.annotation("step[DECODE bs=1]", 100_000):
        pass
    other.launch(scene.stream(9), "k", 10)
    assert inference_phases(scene.linked()).get_column("kernels").to_list() == [0]


def test_the_work_of_a_graph_is_known_by_its_launch() -> None:
    scene, host = host_scene()
    with host.annotation("step[DECODE bs=1]"):
        host.launch(scene.stream(7), "k", 30)
        host.replay(scene.stream(7), [("a", 10), ("b", 20)])
    row = inference_phases(scene.linked()).row(0, named=True)
    assert (row["kernels"], row["device_ns"], row["graph_ns"]) == (3, 60, 30)


def test_iterations_have_the_step_in_which_they_start() -> None:
    scene, host = host_scene()
    with host.step(4), host.annotation("step[DECODE bs=1]", 10):
        pass
    with host.annotation("step[DECODE bs=1]", 10):
        pass
    assert inference_phases(scene.linked()).get_column("step").to_list() == ["ProfilerStep#4", None]


def test_two_iterations_without_length_are_both_there() -> None:
    scene, _ = annotated([])
    host = scene.thread(start=5)
    for _ in range(2):
        with host.annotation("step[DECODE bs=1]"):
            pass
        host.spend(10)
    found = inference_phases(scene.linked())
    assert found.select("host_ns", "span_ns").rows() == [(0, 0)] * 2


def test_training_has_no_iterations_and_no_replays() -> None:
    linked = clean().linked()
    for answer in (inference_phases, batch_sizes, token_times, graph_replays):
        assert answer(linked).is_empty()


def test_counts_are_in_their_columns() -> None:
    scene, planted = annotated(["execute_context_2(100)_generation_3(3)"])
    row = row_of(inference_phases(scene.linked()), event_id=planted[0].event_id)
    names = [f"{of}{kind}" for kind in ("requests", "tokens") for of in ("", "context_", "generation_")]
    assert [row[name] for name in names] == [5, 2, 3, 103, 100, 3]
    scene, _ = annotated([f"step[EXTEND bs=2 toks={'9' * 30}]"])
    assert inference_phases(scene.linked()).select("requests", "tokens").rows() == [(2, None)], (
        "no column holds it"
    )


def test_a_prompt_and_the_tokens_after_it() -> None:
    scene, host, stream = device_scene()
    forward(host, stream, batch=3, queries=16, keys=16)
    for length in (17, 18):
        forward(host, stream, batch=3, queries=1, keys=length)
    found = inference_phases(scene.linked())
    assert found.get_column("phase").to_list() == ["prefill", "decode", "decode"]
    assert found.get_column("requests").to_list() == [3, 3, 3]
    assert found.get_column("tokens").to_list() == [48, 3, 3]
    assert found.get_column("kernels").to_list() == [2, 2, 2]
    assert found.get_column("start_ns").to_list() == [op.ts for op in scene.of("aten::embedding")]
    assert set(found.get_column("evidence")) == {"shapes"}
    assert (found.get_column("confidence") < 1).all()


Body = Callable[[Thread, Stream], object]


def _lookup(host: Thread, batch: int, queries: int, **more: int) -> None:
    host.run("aten::embedding", 1_000, dims=[[100, 16], [batch, queries]], **more)


def _looks_up_twice(host: Thread, stream: Stream) -> None:
    for _ in range(2):
        _lookup(host, 2, 4)
        forward(host, stream, batch=2, queries=4, keys=4)


def _encodes_in_between(host: Thread, stream: Stream) -> None:
    forward(host, stream, batch=1, queries=1, keys=9)
    attend(host, stream, 1, 64, 64, causal=False)
    forward(host, stream, batch=1, queries=1, keys=10)


def _is_recorded(host: Thread, stream: Stream) -> None:
    _lookup(host, 1, 8, sequence=1)
    attend(host, stream, 1, 8, 8)


def _only_encodes(host: Thread, stream: Stream) -> None:
    _lookup(host, 1, 8)
    attend(host, stream, 1, 8, 8, causal=False)


@cases(
    "body, rows",
    {
        "a cache of fixed length": (
            lambda host, stream: [forward(host, stream, batch=1, queries=1, keys=128) for _ in range(4)],
            [("decode", 1, 2)] * 4,
        ),
        "two lookups begin one iteration": (_looks_up_twice, [("prefill", 8, 2)] * 2),
        "without lookups, where keys grow": (
            lambda host, stream: [attend(host, stream, 2, 1, keys) for keys in (17, 17, 18, 18, 19)],
            [("decode", 2, 2), ("decode", 2, 2), ("decode", 2, 1)],
        ),
        "a chunk of a prompt": (
            lambda host, stream: forward(host, stream, batch=1, queries=8, keys=32),
            [("prefill", 8, 2)],
        ),
        "an encoder before the prompt": (_encodes_in_between, [("decode", 1, 3), ("decode", 1, 2)]),
        "autograd records it": (_is_recorded, []),
        "an encoder alone": (_only_encodes, []),
        "attention to other tokens": (
            lambda host, stream: [attend(host, stream, 2, n, 77, causal=False) for n in (64, 4096)],
            [],
        ),
    },
)
def test_iterations_by_shapes(body: Body, rows: list[tuple[object, ...]]) -> None:
    scene = Scene()
    body(scene.thread(), scene.stream(7))
    assert inference_phases(scene.linked()).select("phase", "tokens", "kernels").rows() == rows


@pytest.mark.parametrize(("requests", "tokens", "phase"), [(4, 4, "decode"), (4, 60, "prefill")])
def test_tokens_of_all_requests_in_a_single_axis(requests: int, tokens: int, phase: str) -> None:
    scene, host = host_scene()
    host.run("aten::embedding", 10, dims=[[100, 16], [tokens]])
    query, starts = [tokens, HEADS, WIDTH], [requests + 1]
    host.run("flash_attn::_flash_attn_varlen_forward", 10, dims=[query, query, query, starts, starts])
    row = inference_phases(scene.linked()).row(0, named=True)
    assert (row["phase"], row["requests"], row["tokens"]) == (phase, requests, tokens)


def test_training_has_no_iterations() -> None:
    scene, host = host_scene()
    number = scene.count("sequence")
    forward(host, scene.stream(7), batch=1, queries=8, keys=8)
    with host.op("aten::mm", 10, sequence=number) as op:
        pass
    with host.backward("MmBackward0", op, host, 10):
        pass
    assert inference_phases(scene.linked()).is_empty()


@pytest.mark.parametrize(
    "dims",
    [
        *([], [[]], [[1, 2, 1, 8]], [[1, 2, 1], [1, 2, 5, 8]], [[[1, 2]], [[3]]], ["x", "y"]),
        *([[-1, 2, 1, 8], [-1, 2, 5, 8]], [[2**60, 2**60, 1, 8], [2**60, 2**60, 5, 8]]),
    ],
)
def test_damaged_shapes_say_nothing(dims: list[object]) -> None:
    scene = Scene()
    scene.thread().run("aten::scaled_dot_product_attention", 5, dims=dims, strides=[])
    assert inference_phases(scene.linked()).is_empty()


def test_annotations_count_before_shapes() -> None:
    scene, host = host_scene()
    with host.annotation("step[DECODE bs=7]"):
        forward(host, scene.stream(7), batch=1, queries=8, keys=8)
    found = inference_phases(scene.linked())
    assert found.get_column("evidence").to_list() == ["annotation-sglang"]


def test_the_end_is_that_of_the_last_op_before_the_next_iteration() -> None:
    scene, host, stream = device_scene()
    forward(host, stream, batch=1, queries=8, keys=8)
    host.synchronize(stream)
    sampled = host.run("aten::argmax", 500)
    host.spend(10_000)
    forward(host, stream, batch=1, queries=1, keys=9)
    row = inference_phases(scene.linked()).row(0, named=True)
    assert row["start_ns"] + row["host_ns"] == sampled.end


def test_iterations_of_the_same_size_make_a_stretch() -> None:
    names = [
        "step[EXTEND bs=2 toks=64]",
        *["step[DECODE bs=2]"] * 3,
        "step[DECODE bs=1]",
        "step[DECODE bs=2]",
    ]
    scene, planted = annotated(names)
    found = batch_sizes(scene.linked())
    assert found.select("phase", "requests", "iterations", "tokens").rows() == [
        ("prefill", 2, 1, 64),
        ("decode", 2, 3, 6),
        ("decode", 1, 1, 1),
        ("decode", 2, 1, 2),
    ]
    assert found.row(1, named=True)["start_ns"] == planted[1].ts
    assert found.row(1, named=True)["span_ns"] == planted[3].end - planted[1].ts


def test_a_step_ends_a_stretch() -> None:
    scene, host = host_scene()
    for number in (1, 2):
        with host.step(number), host.annotation("step[DECODE bs=2]", 5):
            pass
    assert batch_sizes(scene.linked()).get_column("step").to_list() == ["ProfilerStep#1", "ProfilerStep#2"]


def test_sizes_that_are_not_known_are_alike() -> None:
    scene, _ = annotated(["decode", "decode"])
    found = batch_sizes(scene.linked())
    assert found.select("requests", "iterations", "tokens").rows() == [(None, 2, None)]


def host_only(*durations: int, name: str = "step[DECODE bs=4]", gap: int = 0) -> Scene:
    scene, host = host_scene()
    for ns in durations:
        with host.annotation(name, ns):
            pass
        host.spend(gap)
    return scene


def test_time_and_tokens_of_a_phase() -> None:
    row = row_of(token_times(host_only(100, 200, 600, gap=50).linked()), phase="decode")
    assert (row["iterations"], row["requests"], row["tokens"], row["covered_ns"]) == (3, 12, 12, 900)
    assert row["ns_per_token"] == 75.0
    assert row["tokens_per_second"] == pytest.approx(12e9 / 900)
    assert (row["mean_ns"], row["median_ns"], row["p95_ns"]) == (300.0, 200.0, 560.0)
    intervals = [row[f"{name}_interval_ns"] for name in ("mean", "median", "p95")]
    assert intervals == [200.0, 200.0, 245.0]


@cases("ns, ns_per_token", {"one iteration": (100, 25.0), "without time": (0, None)})
def test_a_single_iteration_shows_no_rate(ns: int, ns_per_token: float | None) -> None:
    row = row_of(token_times(host_only(ns).linked()), phase="decode")
    assert (row["tokens"], row["covered_ns"]) == (4, ns)
    assert (row["ns_per_token"], row["tokens_per_second"]) == (ns_per_token, None)


def test_phases_in_their_order() -> None:
    scene, _ = annotated(
        ["step[DECODE bs=1]", "step[IDLE bs=0]", "step[EXTEND bs=1 toks=3]", "step[MIXED bs=1]"]
    )
    found = token_times(scene.linked())
    assert found.get_column("phase").to_list() == ["prefill", "decode", "mixed", "idle"]
    assert found.get_column("tokens").to_list() == [3, 1, None, 0]
    assert found.get_column("ns_per_token").is_null().to_list() == [False, False, True, True]


def test_iterations_that_run_at_once_cover_their_time_once() -> None:
    scene, host = host_scene()
    works = []
    for _ in range(2):
        with host.annotation("step[DECODE bs=1]") as planted:
            works.append((planted, host.launch(scene.stream(7), "k", 50_000)))
    row = row_of(token_times(scene.linked()), phase="decode")
    assert row["covered_ns"] == works[1][1].end - works[0][0].ts
    assert row["device_ns"] == 100_000
    assert row["device_ns_per_token"] == 50_000.0


def test_rows_by_step() -> None:
    scene, host = host_scene()
    for number in (1, 2):
        with host.step(number):
            for _ in range(number):
                with host.annotation("step[DECODE bs=1]", 10):
                    pass
    found = token_times(scene.linked(), per_step=True).select("step", "iterations").rows()
    assert found == [("ProfilerStep#1", 1), ("ProfilerStep#2", 2)]


def two_steps() -> Scene:
    scene, host = host_scene()
    for number, ns in ((1, 100), (2, 500)):
        with host.step(number), host.annotation("step[DECODE bs=1]", ns):
            pass
    return scene


@pytest.mark.parametrize(
    ("doubtful", "with_doubtful", "mean"),
    [
        ([], False, 300.0),
        (["ProfilerStep#1"], False, 500.0),
        (["ProfilerStep#1"], True, 300.0),
        ([None], False, 300.0),
    ],
)
def test_means_leave_doubtful_steps_out_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch, doubtful: list[str | None], with_doubtful: bool, mean: float
) -> None:
    steps = pl.Series(doubtful, dtype=pl.String)
    monkeypatch.setattr("tracebraid.analysis.answering.doubtful_steps", lambda *_: steps)
    row = row_of(token_times(two_steps().linked(), with_doubtful=with_doubtful), phase="decode")
    rate = None if row["mean_ns"] == 500.0 else 1e9 / mean
    assert (row["mean_ns"], row["ns_per_token"], row["tokens_per_second"]) == (mean, mean, rate)
    assert (row["iterations"], row["tokens"], row["covered_ns"]) == (2, 2, 600)


def test_where_all_is_doubtful_there_are_sums_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = pl.Series(["ProfilerStep#1", "ProfilerStep#2"])
    monkeypatch.setattr("tracebraid.analysis.answering.doubtful_steps", lambda *_: steps)
    row = row_of(token_times(two_steps().linked()), phase="decode")
    assert (row["iterations"], row["covered_ns"], row["mean_ns"], row["ns_per_token"]) == (2, 600, None, None)
    by_step = token_times(two_steps().linked(), per_step=True)
    assert by_step.get_column("mean_ns").to_list() == [100.0, 500.0]


def test_iterations_of_overlapping_steps_count_once() -> None:
    scene = two_steps()
    with scene.thread(start=50).step(3, 400):
        pass
    found = token_times(scene.linked(), per_step=True)
    assert found.get_column("iterations").sum() == 2


def test_graphs_with_their_replays_and_share() -> None:
    scene, host, stream = device_scene()
    host.launch(stream, "k", 100)
    for _ in range(2):
        host.replay(stream, [("a", 100), ("b", 200)], graph=1)
    host.replay(stream, [("a", 300)], graph=2)
    found = graph_replays(scene.linked())
    columns = ("api", "graph_id", "kernels_per_replay", "replays", "kernels", "host_ns", "device_ns", "share")
    assert found.select(columns).rows() == [
        ("cudaGraphLaunch", 1, 2, 2, 4, 2 * CALL_NS, 600, 0.6),
        ("cudaGraphLaunch", 2, 1, 1, 1, CALL_NS, 300, 0.3),
    ]
    assert found.get_column("mean_device_ns").to_list() == [300.0, 300.0]


def test_graphs_without_id_are_told_by_their_number_of_events() -> None:
    scene, host = host_scene()
    for count in (3, 2, 3):
        for event in host.replay(scene.stream(7), [("a", 10)] * count, api="hipGraphLaunch"):
            del event.args["graph id"], event.args["graph node id"]
    found = graph_replays(scene.linked())
    assert found.select("api", "graph_id", "kernels_per_replay", "replays").rows() == [
        ("hipGraphLaunch", None, 3, 2),
        ("hipGraphLaunch", None, 2, 1),
    ]


def test_a_replay_may_have_no_work_or_no_launch_in_the_trace() -> None:
    scene, launched = Scene(), Scene()
    launched.thread().call("cudaGraphLaunch")
    assert graph_replays(launched.linked()).is_empty()
    row = graph_replays(launched.linked().judged_by(None)).row(0, named=True)
    assert (row["replays"], row["kernels"], row["device_ns"], row["share"]) == (1, 0, 0, None)
    stream = scene.stream(7)
    for correlation in (5, 5, 6, 6):
        stream.run("a", 10, args={"graph id": 9, "graph node id": 1, "correlation": correlation})
    stream.run("k", 40)
    columns = ("api", "graph_id", "kernels_per_replay", "replays", "host_ns", "share")
    assert graph_replays(scene.linked()).select(columns).rows() == [(None, 9, 2, 2, None, 0.5)]


def test_rows_by_step_add_up_to_the_rows_over_all() -> None:
    scene, host = host_scene()
    for number in (1, 2):
        with host.step(number):
            host.launch(scene.stream(7), "k", 100)
            host.replay(scene.stream(7), [("a", 100 * number)])
    linked = scene.linked()
    by_step = graph_replays(linked, per_step=True)
    assert by_step.select("step", "share").rows() == [
        ("ProfilerStep#1", 0.5),
        ("ProfilerStep#2", pytest.approx(2 / 3)),
    ]
    assert by_step.get_column("device_ns").sum() == graph_replays(linked).get_column("device_ns").sum()
