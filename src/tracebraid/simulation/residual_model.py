"""How late each moment usually is beyond what it waits for, learned from the other steps of the trace."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["Evidence", "Samples", "UsualResiduals", "usual_residuals"]

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]

_MOST_GAPS = 16
"""Possible keys per key up to which they are counted, instead of sorted."""

_LIKE = ("rank", "lane", "kind", "op")
"""What activities have in common whose moments are alike."""


class Samples(Enum):
    """From which steps the residuals of a step are learned."""

    OTHERS = "others"
    """All but itself."""
    ITSELF = "itself"
    """It alone, as if no other had been recorded."""


class Evidence(IntEnum):
    """What a usual residual was learned from; the first that there is."""

    NONE = 0
    """Nothing is like it: it is taken to be on time."""
    SAME = 1
    """The same moment of other steps: the n-th of its activities' name, op, rank and thread or stream."""
    ALIKE = 2
    """All moments of other steps whose activities have its name, op, rank and thread or stream."""
    KIND = 3
    """All moments of other steps whose activities are of its kind."""
    OWN = 4
    """Its own step: there is no other step. The mean of all that are alike."""


@dataclass(frozen=True, eq=False)
class UsualResiduals:
    """By how much each moment is usually late.

    Args:
        residual_ns: of each moment.
        evidence: `Evidence` of each.
    """

    residual_ns: NDArray[Any]
    evidence: NDArray[Any]


def usual_residuals(graph: DependencyGraph, samples: Samples = Samples.OTHERS) -> UsualResiduals:
    """The usual residual of each moment, in which its own step has no part.

    Of the same moment in other steps the median; else of moments that are alike, and else of those of its kind, the
    mean. Moments that have no residual are samples as well. Where a moment is in no step, or there is one step, all
    moments that are alike are samples, itself too. Moments that wait for nothing are no samples, and have none.

    Args:
        graph: as it was measured.
        samples: `ITSELF`: the mean of the moments of the same step that are alike.
    """
    waits = np.diff(graph.edges.first) > 0
    keys = _keys(graph)
    if samples is Samples.ITSELF or len(np.unique(keys.step[keys.step >= 0])) < 2:
        found = _of_own_step(keys, graph.moments.residual_ns, waits)
    else:
        found = _of_other_steps(keys, graph.moments.residual_ns, waits)
    return UsualResiduals(
        np.where(waits, np.rint(found.residual_ns), 0).astype(np.int64),
        np.where(waits, found.evidence, Evidence.NONE).astype(np.uint8),
    )


def _of_own_step(keys: _Keys, residual_ns: _Ints, waits: _Bools) -> UsualResiduals:
    key = _number_of(keys.alike, keys.step)
    usual, count = _mean_of_others(key, np.full_like(key, -1), residual_ns, waits)
    return UsualResiduals(usual, np.where(count > 0, Evidence.OWN, Evidence.NONE))


def _of_other_steps(keys: _Keys, residual_ns: _Ints, waits: _Bools) -> UsualResiduals:
    usual, count = _mean_of_others(keys.kind, keys.step, residual_ns, waits)
    evidence = np.where(count > 0, Evidence.KIND, Evidence.NONE)
    alike = _mean_of_others(keys.alike, keys.step, residual_ns, waits)
    same = _median_of_others(keys.same, residual_ns, waits & (keys.step >= 0))
    for (better, samples), name in ((alike, Evidence.ALIKE), (same, Evidence.SAME)):
        usual, evidence = np.where(samples > 0, better, usual), np.where(samples > 0, name, evidence)
    return UsualResiduals(usual, evidence)


@dataclass(frozen=True, eq=False)
class _Keys:
    """Numbers that like moments share; `step` is -1 for moments in none."""

    step: _Ints
    same: _Ints
    alike: _Ints
    kind: _Ints


