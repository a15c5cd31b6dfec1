"""Time of a server's step by its batch, fitted to the iterations of a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.analysis.answering import doubtful_steps
from tracebraid.analysis.inference.phases import counted_iterations
from tracebraid.errors import InputError
from tracebraid.model.answers.efficiency import Phase
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.serving import ServingNote, StepFit

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

MODELS = 20
"""Models that differ as the evidence allows; an interval is from the 10th to the 90th percentile over them."""
_LEAST_STEPS = 5
_HALF = 0.5
"""Part of a step that grows with its batch (or prompt), if the trace has one size only; the interval: none to all."""
_AS_FITTED = 3
"""Steps on the fitted line with which those of one batch size are averaged: a few steps alone are mostly noise."""
_PARTS = 8
"""Parts of the trace whose medians show by how much a run differs from another."""
_LEAST_IN_PART = 5
_LEFT_OUT = 12
"""Batch sizes at most that are left out in turn."""
_ROUNDS = 6
_HUBER = 1.5
"""Robust standard deviations beyond which a step counts less."""
_VLLM_CACHED = re.compile(r"_generation_\d+\(sq\d+sk(?P<cached_tokens>\d+)")
_SHARE_LEFT = 0.05
"""Least share of a mixed step's time that belongs to its prompts."""


def measured_steps(linked: LinkedTrace, pattern: str | None = None) -> pl.DataFrame:
    """Steps of a rank's server, in order: sequences, prompts and tokens, and `ns` to the next step.

    If the next step decodes, work was waiting and the step ends with the start of the next one. Otherwise the server
    may have been idle, and the step ends with its last work, and the usual time to the next step.
    """
    found = counted_iterations(linked, pattern).filter(
        ~pl.col("phase").is_in([Phase.DRAFT.value, Phase.IDLE.value])
    )
    following = pl.col("start_ns").shift(-1).over("lane")
    is_busy = pl.col("generation_requests").shift(-1).over("lane") > 0
    doubtful = doubtful_steps(linked).drop_nulls().to_list()
    ns, gap = pl.col("ns"), (pl.col("ns") - pl.col("span_ns")).median().fill_null(0)
    return (
        found.with_columns(pl.when(is_busy).then(following - pl.col("start_ns")).alias("ns"))
        .with_columns(
            pl.coalesce(ns, pl.col("span_ns") + gap).clip(1).cast(pl.Float64).alias("ns"),
            _cached(
                found.get_column("name").cast(pl.String), re.compile(pattern) if pattern else _VLLM_CACHED
            ),
        )
        .filter(~pl.col("step").is_in(doubtful).fill_null(value=False))
        .select(*_COUNTS, "cached", "ns")
    )


_COUNTS = ("generation_requests", "context_requests", "context_tokens")


def _cached(names: pl.Series, pattern: re.Pattern[str]) -> pl.Series:
    """Tokens in the caches, as the names of iterations state them; null: not stated."""
    if "cached_tokens" not in pattern.groupindex:
        return pl.Series("cached", [None] * len(names), dtype=pl.Float64)
    tokens: dict[str, float | None] = {}
    for name in names.unique():
        match = pattern.search(name)
        text = None if match is None else match["cached_tokens"]
        tokens[name] = None if text is None else float(text)
    return pl.Series("cached", [tokens[name] for name in names], dtype=pl.Float64)


class Steps(Struct, frozen=True, eq=False):
    """Steps whose batch is known, in order.

    Args:
        decode: sequences that decode.
        prompts: prompts that are read.
        tokens: tokens of these.
        cached: tokens in the caches of the sequences that decode; not a number: unknown.
        ns: time to the next step.
        left_out: steps whose batch is unknown.
    """

    decode: _Ints
    prompts: _Ints
    tokens: _Ints
    cached: _Floats
    ns: _Floats
    left_out: int = 0

    @classmethod
    def of(cls, frame: pl.DataFrame, path: str) -> Steps:
        """Take the steps of all ranks.

        Raises:
            InputError: too few steps decode.
        """
        known = frame.drop_nulls(_COUNTS).filter(pl.col(_COUNTS[0]) + pl.col(_COUNTS[1]) > 0)
        columns = known.with_columns(pl.col("cached").fill_null(np.nan)).get_columns()
        decode, prompts, tokens, cached, ns = (column.to_numpy() for column in columns)
        steps = cls(decode, prompts, tokens, cached, ns, frame.height - known.height)
        count = int(steps.only_decode.sum())
        if count < _LEAST_STEPS:
            unknown = f"; of {steps.left_out:,} others the batch is unknown" if steps.left_out else ""
            raise InputError(
                path,
                f"{count} steps decode a known number of sequences, too few to fit their time{unknown}",
                "Capture more of a serving engine, or name your own annotation by a pattern, such as "
                r"'decode (?P<decode>\d+)'",
            )
        return steps

    @property
    def only_decode(self) -> NDArray[np.bool_]:
        """Mask of the steps that read no prompt."""
        mask: NDArray[np.bool_] = (self.prompts == 0) & (self.decode > 0)
        return mask

    def rows(self, chosen: _Ints) -> Steps:
        """Some of the steps."""
        decode, prompts, tokens = self.decode[chosen], self.prompts[chosen], self.tokens[chosen]
        return Steps(decode, prompts, tokens, self.cached[chosen], self.ns[chosen], self.left_out)

    def notes(self, largest: int) -> Iterator[ServingNote]:
        """Assumptions of a fit up to a batch."""
        sizes, own = np.unique(self.decode[self.only_decode]), self.only_decode
        if len(sizes) == 1 and (largest > 1 or sizes[0] > 1):
            yield ServingNote.ONE_BATCH
        if len(np.unique(self.tokens[self.prompts > 0])) == 1:
            yield ServingNote.ONE_PROMPT
        if largest > sizes[-1]:
            yield ServingNote.BEYOND_BATCH
        if np.isnan(self.cached[own]).any():
            yield ServingNote.CONTEXT_UNKNOWN


