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


def seeds_over(formats: Sequence[str], begin: int = 0, end: int | None = None) -> Iterator[Seed]:
    """Seeds divided evenly over formats, which take turns.

    Args:
        formats: their names.
        begin: the first of the numbers that are divided.
        end: behind the last; None: there is no last.
    """
    for number in count(begin) if end is None else range(begin, end):
        yield Seed(formats[number % len(formats)], number // len(formats))


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
