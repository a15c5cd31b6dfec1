"""Names of annotations with which serving engines and programs mark the iterations of a language model."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from tracebraid.model.answers.efficiency import Phase, PhaseEvidence

_VLLM = re.compile(
    r"execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)[^)]*\)"
)
_VLLM_NEW = re.compile(r"execute_new_(\d+)_cached_(\d+)")
_SGLANG = re.compile(r"step\[\s*([A-Z][A-Z0-9_]*)\s+bs=(\d+)(?:\s+toks=(\d+))?([^\]]*)\]")
_SGLANG_COUNTS = re.compile(r"\b(c|g|c_sq|g_sq)=(\d+)")
_ATOM = re.compile(r"(?:eager_)?(prefill|decode)\[bs=(\d+)(?:/\d+)?(?:\s+tok=(\d+))?")
_ATOM_DRAFT = re.compile(r"draft\[\S+\s+bs=(\d+)")
_TENSORRT = re.compile(
    r"\[Executor\] _forward_step \d+: (\d+) ctx reqs, (?:(\d+) ctx tokens, )?(\d+) gen reqs"
)

_SGLANG_PHASES = {
    "EXTEND": Phase.PREFILL,
    "SPLIT_PREFILL": Phase.PREFILL,
    "DECODE": Phase.DECODE,
    "TARGET_VERIFY": Phase.DECODE,
    "MIXED": Phase.MIXED,
    "DRAFT_EXTEND": Phase.DRAFT,
    "DRAFT_EXTEND_V2": Phase.DRAFT,
    "IDLE": Phase.IDLE,
}
"""SGLang's forward modes; others are no iterations of a model."""

_WORDS = {
    "prefill": Phase.PREFILL,
    "prefilling": Phase.PREFILL,
    "decode": Phase.DECODE,
    "decoding": Phase.DECODE,
}
_WORDS_BESIDE = frozenset(
    {
        "batch",
        "chunk",
        "chunked",
        "forward",
        "generation",
        "iter",
        "iteration",
        "llm",
        "model",
        "pass",
        "phase",
        "run",
        "stage",
        "step",
        "token",
        "tokens",
    }
)
"""Allowed neighbouring words; with others (`decode jpeg`, `decoder`) the annotation means something else."""

_ENGINE_CONFIDENCE = 1.0
"""The engine itself describes the batch."""

_CACHED_CONFIDENCE = 0.8
"""vLLM's requests that are not new may decode, or go on with a prompt: as a rule they decode."""

_WORD_CONFIDENCE = 0.7
"""Whoever wrote the word may mean a part of the iteration, or several."""


class Marker(Struct, frozen=True):
    """Iteration described by its annotation; None for missing values.

    Args:
        phase: the phase.
        evidence: origin of the annotation.
        confidence: of the phase, 0 to 1.
        requests: requests in the batch.
        tokens: tokens that go through the model.
        context_requests: requests in prefill.
        context_tokens: tokens of prompts.
        generation_requests: requests in decode.
        generation_tokens: tokens in decode.
    """

    phase: Phase
    evidence: PhaseEvidence
    confidence: float = _ENGINE_CONFIDENCE
    requests: int | None = None
    tokens: int | None = None
    context_requests: int | None = None
    context_tokens: int | None = None
    generation_requests: int | None = None
    generation_tokens: int | None = None


def marker_of(name: str) -> Marker | None:
    """Parse the name of an iteration's annotation; None if it is another annotation."""
    for read in _READERS:
        found = read(name)
        if found is not None:
            return found
    return None


def _vllm(name: str) -> Marker | None:
    match = _VLLM.fullmatch(name)
    if match is None:
        return None
    context, context_tokens, generation, generation_tokens = map(_number, match.groups())
    return _split(PhaseEvidence.VLLM, context, context_tokens, generation, generation_tokens)


def _vllm_new(name: str) -> Marker | None:
    match = _VLLM_NEW.fullmatch(name)
    if match is None:
        return None
    new, cached = map(_number, match.groups())
    if not cached:
        return _split(PhaseEvidence.VLLM, new, None if new else 0, cached, 0)
    phase = Phase.MIXED if new else Phase.DECODE
    return Marker(phase, PhaseEvidence.VLLM, _CACHED_CONFIDENCE, requests=_sum(new, cached))