class StepModel(Struct, frozen=True, eq=False):
    """Time of a step by its batch.

    Args:
        decode_ns: median of a step that decodes, by the number of sequences from 0, without `cached_token_ns`.
        cached_token_ns: of each token in their caches.
        prompt_base_ns: a step that reads prompts, whatever their length; not a number: the trace has none.
        prompt_token_ns: of each of their tokens.
        noise: measured over fitted times of steps that decode, in order.
        prompt_noise: of steps that read prompts.
        line: base and slope of `decode_ns`, as fitted.
    """

    decode_ns: _Floats
    cached_token_ns: float
    prompt_base_ns: float
    prompt_token_ns: float
    noise: _Floats
    prompt_noise: _Floats
    line: tuple[float, float]

    def scaled(self, factor: float) -> StepModel:
        """The model of a server that needs `factor` times as long."""
        return replace(
            self,
            decode_ns=self.decode_ns * factor,
            cached_token_ns=self.cached_token_ns * factor,
            prompt_base_ns=self.prompt_base_ns * factor,
            prompt_token_ns=self.prompt_token_ns * factor,
            line=(self.line[0] * factor, self.line[1] * factor),
        )

    def fit(self, steps: Steps) -> StepFit:
        """Coefficients for people."""
        base_ns, sequence_ns = map(_digits, self.line)
        return StepFit(
            base_ns,
            sequence_ns,
            _digits(self.cached_token_ns),
            _digits(self.prompt_base_ns),
            _digits(self.prompt_token_ns),
            _digits(float(self.noise.std())),
            len(steps.ns),
            steps.left_out,
        )


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def fit_steps(steps: Steps, largest: int, share: float = _HALF) -> StepModel:
    """Fit the time of a step up to a batch: a line, moved to the median of each batch size that was measured.

    Args:
        steps: the measured steps.
        largest: the largest batch.
        share: part of the time that grows with the batch, or the prompt, if there is one size only.
    """
    own = steps.only_decode
    decode, ns, cached = steps.decode[own], steps.ns[own], steps.cached[own]
    sizes = np.unique(decode)
    knows_cached = not np.isnan(cached).any() and len(np.unique(cached)) > 1
    columns = [np.ones(len(ns)), *([decode] if len(sizes) > 1 else []), *([cached] if knows_cached else [])]
    found = _fit(columns, ns)
    cached_ns = float(found[-1]) if knows_cached else 0.0
    base, slope = _split(found, sizes, share)
    context = cached * cached_ns if knows_cached else 0.0
    ratios = (ns - context) / (base + slope * decode)
    typical = [_typical(ratios[decode == size]) for size in sizes]
    batches = np.arange(max(largest, int(steps.decode.max())) + 1)
    decode_ns = np.maximum((base + slope * batches) * np.interp(batches, sizes, typical), 1.0)
    noise = ns / (decode_ns[decode] + context)
    return _with_prompts(
        StepModel(decode_ns, cached_ns, np.nan, np.nan, noise, noise, (base, slope)), steps, share
    )


def _with_prompts(model: StepModel, steps: Steps, share: float) -> StepModel:
    """Add the time of prompts: what their steps take longer than the decoding in them."""
    reads = steps.prompts > 0
    if not reads.any():
        return model
    tokens, ns = steps.tokens[reads], steps.ns[reads]
    beside = model.decode_ns[steps.decode[reads]] - model.decode_ns[0]
    beside += np.nan_to_num(steps.cached[reads]) * model.cached_token_ns
    sizes = np.unique(tokens)
    columns = [np.ones(len(ns)), *([tokens] if len(sizes) > 1 else [])]
    base, slope = _split(_fit(columns, np.maximum(ns - beside, _SHARE_LEFT * ns)), sizes, share)
    noise = ns / (base + slope * tokens + beside)
    return replace(model, prompt_base_ns=base, prompt_token_ns=slope, prompt_noise=noise)


