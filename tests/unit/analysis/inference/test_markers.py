"""What the names of annotations say of an iteration."""

from __future__ import annotations

import pytest

from tracebraid.analysis.inference.markers import marker_of
from tracebraid.model.answers.inference import Phase, PhaseEvidence

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
        "",
        "ProfilerStep#3",
        "## decoder fp8 None ##",
        "decode jpeg",
        "image_decode",
        "prefill and decode",
        "execute_context",
        "step[WARMUP bs=3]",
        "nccl:all_reduce",
        "list.extend",
        "generation",
    ],
)
def test_other_annotations_are_no_iterations(name: str) -> None:
    assert marker_of(name) is None


def test_engines_are_trusted_more_than_words() -> None:
    names = ["step[DECODE bs=1]", "execute_new_0_cached_1", "decode"]
    confidence = [found.confidence for name in names if (found := marker_of(name)) is not None]
    assert confidence == sorted(confidence, reverse=True)
    assert len(set(confidence)) == 3


def test_a_count_that_no_column_holds_is_not_known() -> None:
    found = marker_of(f"step[EXTEND bs=2 toks={'9' * 30}]")
    assert found is not None
    assert (found.requests, found.tokens) == (2, None)
