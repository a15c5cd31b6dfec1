"""In which group does a rank do what another one does in its own?"""

from __future__ import annotations

import pytest

from tracebraid.exporters.chakra.plan.group_images import group_image


@pytest.mark.parametrize(
    ("group", "rank", "world", "expected"),
    [
        pytest.param([0, 1], 3, 8, (2, 3), id="tensor parallel pairs"),
        pytest.param([0, 2, 4, 6], 1, 8, (1, 3, 5, 7), id="data parallel across pairs"),
        pytest.param([0, 2, 4, 6], 4, 8, (0, 2, 4, 6), id="it is in the group"),
        pytest.param([0, 4], 7, 16, (3, 7), id="distance four"),
        pytest.param([0, 4], 9, 16, (9, 13), id="distance four, the next block"),
        pytest.param([0, 1, 4, 5], 13, 16, (8, 9, 12, 13), id="no single distance: blocks"),
        pytest.param([0, 1, 4, 5], 11, 16, None, id="a place of a block that the pattern lacks"),
        pytest.param([3], 5, 8, (5,), id="a group of one"),
        pytest.param([0, 1, 2], 5, 8, (4, 5, 6), id="three of each four"),
        pytest.param([0, 1, 2], 3, 8, None, id="the fourth of four"),
        pytest.param([1, 2], 0, 4, None, id="pairs that begin at an odd rank"),
        pytest.param([1, 0], 2, 4, (3, 2), id="in falling order, as a block"),
    ],
)
def test_the_pattern_of_a_group_fills_the_world(
    group: list[int], rank: int, world: int, expected: tuple[int, ...] | None
) -> None:
    assert group_image(group, rank, (world, world)) == expected


def test_all_ranks_remain_all_ranks_of_a_larger_world() -> None:
    assert group_image([0, 1], 5, (2, 8)) == tuple(range(8))


def test_a_known_group_that_is_the_same_one_moved_has_the_first_word() -> None:
    assert group_image([0, 1, 2], 5, (8, 8), [(0, 1, 2), (3, 4, 5), (5, 6)]) == (3, 4, 5)


def test_a_known_group_of_another_pattern_or_that_shares_ranks_is_none() -> None:
    assert group_image([0, 1, 2], 3, (8, 8), [(1, 3, 5), (2, 3, 4)]) is None


def test_images_of_all_ranks_part_the_world() -> None:
    for group in ([0, 1], [0, 2], [0, 4], [0, 1, 2, 3], [0, 2, 4, 6]):
        images = {rank: group_image(group, rank, (8, 8)) for rank in range(8)}
        assert all(
            image is not None and images[other] == image for image in images.values() for other in image or ()
        )