def _keys(graph: DependencyGraph) -> _Keys:
    """The keys of each moment."""
    name = pl.col("name").cast(pl.String)
    of_step = (name == pl.col("step").cast(pl.String)).fill_null(False)
    numbers = graph.activities.select(
        # The mark of a step has another name in each.
        pl.struct(*_LIKE, pl.when(of_step).then(None).otherwise(name).alias("label"))
        .rank("dense")
        .alias("alike"),
        pl.struct("rank", "kind").rank("dense").alias("kind"),
        pl.col("step").cast(pl.String).rank("dense").fill_null(0).cast(pl.Int64).alias("step") - 1,
    ).cast(pl.Int64)
    activity, point = graph.moments.activity, graph.moments.point.astype(np.int64)
    alike, kind, step = (
        numbers.get_column(column).to_numpy()[activity] for column in ("alike", "kind", "step")
    )
    alike, kind = 2 * alike + point, 2 * kind + point
    occurrence = _occurrences(alike, step)
    same = alike * (int(occurrence.max(initial=0)) + 1) + occurrence
    return _Keys(step, same, _number_of(alike), _number_of(kind))


def _number_of(*keys: _Ints) -> _Ints:
    """Numbers from 0 without gaps, equal where all keys are; keys are at least -1."""
    numbers = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        numbers = _without_gaps(numbers * (int(key.max(initial=0)) + 2) + key + 1)
    return numbers


def _without_gaps(keys: _Ints) -> _Ints:
    if int(keys.max(initial=0)) > _MOST_GAPS * len(keys):
        return np.unique(keys, return_inverse=True)[1]
    return (np.cumsum(np.bincount(keys) > 0) - 1)[keys]


def _occurrences(alike: _Ints, step: _Ints) -> _Ints:
    """Which of the like moments of its step each is, from 0."""
    order = np.lexsort((np.arange(len(alike)), step, alike))
    of_order = np.arange(len(order))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (np.diff(alike[order]) != 0) | (np.diff(step[order]) != 0)
    found = np.empty(len(order), dtype=np.int64)
    found[order] = of_order - np.maximum.accumulate(np.where(new, of_order, 0))
    return found


def _mean_of_others(key: _Ints, step: _Ints, values: _Ints, mask: _Bools) -> tuple[_Floats, _Ints]:
    """The mean of those with the same key in other steps, and their number; of one in no step, of all.

    Args:
        key: from 0 without gaps.
        step: -1: in none.
        values: the samples.
        mask: which of them count.
    """
    total, count = np.bincount(key, values * mask), np.bincount(key, mask)
    pair = _number_of(key, step)
    own, own_count = np.bincount(pair, values * mask), np.bincount(pair, mask)
    in_step = step >= 0
    samples = (count[key] - own_count[pair] * in_step).astype(np.int64)
    rest = total[key] - own[pair] * in_step
    return rest / np.maximum(samples, 1), samples


def _median_of_others(key: _Ints, values: _Ints, mask: _Bools) -> tuple[_Floats, _Ints]:
    """The median of the others with the same key, and their number.

    Args:
        key: any numbers.
        values: the samples.
        mask: which of them count, and get an answer.
    """
    median, samples = np.zeros(len(key)), np.zeros(len(key), dtype=np.int64)
    rows = np.flatnonzero(mask)
    order = rows[np.lexsort((values[rows], key[rows]))]
    ordered = values[order]
    first = np.searchsorted(key[order], key[order])
    others = np.searchsorted(key[order], key[order], side="right") - first - 1
    own = np.arange(len(order)) - first
    low, high = (np.maximum(others - 1, 0) // 2, others // 2)
    # Behind the own sample the others are a row further.
    picked = [first + half + (half >= own) for half in (low, high)]
    last = max(len(order) - 1, 0)
    if len(order):
        median[order] = np.mean([ordered[np.minimum(index, last)] for index in picked], axis=0)
    samples[order] = others
    return median, samples
