"""Of generated jobs no member is matched wrongly, and what ranks have in common is found."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.linking.ranks.made_members import MadeJob, agreement, facts
from tracebraid.linking.ranks.matching.matched import match_members

_DAY_NS = 86_400_000_000_000


@st.composite
def jobs(draw: st.DrawFn) -> tuple[MadeJob, pl.DataFrame]:
    """A job of two dimensions of parallelism and the whole, with what was recorded of it."""
    world = draw(st.sampled_from([2, 4, 8]))
    seed = draw(st.integers(0, 10_000))
    random = np.random.default_rng(seed)
    far = draw(st.sampled_from([0, 1_000_000, _DAY_NS]))
    job = MadeJob(
        world,
        seed,
        [int(random.integers(-far, far + 1)) for _ in range(world)],
        [float(random.uniform(-30, 30)) for _ in range(world)],
        sequences=draw(st.booleans()),
        communicators=draw(st.booleans()),
    )
    renamed = draw(st.booleans())
    sizes = draw(st.sampled_from([(1024,), (1024, 4096), (1024, 4096, 1024, 65536)]))
    for number in range(draw(st.integers(20, 120))):
        size = sizes[number % len(sizes)]
        step = number // 6
        if number % 3 == 0:
            for first in range(0, world, 2):
                pair = [first, first + 1]
                job.collective("all_gather", size, f"tp{first}", pair, step=step, renamed=renamed)
        else:
            job.collective("all_reduce", size, "world", step=step, renamed=renamed)
    return job, _recorded(job.frame(), draw(st.sampled_from([0.0, 0.02, 0.1])), random)


def _recorded(frame: pl.DataFrame, lost: float, random: np.random.Generator) -> pl.DataFrame:
    """Without some members, and with another window on each rank."""
    keep = random.random(frame.height) >= lost
    truth, rank = frame.get_column("truth").to_numpy(), frame.get_column("rank").to_numpy()
    most = truth.max()
    for number in np.unique(rank):
        cut = random.integers(0, most // 6 + 1, 2)
        keep &= (rank != number) | ((truth >= cut[0]) & (truth <= most - cut[1]))
    return frame.filter(pl.Series(keep))


@settings(max_examples=40, derandomize=True, deadline=None)
@given(jobs())
def test_no_member_is_matched_wrongly_and_nearly_all_are_found(made: tuple[MadeJob, pl.DataFrame]) -> None:
    job, recorded = made
    ranks = recorded.get_column("rank").unique().sort().to_list()
    matched = match_members(recorded.drop("truth"), facts(ranks, job.world))
    wrong, missed, there = agreement(matched.members, recorded)
    assert wrong == 0
    assert missed <= there * 0.001
    assert not [finding for finding in matched.findings if finding.code.value == "collectives-disordered"]
    ids = matched.collectives.get_column("collective")
    assert ids.to_list() == list(range(len(ids)))
    assert set(matched.members.get_column("collective").drop_nulls()) == set(ids)
    assert (matched.collectives.get_column("ranks").list.len() > 1).all()


@settings(max_examples=20, derandomize=True, deadline=None)
@given(jobs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(made: tuple[MadeJob, pl.DataFrame], shuffle: object) -> None:
    job, recorded = made
    members = recorded.drop("truth")
    ranks = facts(recorded.get_column("rank").unique().sort().to_list(), job.world)
    first = match_members(members, ranks)
    again = match_members(members.sample(fraction=1.0, shuffle=True, seed=1), ranks)
    assert first.collectives.equals(again.collectives)
