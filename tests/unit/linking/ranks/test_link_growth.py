"""Linking ranks is linear in ranks, in collectives and in groups."""

from __future__ import annotations

import pytest

from tests.growth import growth
from tests.unit.linking.ranks.made_members import MadeJob, facts
from tracebraid.linking.ranks.link_ranks import link_ranks
from tracebraid.model.linked_ranks import LinkedRanks, RankParts

_TIMES = 4
"""How many times as large the larger job is."""
_LINEAR = 2.0 * _TIMES
"""Quadratic cost would be 16 times; sorting, caches and a busy machine have a factor of two."""


def _parts(ranks: int, collectives: int, groups: int, sequences: bool) -> list[RankParts]:
    job = MadeJob(ranks, sequences=sequences)
    for number in range(collectives):
        job.collective(group=str(number % groups), size=1024 * (1 + number % 3))
    members = job.frame().drop("truth")
    return [
        RankParts(facts([rank], ranks), own)
        for (rank,), own in members.partition_by("rank", as_dict=True, maintain_order=True).items()
        if isinstance(rank, int)
    ]


def _linked(parts: list[RankParts]) -> LinkedRanks:
    return link_ranks(parts)


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize(
    ("small", "large"),
    [
        pytest.param((8, 300, 1), (8 * _TIMES, 300, 1), id="ranks"),
        pytest.param((4, 600, 1), (4, 600 * _TIMES, 1), id="collectives"),
        pytest.param((4, 600, 30), (4, 600 * _TIMES, 30 * _TIMES), id="groups"),
    ],
)
def test_the_cost_is_linear(
    small: tuple[int, int, int], large: tuple[int, int, int], sequences: bool
) -> None:
    little, much = _parts(*small, sequences), _parts(*large, sequences)
    assert _linked(much).members.get_column("collective").null_count() == 0
    assert growth(_linked, little, much) < _LINEAR
