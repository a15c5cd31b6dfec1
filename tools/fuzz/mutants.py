"""Which mutant is made of a seed?"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from tools.fuzz.formats import format_of
from tools.fuzz.model import Mutant, Sample

__all__ = ["mutant_of"]

_MUTATIONS = (1, 1, 1, 2, 3)
"""How many changes a mutant has; one of these numbers is drawn."""


def mutant_of(seed: int, samples: Mapping[str, Sequence[Sample]]) -> Mutant:
    """The mutant of a seed: the same in every run over the same samples.

    Args:
        seed: its number.
        samples: of the formats that take part, by their names.
    """
    rng = random.Random(seed)
    name = rng.choice(sorted(samples))
    sample = rng.choice(samples[name])
    files, done = dict(sample.files), []
    for _ in range(rng.choice(_MUTATIONS)):
        mutation = rng.choice(format_of(name).mutations)
        files = mutation(files, rng)
        done.append(getattr(mutation, "__name__", repr(mutation)))
    return Mutant(seed, name, sample.name, tuple(done), files)
