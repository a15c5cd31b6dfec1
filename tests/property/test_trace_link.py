"""trace_link's form of ET+, whatever ran: ids, order, parents, values and times."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import Json, call, flattened, kernel, node, op, tensor
from tests.peers import check_trace_link, is_device, load_et_plus, read_as_converter, read_as_replay
from tests.unit.linking.made import et_of, linked_of
from tracebraid.api import write_trace_link_et

steady = settings(deadline=None, derandomize=True, max_examples=20)
launches = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 50)), max_size=3)
"""When the kernels of an op start after it, and how long they take."""

ops = st.lists(st.tuples(st.booleans(), launches), min_size=1, max_size=8)
"""Of each op whether Kineto has it, and its kernels."""
Op = tuple[bool, list[tuple[int, int]]]


def made(ops: list[Op]) -> tuple[list[Json], list[Json], dict[str, str]]:
    """Events, nodes, and the op of each kernel that can be told."""
    events, nodes, ops_of = [], [], {}
    for row, (is_seen, kernels) in enumerate(ops):
        name, this, start = f"op{row}", 10 * row + 7, 100 * row
        values = [tensor(row + 3, 5, [row, 2]), ("Int", row, [])]
        nodes.append(node(this, name, 1001, values, values[:1], rf_id=this))
        if is_seen:
            events.append(op(name, start, 60, Record_function_id=this))
        for place, (delay, length) in enumerate(kernels):
            correlation = 1000 * (row + 1) + place
            events.append(call("launch", start + 10 * place + 1, 2, correlation))
            events.append(kernel(f"kernel{correlation}", start + delay, length, correlation))
            if is_seen:
                ops_of[f"kernel{correlation}"] = name
    return events, nodes, ops_of


def bare(one: Json) -> Json:
    """A host node without its times, and its attributes without their types."""
    kept = {k: v for k, v in one.items() if k not in ("ts", "dur", "inclusive_dur", "exclusive_dur", "attrs")}
    return {**kept, **{attr["name"]: attr["value"] for attr in one.get("attrs", ())}}


@steady
@given(ops=ops, is_flat=st.booleans())
def test_it_holds_the_execution_trace_and_every_device_event(ops: list[Op], is_flat: bool) -> None:
    events, nodes, ops_of = made(ops)
    all_nodes = et_of(*nodes)
    if is_flat:
        all_nodes = [flattened(one) for one in all_nodes]
    linked = linked_of(
        events or [op("x", 0, 1)], all_nodes, schema="1.0.1" if is_flat else "1.1.1-chakra.0.0.4"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one.json", "two.json"):
            write_trace_link_et(linked, Path(folder) / name)
        assert (Path(folder) / "one.json").read_bytes() == (Path(folder) / "two.json").read_bytes()
        found = load_et_plus(Path(folder) / "one.json")
    check_trace_link(found)
    read_as_replay(found)
    if not is_flat:
        read_as_converter(found)
    host = [bare(one) for one in found["nodes"] if not is_device(one)]
    assert host == [bare(one) for one in sorted(all_nodes, key=lambda one: one["id"])]
    names = {one["id"]: one["name"] for one in found["nodes"]}
    device = {one["name"]: one for one in found["nodes"] if is_device(one)}
    assert {name: names[one["parent"]] for name, one in device.items() if "orphan" not in one} == ops_of
    expected = {one["name"]: (one["ts"], one["dur"]) for one in events if one["cat"] == "kernel"}
    assert {name: (one["ts"], one["dur"]) for name, one in device.items()} == expected
