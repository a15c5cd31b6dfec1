"""Does a repaired Execution Trace have the parents of Kineto's nesting, and everything else as it was?"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.builders import Json, et_text, kineto_text, node, op, tensor, write
from tests.unit.linking.made import et_of
from tests.unit.validation.made import EVENTS, NODES, ran, shuffled, step
from tracebraid import link
from tracebraid.errors import ArgumentError, OutputError
from tracebraid.exporters.et_json import write_repaired_et
from tracebraid.model.check import Repair

MARK = "tracebraid_missing_parent"
TRUE = {10: 1001, 11: 10, 12: 11, 13: 10}


def repaired(
    folder: Path, events: Sequence[Json], nodes: Sequence[Json], schema: str = "1.1.1-chakra.0.0.4"
) -> tuple[Repair, Json]:
    """Repair these traces into another file; hands back that file too, the original where none was written."""
    et = write(folder / "torch_et_0.json", et_text(list(nodes), schema))
    kineto = write(folder / "kineto_trace_0.json", kineto_text(list(events)))
    new = folder / "new.json"
    done = write_repaired_et(link(et, kineto), new)
    assert new.exists() == done.written
    return done, json.loads((new if done.written else et).read_bytes())


def parents(found: Json) -> dict[int, int]:
    """The parents of all but the roots."""
    return {one["id"]: one["ctrl_deps"] for one in found["nodes"] if "|profiler|" not in one["name"]}


def attrs(found: Json, node_id: int) -> dict[str, object]:
    (one,) = [one for one in found["nodes"] if one["id"] == node_id]
    return {attr["name"]: attr["value"] for attr in one["attrs"]}


# --- where nodes hang -------------------------------------------------------------------------------


def test_a_sound_trace_is_not_written_again(tmp_path: Path) -> None:
    done, _ = repaired(tmp_path, EVENTS, NODES)
    assert (done.nodes, done.changed, done.written) == (6, (), False)


@pytest.mark.parametrize(
    ("node_id", "parent"), [(13, 11), (12, 10), (12, 13), (11, 1001), (10, 1), (12, 404), (11, 12), (13, 13)]
)
def test_a_wrong_parent_becomes_the_op_around_it(tmp_path: Path, node_id: int, parent: int) -> None:
    done, found = repaired(tmp_path, EVENTS, shuffled(node_id, parent))
    assert parents(found) == TRUE
    assert done.changed == (node_id,)


def test_what_no_op_is_around_hangs_under_the_root_of_its_own_thread(tmp_path: Path) -> None:
    events = [
        ran("one", 0, 50, 11),
        {**ran("two", 10, 20, 12), "tid": 2},
        {**ran("three", 12, 5, 13), "tid": 2},
    ]
    nodes = et_of(node(11, "one", 12), node(12, "two", 11, tid=2), node(13, "three", 11, tid=2), threads=2)
    _, found = repaired(tmp_path, events, nodes)
    assert parents(found) == {11: 1001, 12: 1002, 13: 12}


def test_without_a_root_of_its_thread_a_node_hangs_under_the_process(tmp_path: Path) -> None:
    nodes = et_of(node(11, "outer", 404, tid=5), node(12, "inner", 11, tid=5))
    _, found = repaired(tmp_path, EVENTS, nodes)
    assert parents(found) == {11: 1, 12: 11}


def test_an_op_that_was_never_written_is_passed_over_for_the_next_one_around_it(tmp_path: Path) -> None:
    nodes = [one for one in shuffled(12, 404) if one["id"] != 11]
    _, found = repaired(tmp_path, EVENTS, nodes)
    assert parents(found) == {10: 1001, 12: 10, 13: 10}


def test_a_node_without_an_event_stays_where_it_is(tmp_path: Path) -> None:
    nodes = [*shuffled(13, 11), node(20, "unseen", 12), node(21, "below", 20)]
    done, found = repaired(tmp_path, EVENTS, nodes)
    assert parents(found) == {**TRUE, 20: 12, 21: 20}
    assert done.changed == (13,)


def test_a_node_without_an_event_and_without_a_parent_hangs_under_its_thread(tmp_path: Path) -> None:
    done, found = repaired(tmp_path, EVENTS, [*NODES, node(20, "unseen", 404)])
    assert parents(found) == {**TRUE, 20: 1001}
    assert done.changed == (20,)


def test_a_cycle_is_opened(tmp_path: Path) -> None:
    nodes = et_of(*NODES[1:3], node(12, "inner", 13), node(13, "after", 12))
    _, found = repaired(
        tmp_path, EVENTS, [*NODES[:3], *[one for one in nodes if one["id"] in (12, 13)], NODES[-1]]
    )
    assert parents(found) == TRUE


def test_a_true_parent_without_an_event_of_its_own_is_kept(tmp_path: Path) -> None:
    """A parent whose id or name Kineto lost: what the Execution Trace says does not contradict the nesting."""
    between = et_of(
        node(20, "ProfilerStep#1", 1001, rf_id=10),
        node(21, "outer", 20, rf_id=11),
        node(22, "unseen", 21, rf_id=99),
        node(23, "inner", 22, rf_id=12),
        node(24, "after", 20, rf_id=13),
    )
    done, _ = repaired(tmp_path, EVENTS, between)
    assert done.changed == ()


def test_a_parent_that_began_before_kineto_did_is_kept(tmp_path: Path) -> None:
    nodes = et_of(node(9, "began before", 1001), node(11, "outer", 9), node(12, "inner", 11))
    done, _ = repaired(tmp_path, EVENTS[1:], nodes)
    assert done.changed == ()


def test_after_a_repair_no_parent_differs_although_an_op_in_between_was_never_written(tmp_path: Path) -> None:
    nodes = et_of(node(10, "ProfilerStep#1", 1001), node(12, "inner", 10), node(13, "after", 12))
    repaired(tmp_path, EVENTS, nodes)
    again = link(tmp_path / "new.json", tmp_path / "kineto_trace_0.json", "exact")
    assert again.findings == ()


# --- marks ------------------------------------------------------------------------------------------


def test_a_node_whose_parent_was_never_written_hangs_where_it_ran_and_loses_the_mark(tmp_path: Path) -> None:
    """As a capture leaves it: under its thread, with the id of the operator that raised or was still open."""
    nodes = et_of(
        node(10, "ProfilerStep#1", 1001),
        node(12, "inner", 1001, tracebraid_missing_parent=11),
        node(13, "after", 10, mine="kept"),
    )
    done, found = repaired(tmp_path, EVENTS, nodes)
    assert parents(found) == {10: 1001, 12: 10, 13: 10}
    assert MARK not in attrs(found, 12)
    assert attrs(found, 13)["mine"] == "kept"
    assert done.changed == (12,)


def test_a_mark_alone_is_reason_enough_to_write(tmp_path: Path) -> None:
    """The operator that was never written was the outermost: the node hangs where it should."""
    nodes = et_of(node(11, "outer", 1001, tracebraid_missing_parent=10), node(12, "inner", 11))
    done, found = repaired(tmp_path, EVENTS[1:], nodes)
    assert (done.changed, done.written) == ((), True)
    assert MARK not in attrs(found, 11)


def test_a_mark_stays_where_nothing_shows_what_ran_around_the_node(tmp_path: Path) -> None:
    nodes = [*shuffled(13, 11), node(20, "unseen", 1001, tracebraid_missing_parent=404)]
    done, found = repaired(tmp_path, EVENTS, nodes)
    assert done.changed == (13,)
    assert attrs(found, 20)[MARK] == 404


# --- what else is in the file -----------------------------------------------------------------------

ODD = [
    node(
        11,
        'a "quoted" \\ näme\n\x01 漢字 \u2028',
        404,
        [tensor(3, 4, [2, 3]), ("Int", 2**53 + 1, []), ("String", 'x "y" \\ \n', []), ("Double", "nan", [])],
        [tensor(2**62, 7, [0]), ("GenericList[Tensor(float)]", [[8, 9, 0, 1, 4, "cuda:0"]], [[1]])],
        rf_id=11,
        seq_id=2**40,
        kernel_backend="triton",
        collective_name="allreduce",
        pg_name="tp",
        in_msg_nelems=5,
        mine="[1, {}]",
    )
]


def test_names_values_and_attributes_come_back_as_they_were(tmp_path: Path) -> None:
    nodes = et_of(*ODD)
    _, found = repaired(tmp_path, [step(1)], nodes)
    (before,) = [one for one in nodes if one["id"] == 11]
    (after,) = [one for one in found["nodes"] if one["id"] == 11]
    for one in (before, after):
        one["attrs"] = sorted(one["attrs"], key=lambda attr: attr["name"])
        for attr in one["attrs"]:
            del attr["type"]
    assert after == {**before, "ctrl_deps": 1001}


def test_nodes_are_in_the_order_of_their_ids_and_the_header_is_the_same(tmp_path: Path) -> None:
    _, found = repaired(tmp_path, EVENTS, shuffled(13, 11))
    ids = [one["id"] for one in found["nodes"]]
    assert ids == sorted(ids) == [1, 10, 11, 12, 13, 1001]
    before = json.loads((tmp_path / "torch_et_0.json").read_bytes())
    assert {**found, "nodes": []} == {**before, "nodes": []}


def test_members_of_the_header_that_nobody_knows_are_kept(tmp_path: Path) -> None:
    text = et_text(shuffled(13, 11)).replace('"pid": 1', '"pid": 1, "job": {"name": "x"}')
    et = write(tmp_path / "torch_et_0.json", text)
    kineto = write(tmp_path / "kineto_trace_0.json", kineto_text(list(EVENTS)))
    assert write_repaired_et(link(et, kineto), tmp_path / "new.json").written
    assert json.loads((tmp_path / "new.json").read_bytes())["job"] == {"name": "x"}


def test_a_name_that_ends_in_gz_is_gzip_and_the_bytes_are_always_the_same(tmp_path: Path) -> None:
    et = write(tmp_path / "torch_et_0.json.gz", et_text(shuffled(13, 11)))
    linked = link(et, write(tmp_path / "kineto_trace_0.json", kineto_text(list(EVENTS))))
    for name in ("a.json.gz", "b.json.gz", "c.json"):
        write_repaired_et(linked, tmp_path / name)
    packed = (tmp_path / "a.json.gz").read_bytes()
    assert packed == (tmp_path / "b.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "c.json").read_bytes()


# --- refusals ---------------------------------------------------------------------------------------


def test_a_timeline_alone_has_nothing_to_repair(tmp_path: Path) -> None:
    kineto = write(
        tmp_path / "kineto_trace_3.json", kineto_text(list(EVENTS), {"distributedInfo": {"rank": 3}})
    )
    with pytest.raises(ArgumentError, match="rank 3 has no Execution Trace"):
        write_repaired_et(link(None, kineto), tmp_path / "new.json")


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    et = write(tmp_path / "torch_et_0.json", et_text(shuffled(13, 11)))
    linked = link(et, write(tmp_path / "kineto_trace_0.json", kineto_text(list(EVENTS))))
    with pytest.raises(OutputError, match="no_such_folder"):
        write_repaired_et(linked, tmp_path / "no_such_folder" / "new.json")


# --- proof ------------------------------------------------------------------------------------------


def test_what_ran_inside_of_a_range_without_children_stays_above_it(tmp_path: Path) -> None:
    """The range may be asynchronous, and what ran meanwhile not called by it."""
    nodes = et_of(node(11, "outer", 1001), node(12, "inner", 11, scope=7), node(13, "in", 11))
    events = [ran("outer", 0, 90, 11), ran("inner", 10, 50, 12), ran("in", 20, 10, 13)]
    done, _ = repaired(tmp_path, events, nodes)
    assert (done.changed, done.left, done.written) == ((), (), False)


def test_a_range_that_calls_others_gets_back_what_it_lost(tmp_path: Path) -> None:
    nodes = et_of(
        node(11, "outer", 1001), node(12, "inner", 11, scope=7), node(13, "in", 12), node(14, "in", 11)
    )
    events = [ran("outer", 0, 90, 11), ran("inner", 10, 50, 12), ran("in", 20, 9, 13), ran("in", 30, 9, 14)]
    done, found = repaired(tmp_path, events, nodes)
    assert done.changed == (14,)
    assert parents(found) == {11: 1001, 12: 11, 13: 12, 14: 12}


def test_without_proof_against_a_parent_it_stays_and_is_counted(tmp_path: Path) -> None:
    """By its ids the op around began later; one of the two traces is wrong, and nothing says which."""
    nodes = et_of(node(11, "outer", 1001), node(13, "in", 11), node(14, "inner", 11))
    events = [ran("outer", 0, 90, 11), ran("inner", 10, 50, 14), ran("in", 20, 10, 13)]
    done, _ = repaired(tmp_path, events, nodes)
    assert (done.changed, done.left, done.written) == ((), (13,), False)


def test_nothing_moves_that_is_linked_without_ids(tmp_path: Path) -> None:
    nodes = et_of(
        *(node(10 + n, f"op{n}", 1001, rf_id=0) for n in range(1, 5)), node(20, "inner", 14, rf_id=0)
    )
    events = [op(f"op{n}", 100 * n, 90) for n in range(1, 5)] + [op("inner", 110, 5)]
    done, _ = repaired(tmp_path, events, nodes)
    assert done.changed == ()
