"""Parts of a rank: what is chosen, what is near it, and what is said of the rest."""

from __future__ import annotations

import pytest

from tests.unit.chakra.showing.made_rank import FIRST_ID, MISSING, made_rank
from tracebraid.chakra.showing.part import chosen_part
from tracebraid.errors import ArgumentError
from tracebraid.model.chakra.codes import NodeType
from tracebraid.model.chakra.part import PartChoice


def ids_of(choice: PartChoice) -> list[int]:
    return [node - FIRST_ID for node in chosen_part(made_rank(), choice).nodes.get_column("node_id")]


@pytest.mark.parametrize(
    ("choice", "rows"),
    [
        (PartChoice(), list(range(11))),
        (PartChoice(nodes=(13,)), [3]),
        (PartChoice(nodes=(13,), near=1), [3, 4, 5, 6, 7, 8, 9]),
        (PartChoice(nodes=(13,), near=2), [0, 3, 4, 5, 6, 7, 8, 9, 10]),
        (PartChoice(nodes=(13,), near=99), list(range(11))),
        (PartChoice(ids=(11, 13)), [1, 2, 3]),
        (PartChoice(name="parallel"), [5, 6, 7, 8, 9]),
        (PartChoice(name="<script>"), [0]),
        (PartChoice(step="1"), [5, 6, 7, 8, 9]),
        (PartChoice(step="1", top=2), [8, 9]),
        (PartChoice(types=(NodeType.MEM_LOAD_NODE, NodeType.MEM_STORE_NODE)), [5, 6]),
        (PartChoice(types=(NodeType.COMP_NODE,), top=1, near=1), [5, 6, 7, 8, 9, 10]),
    ],
    ids=str,
)
def test_what_is_chosen(choice: PartChoice, rows: list[int]) -> None:
    assert ids_of(choice) == rows


def test_dependencies_within_the_part_are_kept_and_the_others_counted() -> None:
    part = chosen_part(made_rank(), PartChoice(ids=(10, 12)))
    assert sorted(part.edges.rows()) == [
        (10, 11, "data"),
        (10, 12, "control"),
        (11, 12, "data"),
        (12, 11, "data"),
        (MISSING, 12, "control"),
    ]
    assert part.missing == (MISSING,)
    assert part.left_out == 1
    assert part.nodes_of_file == 11
    whole = chosen_part(made_rank(), PartChoice())
    assert (whole.edges.height, whole.left_out) == (17, 0)


@pytest.mark.parametrize(
    "choice",
    [
        PartChoice(nodes=(7,)),
        PartChoice(step="2"),
        PartChoice(ids=(1, 9)),
        PartChoice(name="nothing of this name"),
        PartChoice(types=(NodeType.COMM_SEND_NODE,)),
    ],
    ids=str,
)
def test_a_part_without_nodes_is_refused(choice: PartChoice) -> None:
    with pytest.raises(ArgumentError):
        chosen_part(made_rank(), choice)
