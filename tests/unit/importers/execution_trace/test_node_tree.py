"""Is the tree of nodes put in order whatever the ids and parents are?"""

from __future__ import annotations

from typing import TypeAlias

import polars as pl

from tracebraid.importers.execution_trace.node_tree import last_inside, tidy_nodes
from tracebraid.model.finding import Finding
from tracebraid.model.schema import ET_NODES

PROCESS = "[pytorch|profiler|execution_trace|process]"

Row: TypeAlias = "tuple[int, str, int | None]"
"""(id, name, parent)."""


def frame_of(nodes: list[Row]) -> pl.DataFrame:
    ids, names, parents = zip(*nodes, strict=True)
    return pl.DataFrame(
        {"node_id": ids, "name": names, "parent_id": parents},
        schema_overrides={key: ET_NODES.polars_schema()[key] for key in ("node_id", "name", "parent_id")},
    )


def tidied(nodes: list[Row], repeated: list[int] | None = None) -> tuple[list[Row], list[Finding]]:
    tidy, findings = tidy_nodes(frame_of(nodes), repeated or [], "et.json")
    return tidy.select("node_id", "name", "parent_id").rows(), findings


def reach(parents: list[int | None]) -> list[int]:
    """Rows of the last node inside each; ids are rows."""
    return last_inside(frame_of([(i, "a", parent) for i, parent in enumerate(parents)])).tolist()


def test_nodes_are_put_in_the_order_of_their_ids() -> None:
    rows, findings = tidied([(3, "b", 2), (2, "a", 1), (1, PROCESS, 1)])
    assert rows == [(1, PROCESS, None), (2, "a", 1), (3, "b", 2)]
    assert findings == []


def test_roots_are_the_nodes_of_processes_and_threads() -> None:
    names = [
        "[pytorch|profiler|execution_graph|process]",
        "[pytorch|profiler|execution_trace|thread]",
        "aten::add",
        "my [pytorch|profiler|execution_trace|thread]",
    ]
    tidy, _ = tidy_nodes(frame_of([(i, name, 0) for i, name in enumerate(names)]), [], "")
    assert tidy.get_column("is_root").to_list() == [True, True, False, False]


def test_nodes_that_were_left_out_for_their_id_are_counted() -> None:
    rows, findings = tidied([(1, PROCESS, 1), (2, "a", 1), (3, "d", 1)], repeated=[3, 2, 2])
    assert rows == [(1, PROCESS, None), (2, "a", 1), (3, "d", 1)]
    assert [(f.code, f.path, f.where, f.count) for f in findings] == [
        ("duplicate-id", "et.json", "nodes 2, 3", 3)
    ]


def test_a_parent_that_is_not_there_stays_and_is_said() -> None:
    rows, findings = tidied([(1, PROCESS, 1), (5, "a", 4), (6, "b", 5), (7, "c", 4)])
    assert rows == [(1, PROCESS, None), (5, "a", 4), (6, "b", 5), (7, "c", 4)]
    assert [(f.code, f.where, f.count) for f in findings] == [("parent-missing", "nodes 5, 7", 2)]


def test_each_cycle_of_parents_is_cut_at_one_node() -> None:
    rows, findings = tidied(
        [(1, PROCESS, 1), (2, "a", 3), (3, "b", 4), (4, "c", 2), (5, "d", 6), (6, "e", 5), (7, "f", 5)]
    )
    up = {node: parent for node, _, parent in rows}
    assert sum(parent is None for parent in up.values()) == 3
    for node in up:
        above: list[int | None] = [node]
        while (parent := up.get(above[-1] or 0)) is not None:
            assert parent not in above
            above.append(parent)
    assert [(f.code, f.count) for f in findings] == [("parent-cycle", 2)]


def test_only_three_nodes_are_named_in_a_finding() -> None:
    _, findings = tidied([(i, "a", 99) for i in range(1, 10)])
    assert findings[0].where == "nodes 1, 2, 3, ..."
    assert findings[0].count == 9


def test_a_chain_of_a_hundred_thousand_nodes_is_read_without_recursion() -> None:
    count = 100_000
    rows, findings = tidied([(i, "a", i - 1) for i in range(1, count + 1)])
    assert len(rows) == count
    assert [f.code for f in findings] == ["parent-missing"]
    assert reach([None, *range(count - 1)]) == [count - 1] * count


def test_a_cycle_of_a_hundred_thousand_nodes_is_cut_once() -> None:
    count = 100_000
    _, findings = tidied([(i, "a", (i + 1) % count) for i in range(count)])
    assert [(f.code, f.count) for f in findings] == [("parent-cycle", 1)]


def test_a_node_reaches_to_its_last_descendant() -> None:
    assert reach([None, 0, 1, 1, 0, 4, None]) == [5, 3, 2, 3, 5, 5, 6]


def test_a_parent_that_starts_after_its_child_is_not_around_it() -> None:
    assert reach([None, 3, 0, None]) == [2, 1, 2, 3]