def _split(found: _Floats, sizes: _Ints, share: float) -> tuple[float, float]:
    """Base and slope; with one size, the share that is assumed to grow with it."""
    if len(sizes) > 1:
        return float(found[0]), float(found[1])
    grows = share * float(found[0]) if sizes[0] > 0 else 0.0
    return float(found[0]) - grows, grows / max(int(sizes[0]), 1)


def _typical(ratios: _Floats) -> float:
    return float((np.median(ratios) * len(ratios) + _AS_FITTED) / (len(ratios) + _AS_FITTED))


def _fit(columns: Sequence[NDArray[np.generic]], values: _Floats) -> _Floats:
    """Coefficients, none below 0, with the least relative errors; what lies far off counts less (Huber)."""
    matrix = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    scale = np.maximum(matrix.max(axis=0), 1e-300)
    matrix = matrix / scale
    fitted, weights = values, np.ones(len(values))
    found = np.zeros(len(columns))
    for _ in range(_ROUNDS):
        by = weights / fitted
        kept = np.ones(len(columns), dtype=np.bool_)
        while True:
            found = np.zeros(len(columns))
            found[kept] = np.linalg.lstsq(matrix[:, kept] * by[:, None], values * by, rcond=None)[0]
            if found.min() >= 0 or kept.sum() == 1:
                break
            kept[int(found.argmin())] = False
        fitted = np.maximum(matrix @ found, 1e-6 * values)
        off = np.abs(values / fitted - 1)
        limit = _HUBER * 1.4826 * max(float(np.median(off)), 1e-9)
        weights = np.sqrt(np.minimum(1.0, limit / np.maximum(off, 1e-12)))
    coefficients: _Floats = np.maximum(found, 0.0) / scale
    return coefficients


def possible_models(steps: Steps, model: StepModel, rng: np.random.Generator) -> list[StepModel]:
    """Models that the evidence allows as well: steps drawn anew within each batch size, and the errors of the model.

    These are how far parts of the trace differ, and how far batch sizes are missed that the fit does not see. A
    larger batch takes no less time, and no more than in proportion.
    """
    batches = np.arange(len(model.decode_ns))
    sizes = np.unique(steps.decode[steps.only_decode])
    kinds = np.where(steps.only_decode, steps.decode, -1)
    alike = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
    within, beyond = _unseen_errors(steps, sizes)
    unseen = np.where(batches > sizes[-1], beyond * batches / sizes[-1], within)
    unseen[sizes] = 0.0
    drift = _drift(model)
    found = []
    for number in range(MODELS):
        drawn = np.sort(np.concatenate([rng.choice(rows, len(rows)) for rows in alike]))
        fitted = fit_steps(steps.rows(drawn), len(batches) - 1, share=float(number % 2))
        off, level = rng.standard_normal(2)
        moved = _plausible(fitted.decode_ns * np.exp(unseen * off), batches, sizes)
        fitted = replace(fitted, decode_ns=moved, noise=model.noise, prompt_noise=model.prompt_noise)
        found.append(fitted.scaled(float(np.exp(drift * level))))
    return found


def _plausible(decode_ns: _Floats, batches: _Ints, sizes: _Ints) -> _Floats:
    """Move times of batch sizes that were not measured between those that were; at most in proportion to the batch."""
    place = np.searchsorted(sizes, batches)
    after, before = sizes[np.minimum(place, len(sizes) - 1)], sizes[np.maximum(place - 1, 0)]
    inside = (place > 0) & (place < len(sizes))
    low = np.where(inside, decode_ns[before], decode_ns[after] * np.minimum(batches / after, 1.0))
    high = np.where(inside, decode_ns[after], decode_ns[after] * np.maximum(batches / after, 1.0))
    limited = np.clip(decode_ns, np.minimum(low, high), np.maximum(low, high))
    return np.where(np.isin(batches, sizes) | (batches == 0), decode_ns, limited)


def _unseen_errors(steps: Steps, sizes: _Ints) -> tuple[float, float]:
    """Relative errors of batch sizes that the fit does not see, with each left out in turn: root of their mean square,
    and that of the largest if it is more.
    """
    if len(sizes) == 1:
        return 0.0, 0.0
    own = steps.rows(np.flatnonzero(steps.only_decode))
    errors = []
    for size in sizes[np.unique(np.linspace(0, len(sizes) - 1, _LEFT_OUT).astype(int))]:
        rest = fit_steps(own.rows(np.flatnonzero(own.decode != size)), int(size))
        without = own.decode == size
        context = np.nan_to_num(own.cached[without]) * rest.cached_token_ns
        errors.append(float(np.log(np.median(own.ns[without] / (rest.decode_ns[size] + context)))))
    within = float(np.sqrt(np.mean(np.square(errors))))
    return within, max(within, abs(errors[-1]))


def _drift(model: StepModel) -> float:
    """Standard deviation of a run's level against that of the trace, from parts of the trace; 0 with few steps."""
    parts = np.array_split(model.noise, _PARTS)
    if len(parts[-1]) < _LEAST_IN_PART:
        return 0.0
    of_part = np.std([np.log(np.median(part)) for part in parts], ddof=1)
    return float(of_part * np.sqrt(1 + 1 / _PARTS))
