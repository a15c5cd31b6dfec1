"""Samples of ranks: every stratum has its share, the size is exact, and the same ranks give the same sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tracebraid.importers.sampling.strata import StrataBy, strata_of
from tracebraid.importers.sampling.stratified import stratified
from tracebraid.model.rank_origin import GroupOfRank, RankOrigin

steady = settings(deadline=None, derandomize=True, max_examples=100)


@dataclass(frozen=True)
class Layout:
    """A job as Megatron lays it out: tensor-parallel ranks are neighbours, pipeline stages far apart."""

    tensor: int
    data: int
    stages: int
    per_host: int
    is_pipeline_outermost: bool = True

    @property
    def ranks(self) -> int:
        return self.tensor * self.data * self.stages

    def position(self, rank: int) -> tuple[int, int, int]:
        """Where a rank is: tensor, data, stage."""
        rest, tensor = divmod(rank, self.tensor)
        if self.is_pipeline_outermost:
            stage, data = divmod(rest, self.data)
        else:
            data, stage = divmod(rest, self.stages)
        return tensor, data, stage

    def origins(self) -> list[RankOrigin]:
        everywhere = [self.position(rank) for rank in range(self.ranks)]
        members: dict[Hashable, list[int]] = {}
        for rank, here in enumerate(everywhere):
            for axis in range(3):
                members.setdefault((axis, here[:axis] + here[axis + 1 :]), []).append(rank)
        names = ("TENSOR", "DATA", "PIPELINE")
        world = GroupOfRank("default_pg", tuple(range(self.ranks)))
        return [
            RankOrigin(
                rank,
                f"node{rank // self.per_host}",
                (
                    world,
                    *(
                        GroupOfRank(names[axis], tuple(members[axis, here[:axis] + here[axis + 1 :]]))
                        for axis in range(3)
                    ),
                ),
            )
            for rank, here in enumerate(everywhere)
        ]


layouts = st.builds(
    Layout,
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 9),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.sampled_from([2, 3, 4, 8]),
    st.booleans(),
)


def farthest(keys: Sequence[Hashable], sample: Sequence[int]) -> float:
    """How far any stratum is from its share of the sample, in ranks."""
    sizes, taken = Counter(keys), Counter(keys[rank] for rank in sample)
    return max(abs(taken[key] - len(sample) * sizes[key] / len(keys)) for key in sizes)


def sample_of(origins: Sequence[RankOrigin], size: int) -> list[int]:
    return stratified(strata_of(origins), len(origins), size)


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=80), st.data())
@steady
def test_each_host_has_its_share(hosts: list[str], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(hosts)))
    found = sample_of([RankOrigin(rank, host) for rank, host in enumerate(hosts)], size)
    assert len(found) == len(set(found)) == size
    assert found == sorted(found)
    assert found[0] == 0
    assert size == 1 or found[-1] == len(hosts) - 1
    # The two ends are in every sample: where they have less than a share of their own, they take it from others.
    ends = Counter([hosts[0], hosts[-1]][:size])
    shares = {host: size * hosts.count(host) / len(hosts) for host in ends}
    borrowed = sum(max(0.0, ends[host] - shares[host]) for host in ends)
    assert farthest(hosts, found) < 1 + borrowed


@given(layouts, st.data())
@steady
def test_a_grid_of_parallel_groups_is_sampled_in_proportion_by_host_and_by_stage(
    layout: Layout, data: st.DataObject
) -> None:
    size = data.draw(st.integers(2, layout.ranks)) if layout.ranks > 1 else 1
    origins = layout.origins()
    found = sample_of(origins, size)
    assert len(found) == size
    assert {0, layout.ranks - 1} <= set(found)
    assert farthest([origin.host for origin in origins], found) < 2
    for axis in range(3):
        assert farthest([layout.position(rank)[axis] for rank in range(layout.ranks)], found) < 2


def test_a_large_job_is_sampled_within_one_rank_of_every_share() -> None:
    for outermost in (True, False):
        layout = Layout(8, 16, 8, 8, outermost)
        origins = layout.origins()
        for size in (8, 16, 32, 64, 100):
            found = sample_of(origins, size)
            for kind in range(1, 4):
                assert farthest([origin.groups[kind].ranks for origin in origins], found) <= 1
            assert farthest([origin.host for origin in origins], found) <= 1
            for axis in range(3):
                keys = [layout.position(rank)[axis] for rank in range(layout.ranks)]
                assert farthest(keys, found) <= 1, (outermost, size, axis)


@given(st.integers(1, 300), st.data())
@steady
def test_where_nothing_is_known_the_sample_is_evenly_spread(ranks: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, ranks))
    found = sample_of([RankOrigin(rank) for rank in range(ranks)], size)
    assert len(found) == size
    assert {0, ranks - 1 if size > 1 else 0} <= set(found)
    gaps = [after - before for before, after in pairwise(found)]
    assert not gaps or max(gaps) <= 2 * -(-ranks // size)


@given(layouts, st.integers(2, 20))
@steady
def test_the_order_in_which_groups_are_named_does_not_matter(layout: Layout, size: int) -> None:
    origins = layout.origins()
    size = min(size, len(origins))
    reversed_groups = [RankOrigin(origin.rank, origin.host, origin.groups[::-1]) for origin in origins]
    assert sample_of(reversed_groups, size) == sample_of(origins, size)


def test_only_what_tells_ranks_apart_divides_them() -> None:
    world = GroupOfRank("default_pg", (0, 1, 2))
    assert strata_of([RankOrigin(rank, "localhost", (world,)) for rank in range(3)]) == ()
    (by_host,) = strata_of([RankOrigin(rank, f"node{rank}", (world,)) for rank in range(3)])
    assert by_host.by is StrataBy.HOST
