"""Which process groups do the two traces tell?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tracebraid.importers.process_groups import groups_of_kineto, groups_of_text, process_groups
from tracebraid.model.schema import PROCESS_GROUPS

GROUP = {
    "pg_name": "0",
    "pg_desc": "default_pg",
    "backend_config": "cuda:nccl",
    "ranks": [0, 1],
    "pg_size": 2,
}
ROW = ("0", "default_pg", "cuda:nccl", [0, 1], 2)


def test_the_groups_of_a_kineto_header_are_rows() -> None:
    groups = [GROUP, {**GROUP, "pg_name": "1"}]
    table = groups_of_kineto({"distributedInfo": {"rank": 0, "pg_config": groups}})
    assert table.rows() == [ROW, ("1", *ROW[1:])]


@pytest.mark.parametrize(
    "info", [None, [], "x", {}, {"pg_config": None}, {"pg_config": {}}, {"pg_config": [1]}]
)
def test_a_header_without_groups_gives_an_empty_table(info: object) -> None:
    table = groups_of_kineto({"distributedInfo": info})
    assert table.is_empty()
    assert dict(table.schema) == PROCESS_GROUPS.polars_schema()


def test_ranks_may_be_text() -> None:
    assert process_groups([{**GROUP, "ranks": "[0, 3]"}]).get_column("ranks").to_list() == [[0, 3]]


def test_the_init_node_of_an_execution_trace_names_its_size_otherwise() -> None:
    text = json.dumps([{"pg_name": "0", "pg_desc": "d", "ranks": [], "group_size": 2, "group_count": 1}])
    assert groups_of_text(text).rows() == [("0", "d", None, [], 2)]
    assert groups_of_text(json.dumps(text)).rows() == [("0", "d", None, [], 2)]


@pytest.mark.parametrize(
    "text", ["", "[", "5", "{}", '"x"', '"[]"', "null", '[{"a"', "[" * 100_000], ids=range(9)
)
def test_text_that_lists_no_groups_gives_an_empty_table(text: str) -> None:
    assert groups_of_text(text).is_empty()


@pytest.mark.parametrize(
    "odd",
    [
        {"ranks": [2**70]},
        {"ranks": [0, 2**70]},
        {"ranks": [0, "x", 1.5, None]},
        {"ranks": {"a": 1}},
        {"ranks": "[0, 1, ...]"},
        {"pg_size": 2**70},
        {"pg_size": "2"},
        {"pg_size": [2]},
        {"pg_name": 7},
        {"pg_name": ["7", "x"]},
        {"pg_name": None},
        {"backend_config": {"cpu": "gloo"}},
    ],
)
def test_odd_members_of_a_group_cost_no_group(odd: dict[str, Any]) -> None:
    for groups, good in (([{**GROUP, **odd}, GROUP], 1), ([GROUP, {**GROUP, **odd}], 0)):
        table = process_groups(groups)
        assert table.height == 2
        assert table.row(good) == ROW
        assert dict(table.schema) == PROCESS_GROUPS.polars_schema()


def test_ranks_that_were_cut_short_are_not_all_ranks() -> None:
    """No ranks means: all of them."""
    ranks = process_groups([{**GROUP, "ranks": "[2, 3, ...]"}]).get_column("ranks").to_list()
    assert ranks != [[]]
