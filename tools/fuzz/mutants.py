"""Draws mutants with hypothesis, and makes their files."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hypothesis import strategies

from tools.fuzz.formats import format_of
from tools.fuzz.model import Files, Format, Mutant, Sample

_MOST_CHANGES, _MOST_CHOSEN = 3, 2
_SEEDS = strategies.integers(0, 2**32 - 1)


def mutants(
    name: str, samples: Sequence[Sample], with_chosen: bool = True
) -> strategies.SearchStrategy[Mutant]:
    """Mutants of a format; they shrink to few changes, few calls and the smallest sample."""
    format_ = format_of(name)
    by_size = sorted(range(len(samples)), key=lambda number: sum(map(len, samples[number].files.values())))
    calls, chosen = range(len(format_.calls)), range(len(format_.calls), len(format_.all_calls))
    drawn: strategies.SearchStrategy[list[int]] = strategies.just([])
    if with_chosen and chosen:
        drawn = strategies.lists(
            strategies.sampled_from(chosen), min_size=0 if calls else 1, max_size=_MOST_CHOSEN, unique=True
        )
    return strategies.builds(
        Mutant,
        strategies.just(name),
        strategies.sampled_from(by_size),
        strategies.lists(
            strategies.tuples(strategies.integers(0, len(format_.mutations) - 1), _SEEDS),
            min_size=1,
            max_size=_MOST_CHANGES,
        ).map(tuple),
        drawn.map(lambda more: (*calls, *more)),
        _SEEDS,
    )


def files_of(mutant: Mutant, samples: Sequence[Sample]) -> Files:
    """The files of a mutant: the same bytes in every run over the same samples."""
    files, mutations = dict(samples[mutant.sample].files), format_of(mutant.format).mutations
    for mutation, seed in mutant.changes:
        files = mutations[mutation](files, random.Random(seed))
    return files


def names_of(mutant: Mutant, format_: Format) -> list[str]:
    """The names of a mutant's mutations."""
    changes = (format_.mutations[mutation] for mutation, _ in mutant.changes)
    return [getattr(change, "__name__", repr(change)) for change in changes]