def _tensorrt(name: str) -> Marker | None:
    """A request in decode counts as one token: with speculation there are more."""
    match = _TENSORRT.match(name)
    if match is None:
        return None
    context, context_tokens, generation = map(_number, match.groups())
    return _split(
        PhaseEvidence.TENSORRT_LLM, context, context_tokens if context else 0, generation, generation
    )


def _split(
    evidence: PhaseEvidence,
    context: int | None,
    context_tokens: int | None,
    generation: int | None,
    generation_tokens: int | None,
) -> Marker:
    phase = (
        (Phase.MIXED if generation else Phase.PREFILL)
        if context
        else (Phase.DECODE if generation else Phase.IDLE)
    )
    return Marker(
        phase,
        evidence,
        requests=_sum(context, generation),
        tokens=_sum(context_tokens, generation_tokens),
        context_requests=context,
        context_tokens=context_tokens,
        generation_requests=generation,
        generation_tokens=generation_tokens,
    )


def _sglang(name: str) -> Marker | None:
    match = _SGLANG.fullmatch(name)
    phase = _SGLANG_PHASES.get(match[1]) if match is not None else None
    if match is None or phase is None:
        return None
    counts = {key: _number(value) for key, value in _SGLANG_COUNTS.findall(match[4])}
    requests, tokens = _number(match[2]), _number(match[3])
    if phase is Phase.MIXED and {"c", "g", "c_sq", "g_sq"} <= counts.keys():
        return _split(PhaseEvidence.SGLANG, counts["c"], counts["c_sq"], counts["g"], counts["g_sq"])
    if match[1] == "DECODE":
        tokens = requests
    return _of_batch(phase, PhaseEvidence.SGLANG, requests, tokens)


def _atom(name: str) -> Marker | None:
    match = _ATOM.match(name)
    if match is not None:
        return _of_batch(Phase(match[1]), PhaseEvidence.ATOM, _number(match[2]), _number(match[3]))
    draft = _ATOM_DRAFT.match(name)
    return None if draft is None else _of_batch(Phase.DRAFT, PhaseEvidence.ATOM, _number(draft[1]), None)


def _of_batch(phase: Phase, evidence: PhaseEvidence, requests: int | None, tokens: int | None) -> Marker:
    """A batch that is all of one phase; of a mixed batch the parts are not known."""
    if phase is Phase.MIXED:
        return Marker(phase, evidence, requests=requests, tokens=tokens)
    if phase is Phase.IDLE:
        return _split(evidence, 0, 0, 0, 0)
    in_context = phase is Phase.PREFILL
    return Marker(
        phase,
        evidence,
        requests=requests,
        tokens=tokens,
        context_requests=requests if in_context else 0,
        context_tokens=tokens if in_context else 0,
        generation_requests=0 if in_context else requests,
        generation_tokens=0 if in_context else tokens,
    )


def _word(name: str) -> Marker | None:
    words = re.findall("[a-z]+", name.lower())
    phases = {_WORDS[word] for word in words if word in _WORDS}
    if len(phases) != 1 or not all(word in _WORDS or word in _WORDS_BESIDE for word in words):
        return None
    return Marker(phases.pop(), PhaseEvidence.WORD, _WORD_CONFIDENCE)


def _number(text: str | None) -> int | None:
    """Parse a count; None if missing or out of range."""
    if text is None or len(text) > _LONGEST_COUNT:
        return None
    return int(text)


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


_LONGEST_COUNT = 15
"""Digits of a count: more are damage, and sums of them would leave int64."""

_READERS: tuple[Callable[[str], Marker | None], ...] = (_vllm, _vllm_new, _sglang, _atom, _tensorrt, _word)


def marker_by_pattern(pattern: re.Pattern[str], name: str) -> Marker | None:
    """Parse the name of an iteration by a regular expression with groups of `PATTERN_GROUPS`; None without a match."""
    match = pattern.search(name)
    if match is None:
        return None
    counts = {key: _number(text) for key, text in match.groupdict().items() if text is not None}
    tokens, decode = counts.get("prompt_tokens") or 0, counts.get("decode") or 0
    prompts = counts.get("prompts", int(tokens > 0)) or 0
    return _split(PhaseEvidence.PATTERN, prompts, tokens if prompts else 0, decode, decode)


PATTERN_GROUPS = ("decode", "prompts", "prompt_tokens", "cached_tokens")
"""Named groups of a pattern of iterations: sequences that decode, prompts, tokens of these, tokens in the caches."""
