"""The iterations of inference, by the shapes of attention."""

from __future__ import annotations

import pytest

from tests.planted import Scene
from tests.unit.analysis.inference.serving import HEADS, WIDTH, attend, forward
from tracebraid.analysis.inference.inference_phases import inference_phases


def test_a_prompt_and_the_tokens_after_it() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
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


def test_a_cache_of_fixed_length_does_not_join_iterations() -> None:
    scene = Scene()
    host = scene.thread()
    for _ in range(4):
        forward(host, scene.stream(7), batch=1, queries=1, keys=128)
    assert inference_phases(scene.linked()).height == 4


def test_two_lookups_in_a_row_begin_a_single_iteration() -> None:
    scene = Scene()
    host = scene.thread()
    for _ in range(2):
        host.run("aten::embedding", 1_000, dims=[[100, 16], [2, 4]])
        forward(host, scene.stream(7), batch=2, queries=4, keys=4)
    assert inference_phases(scene.linked()).get_column("tokens").to_list() == [8, 8]


def test_without_embeddings_decode_is_split_where_its_keys_grow() -> None:
    scene = Scene()
    host = scene.thread()
    for length in (17, 17, 18, 18, 19):
        attend(host, scene.stream(7), 2, 1, length)
    found = inference_phases(scene.linked())
    assert found.get_column("phase").to_list() == ["decode"] * 3
    assert found.get_column("kernels").to_list() == [2, 2, 1]


def test_a_chunk_of_a_prompt_is_prefill() -> None:
    scene = Scene()
    forward(scene.thread(), scene.stream(7), batch=1, queries=8, keys=32)
    assert inference_phases(scene.linked()).get_column("phase").to_list() == ["prefill"]


def test_an_encoder_before_the_prompt_changes_nothing() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    forward(host, stream, batch=1, queries=1, keys=9)
    attend(host, stream, 1, 64, 64, causal=False)
    forward(host, stream, batch=1, queries=1, keys=10)
    assert inference_phases(scene.linked()).get_column("phase").to_list() == ["decode", "decode"]


@pytest.mark.parametrize(("requests", "tokens", "phase"), [(4, 4, "decode"), (4, 60, "prefill")])
def test_tokens_of_all_requests_in_a_single_axis(requests: int, tokens: int, phase: str) -> None:
    scene = Scene()
    host = scene.thread()
    host.run("aten::embedding", 10, dims=[[100, 16], [tokens]])
    query, starts = [tokens, HEADS, WIDTH], [requests + 1]
    host.run("flash_attn::_flash_attn_varlen_forward", 10, dims=[query, query, query, starts, starts])
    row = inference_phases(scene.linked()).row(0, named=True)
    assert (row["phase"], row["requests"], row["tokens"]) == (phase, requests, tokens)


def test_training_has_no_iterations() -> None:
    scene = Scene()
    host = scene.thread()
    number = scene.count("sequence")
    forward(host, scene.stream(7), batch=1, queries=8, keys=8)
    with host.op("aten::mm", 10, sequence=number) as op:
        pass
    with host.backward("MmBackward0", op, host, 10):
        pass
    assert inference_phases(scene.linked()).is_empty()


def test_a_forward_pass_that_autograd_records_is_no_prefill() -> None:
    scene = Scene()
    host = scene.thread()
    host.run("aten::embedding", 10, dims=[[100, 16], [1, 8]], sequence=1)
    attend(host, scene.stream(7), 1, 8, 8)
    assert inference_phases(scene.linked()).is_empty()


def test_an_encoder_is_no_prefill() -> None:
    scene = Scene()
    host = scene.thread()
    host.run("aten::embedding", 10, dims=[[100, 16], [1, 8]])
    attend(host, scene.stream(7), 1, 8, 8, causal=False)
    assert inference_phases(scene.linked()).is_empty()


def test_attention_to_other_tokens_than_those_before_is_no_prefill() -> None:
    scene = Scene()
    host = scene.thread()
    attend(host, scene.stream(7), 2, 64, 77, causal=False)
    attend(host, scene.stream(7), 2, 4096, 77, causal=False)
    assert inference_phases(scene.linked()).is_empty()


@pytest.mark.parametrize(
    "dims",
    [
        [],
        [[]],
        [[1, 2, 1, 8]],
        [[1, 2, 1], [1, 2, 5, 8]],
        [[[1, 2]], [[3]]],
        [[-1, 2, 1, 8], [-1, 2, 5, 8]],
        [[2**60, 2**60, 1, 8], [2**60, 2**60, 5, 8]],
        ["x", "y"],
    ],
)
def test_damaged_shapes_say_nothing(dims: list[object]) -> None:
    scene = Scene()
    scene.thread().run("aten::scaled_dot_product_attention", 5, dims=dims, strides=[])
    assert inference_phases(scene.linked()).is_empty()


def test_annotations_count_before_shapes() -> None:
    scene = Scene()
    host = scene.thread()
    with host.annotation("step[DECODE bs=7]"):
        forward(host, scene.stream(7), batch=1, queries=8, keys=8)
    found = inference_phases(scene.linked())
    assert found.get_column("evidence").to_list() == ["annotation-sglang"]


def test_the_end_is_that_of_the_last_op_before_the_next_iteration() -> None:
    scene = Scene()
    host, stream = scene.thread(), scene.stream(7)
    forward(host, stream, batch=1, queries=8, keys=8)
    host.synchronize(stream)
    sampled = host.run("aten::argmax", 500)
    host.spend(10_000)
    forward(host, stream, batch=1, queries=1, keys=9)
    row = inference_phases(scene.linked()).row(0, named=True)
    assert row["start_ns"] + row["host_ns"] == sampled.end
