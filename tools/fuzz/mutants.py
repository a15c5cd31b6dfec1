"""Which mutant is made of a seed?"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from tools.fuzz.formats import format_of
from tools.fuzz.model import Mutant, Sample, Seed

__all__ = ["mutant_of", "seeds_over"]

_MUTATIONS = (1, 1, 1, 2, 3)
"""How many changes a mutant has; one of these numbers is drawn."""


def seeds_over(turns: Sequence[str], begin: int = 0, end: int | None = None) -> Iterator[Seed]:
    """Seeds divided over formats, which take turns.

    Args:
        turns: names of formats, in the order of their turns; one that stands there twice has twice as many seeds.
        begin: the first of the numbers that are divided.
        end: behind the last; None: there is no last.
    """
    places = [(name, turns[:place].count(name), turns.count(name)) for place, name in enumerate(turns)]
    for number in count(begin) if end is None else range(begin, end):
        name, nth, times = places[number % len(turns)]
        yield Seed(name, number // len(turns) * times + nth)


def mutant_of(seed: Seed, samples: Mapping[str, Sequence[Sample]]) -> Mutant:
    """The mutant of a seed: the same in every run over the same samples.

    Args:
        seed: its format and number.
        samples: of formats, by their names.
    """
    rng, mutations = random.Random(str(seed)), format_of(seed.format).mutations
    sample = rng.choice(samples[seed.format])
    files, done = dict(sample.files), []
    for _ in range(rng.choice(_MUTATIONS)):
        mutation = rng.choice(mutations)
        files = mutation(files, rng)
        done.append(getattr(mutation, "__name__", repr(mutation)))
    return Mutant(seed, sample.name, tuple(done), files)
