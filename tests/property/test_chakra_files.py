"""Chakra's files: the wire, JSON, nodes, lanes, and the check."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.builders import Json, call, kernel, op
from tests.chakra_lanes import check_lane, has_enclosed_communication
from tests.chakra_nodes import check_nodes, communication_of
from tests.chakra_ranks import collective, compute, rank_of, receive, send
from tests.planted import PlannedJob, Scene
from tests.planted.random_scenes import scenes
from tests.property.test_graphs import jobs
from tests.unit.linking.made import linked_of
from tracebraid import chakra
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.chakra import Detail, LintCode, NodeType
from tracebraid.chakra.as_json import JsonForm, chunks_of, frames_of_json, json_of, plain_bytes, plain_nodes
from tracebraid.chakra.checking.check_job import JobFacts, check_job
from tracebraid.chakra.checking.rank_facts import rank_facts
from tracebraid.chakra.exporting.merged import rank_as_lane
from tracebraid.chakra.exporting.rank_nodes import rank_nodes
from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.reading import FramedFile
from tracebraid.chakra.wire.writing import rank_bytes
from tracebraid.errors import InputError, NotATraceError
from tracebraid.filesystem.local import MemoryFile
from tracebraid.graph.joining import in_steps
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.wire_format import number_field

_UINT64 = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 127, 128, 2**31, 2**32, 2**63 - 1, 2**63])
_TEXT = st.text(max_size=8)

_NAMES = st.sampled_from(
    ["comm_size", "is_cpu_op", "comm_type", "pg_name", "comm_tag", "tensor_size", "rf_id", ""]
)

_INT32, _INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
_UINT32 = st.integers(0, 2**32 - 1)

_OF_TYPE = {
    "double": st.floats(),
    "float": st.floats(width=32),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), _INT32),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), _INT64),
    **dict.fromkeys(("uint32", "fixed32"), _UINT32),
    **dict.fromkeys(("uint64", "fixed64"), _UINT64),
    "bool": st.booleans(),
    "string": _TEXT,
    "bytes": st.binary(max_size=6),
}


@st.composite
def attributes(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(sorted(_OF_TYPE)))
    attribute = messages().attribute(name=draw(_NAMES), doc_string=draw(st.just("") | _TEXT))
    form = draw(st.sampled_from(["value", "value", "list", "none"]))
    if form == "value":
        setattr(attribute, f"{kind}_val", draw(_OF_TYPE[kind]))
    elif form == "list":
        held = getattr(attribute, f"{kind}_list")
        held.SetInParent()
        held.values.extend(draw(st.lists(_OF_TYPE[kind], max_size=3)))
    return attribute


@st.composite
def io_infos(draw: st.DrawFn) -> Any:
    return messages().io_info(values=draw(_TEXT), shapes=draw(_TEXT), types=draw(_TEXT))


@st.composite
def nodes(draw: st.DrawFn) -> Any:
    node = messages().node(
        id=draw(_UINT64),
        name=draw(_TEXT),
        type=draw(st.integers(1, 9)),
        ctrl_deps=draw(st.lists(_UINT64, max_size=3)),
        data_deps=draw(st.lists(_UINT64, max_size=3)),
        start_time_micros=draw(_UINT64),
        duration_micros=draw(_UINT64),
        attr=draw(st.lists(attributes(), max_size=4)),
    )
    for member in ("inputs", "outputs"):
        if draw(st.booleans()):
            getattr(node, member).CopyFrom(draw(io_infos()))
    return node


def framed(contents: list[bytes]) -> bytes:
    """Each behind its length."""
    return b"".join(number_field(0, len(content))[1:] + content for content in contents)


def signed(bits: int) -> int:
    return bits - (1 << 64) if bits >= 1 << 63 else bits


def read(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.0.et")
        path.write_bytes(content)
        return chakra.read(path)


@pytest.mark.full
@settings(deadline=None, max_examples=30)
@given(st.lists(nodes(), max_size=4), st.lists(attributes(), max_size=2))
def test_columns_hold_what_protobuf_reads(written: list[Any], of_file: list[Any]) -> None:
    metadata = messages().metadata(version="0.0.4", attr=of_file)
    found = read(framed([message.SerializeToString() for message in (metadata, *written)]))
    assert [name for name, _ in found.attributes] == [attribute.name for attribute in of_file]
    names = {kind.value: kind.name for kind in NodeType}
    rows = found.nodes.to_dicts()
    assert len(rows) == len(written)
    for row, node in zip(rows, written, strict=True):
        assert row["node_id"] == signed(node.id)
        assert row["name"] == node.name
        assert row["type"] == names.get(node.type, str(node.type))
        assert (row["duration_micros"] or 0) == max(0, signed(node.duration_micros))
        assert (row["shapes"] or "") == node.inputs.shapes
    for deps, member in ((found.data_deps, "data_deps"), (found.ctrl_deps, "ctrl_deps")):
        expected = [signed(item) for node in written for item in getattr(node, member)]
        assert deps.node_id.tolist() == expected
    again = read(b"".join(rank_bytes(found)))
    assert again.nodes.equals(found.nodes.with_columns(pl.col("duration_micros").fill_null(0)))


@pytest.mark.full
@settings(deadline=None, max_examples=60)
@given(st.lists(nodes(), min_size=1, max_size=3), st.data())
def test_damage_loses_no_node_that_protobuf_still_reads(written: list[Any], data: st.DataObject) -> None:
    contents = [bytearray(node.SerializeToString()) for node in written]
    wanted = data.draw(st.integers(0, len(contents) - 1))
    for _ in range(data.draw(st.integers(1, 4))):
        if contents[wanted]:
            at = data.draw(st.integers(0, len(contents[wanted]) - 1))
            contents[wanted][at] = data.draw(st.integers(0, 255))
    found = read(framed([b"\n\x050.0.4", *map(bytes, contents)]))
    kept = []
    for content in contents:
        try:
            kept.append(messages().node.FromString(bytes(content)))
        except messages().error:
            continue
    assert found.nodes["node_id"].to_list() == [signed(node.id) for node in kept]
    assert found.nodes["name"].to_list() == [node.name for node in kept]
    assert found.data_deps.node_id.tolist() == [signed(item) for node in kept for item in node.data_deps]
    assert bool(found.findings) >= (len(kept) < len(written))


@settings(deadline=None, max_examples=80)
@given(st.binary(max_size=60) | st.lists(st.binary(max_size=20), max_size=5).map(framed))
def test_no_bytes_raise_anything_else_than_an_error_that_names_the_file(content: bytes) -> None:
    with contextlib.suppress(InputError):
        assert read(content).rank == 0


def as_json(content: bytes, form: JsonForm) -> bytes:
    return b"".join(chunks_of(FramedFile(MemoryFile("a.0.et", content), None), form))


def back(text: bytes, block_bytes: int) -> bytes:
    blocks = (text[at : at + block_bytes] for at in range(0, len(text), block_bytes))
    return b"".join(frames_of_json("a.json", blocks))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(nodes(), max_size=4),
    st.lists(attributes(), max_size=2),
    st.sampled_from(list(JsonForm)),
    st.integers(1, 400),
)
def test_messages_come_back_as_the_same_bytes(
    written: list[Any], of_file: list[Any], form: JsonForm, block_bytes: int
) -> None:
    metadata = messages().metadata(version="0.0.4", attr=of_file)
    content = framed([message.SerializeToString() for message in (metadata, *written)])
    for batch in FramedFile(MemoryFile("a.0.et", content), None).batches():
        texts = plain_nodes(batch.data, batch.messages)[1:]
        expected = [json_of(messages().node, node.SerializeToString()).decode() for node in written]
        assert [text or "" for text in texts] == [
            known if text else "" for text, known in zip(texts, expected, strict=True)
        ]
    assert back(as_json(content, form), block_bytes) == content


@settings(deadline=None, max_examples=50)
@given(
    st.lists(nodes(), min_size=1, max_size=3), st.sampled_from([JsonForm.DOCUMENT, JsonForm.LINES]), st.data()
)
def test_damaged_and_foreign_messages_come_back_too(
    written: list[Any], form: JsonForm, data: st.DataObject
) -> None:
    contents = [bytearray(node.SerializeToString()) for node in written]
    for content in contents:
        for _ in range(data.draw(st.integers(0, 3)) if content else 0):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        content += data.draw(st.binary(max_size=4))
    whole = framed([b"\n\x050.0.4", *map(bytes, contents)])
    assert back(as_json(whole, form), 1 << 16) == whole


@pytest.mark.parametrize("form", list(JsonForm))
def test_a_file_without_metadata_comes_back(form: JsonForm) -> None:
    content = framed([messages().node(id=1, name="first", type=4).SerializeToString()])
    assert back(as_json(content, form), 10) == content


def test_a_first_node_that_could_be_metadata_comes_back() -> None:
    node = messages().node(attr=[messages().attribute(name="a")])
    content = framed([node.SerializeToString()])
    assert back(as_json(content, JsonForm.LINES), 10) == content


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"[]", "object 1"),
        (b'{"metadata": {}, "nodes": [{"id": "1"}', "object 3"),
        (b'{"version": "1"}\n{"id": "x"}', "object 2"),
        (b'{"version": "1"}\n{"kind": "x"}', "object 2"),
        (b'{"version": "1"}\n{"id": "1", "@wire": "CAI="}', "object 2"),
        (b'{"version": "1"}\n{"@wire": "?"}', "object 2"),
        (b'{"version": "1"}\n7', "object 2"),
        (b'{"version": "\xff"}', "object 1"),
        (b'{"a":' * 100_000, "object 1"),
    ],
)
def test_other_json_is_refused_and_says_where(text: bytes, where: str) -> None:
    with pytest.raises(NotATraceError) as caught:
        back(text, 1 << 16)
    assert caught.value.where == where


def test_a_document_that_was_formatted_anew_comes_back() -> None:
    node = messages().node(
        id=1, data_deps=[7, 2**64 - 1], attr=[messages().attribute(name="{", string_val="}]")]
    )
    content = framed([b"\n\x050.0.4", *[node.SerializeToString()] * 3])
    document = json.loads(as_json(content, JsonForm.DOCUMENT))
    assert set(document) == {"metadata", "nodes"}
    for indent in (None, 1, 4):
        assert back(json.dumps(document, indent=indent).encode(), 7) == content


@pytest.mark.parametrize(
    "members",
    [
        {"id": "1_0"},
        {"id": " 7"},
        {"id": "-1"},
        {"id": 2**64},
        {"dataDeps": "12"},
        {"name": 7},
        {"type": "COMPUTE"},
        {"attr": [{"name": "a", "int64Val": True}]},
        {"attr": [{"name": "a", "boolVal": 1}]},
        {"attr": [{"name": "a", "int32Val": 2**31}]},
        {"attr": [{"name": "a", "kind": "1"}]},
        {"attr": {"name": "a", "int64Val": "1"}},
        {"attr": [["name", "int64Val"]]},
        {"inputs": {"values": 7}},
        {"inputs": []},
    ],
)
def test_members_with_values_of_other_types_are_refused_as_protobuf_refuses_them(
    members: dict[str, Any],
) -> None:
    assert plain_bytes(dict(members)) is None
    text = b"{}" + json.dumps({"name": "x", **members}).encode()
    try:
        expected = messages().of_json({"name": "x", **members}, messages().node()).SerializeToString()
    except (messages().json_error, AttributeError):
        with pytest.raises(NotATraceError):
            back(text, 100)
    else:
        assert back(text, 100) == framed([b"", expected])


details = st.sampled_from([Detail.FULL, Detail.DEVICE])


@st.composite
def launches(draw: st.DrawFn) -> list[Json]:
    """A call and its work, on a few threads and streams; works may overlap, start early, and take no time."""
    number = draw(st.integers(1, 10_000))
    begin = draw(st.integers(0, 60))
    made = call("cudaLaunchKernel", begin, draw(st.integers(0, 6)), number, tid=draw(st.integers(1, 2)))
    work = kernel(
        "k",
        begin + draw(st.integers(0, 30)),
        draw(st.integers(0, 20)),
        number,
        stream=draw(st.integers(7, 8)),
    )
    return [made, work]


ops = st.builds(op, st.just("op"), st.integers(0, 60), st.integers(0, 30), st.integers(1, 3)).map(
    lambda e: [e]
)

traces = st.lists(launches() | ops, min_size=1, max_size=14).map(
    lambda parts: [e for part in parts for e in part]
)


def _check(linked: LinkedTrace, detail: Detail) -> None:
    graph = rank_graph(linked)
    check_nodes(rank_nodes(graph, communication_of(graph), detail), graph)


@pytest.mark.full
@settings(max_examples=20, deadline=None)
@given(trace=traces, detail=details)
def test_random_ranks_have_their_measured_times(trace: list[Json], detail: Detail) -> None:
    _check(linked_of(trace), detail)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs(), detail=details)
def test_ranks_of_random_jobs_have_their_measured_times(job: PlannedJob, detail: Detail) -> None:
    _check(job.linked(0), detail)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs(), detail=details)
def test_a_step_of_a_random_job_has_its_measured_times(job: PlannedJob, detail: Detail) -> None:
    linked = job.linked(0)
    windows = step_windows(linked)
    graph = in_steps(rank_graph(linked), windows.get_column("step").to_list()[-1:], windows)
    check_nodes(rank_nodes(graph, communication_of(graph), detail), graph)


@pytest.mark.full
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scene=scenes())
def test_random_ranks_keep_their_measured_times(scene: Scene) -> None:
    graph = rank_graph(scene.linked())
    assume(not has_enclosed_communication(graph))
    check_lane(rank_as_lane(graph, communication_of(graph)), graph)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scene=scenes(device=False))
def test_random_ranks_without_devices_keep_their_measured_times(scene: Scene) -> None:
    graph = rank_graph(scene.linked())
    check_lane(rank_as_lane(graph, communication_of(graph)), graph)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(job=jobs(), rank=st.integers(0, 1))
def test_ranks_of_random_jobs_keep_their_measured_times(job: PlannedJob, rank: int) -> None:
    graph = rank_graph(job.linked(rank))
    check_lane(rank_as_lane(graph, communication_of(graph)), graph)


_RANKS = 4
_GROUPS = {"1": [0, 1], "2": [2, 3], "3": [0, 2], "4": [1, 3], "5": [0, 1, 2], "6": [0, 1, 2, 3]}
Event = tuple[str, Any, int]
Item = tuple[str, Event, int]

_EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("collective"), st.sampled_from(sorted(_GROUPS)), st.sampled_from([1024, 4096])),
        st.tuples(
            st.just("message"),
            st.permutations(range(_RANKS)).map(lambda ranks: tuple(ranks[:2])),
            st.just(64),
        ),
    ),
    min_size=1,
    max_size=12,
)


def items_of(rank: int, events: Sequence[Event]) -> list[Item]:
    """What a rank takes part in, in the order of all events: so the job runs to its end."""
    items = []
    for number, event in enumerate(events):
        kind, who, _ = event
        if kind == "collective" and rank in _GROUPS[who]:
            items.append(("collective", event, number))
        elif kind == "message" and rank in who:
            items.append(("send" if rank == who[0] else "receive", event, number))
    return items


def nodes_of(items: Sequence[Item], works: Sequence[int]) -> list[dict[str, Any]]:
    """A chain of the items, with work between them."""
    nodes: list[dict[str, Any]] = []
    for number, (kind, (_, who, size), tag) in enumerate(items):
        for _ in range(works[number % len(works)]):
            nodes.append(compute(len(nodes), *_last(nodes)))
        node, last = len(nodes), _last(nodes)
        if kind == "collective":
            nodes.append(collective(node, *last, size=size, group=who))
        elif kind == "send":
            nodes.append(send(node, *last, to=who[1], size=size, tag=tag))
        else:
            nodes.append(receive(node, *last, source=who[0], size=size, tag=tag))
    return nodes or [compute(0)]


def _last(nodes: Sequence[object]) -> tuple[int, ...]:
    return (len(nodes) - 1,) if nodes else ()


def codes(items: Sequence[Sequence[Item]], works: Sequence[int]) -> set[LintCode]:
    facts = [rank_facts(rank_of(rank, nodes_of(own, works)), "x") for rank, own in enumerate(items)]
    return {finding.code for finding in check_job(JobFacts("x", facts, range(_RANKS), _GROUPS)).findings}


def runs(items: Sequence[Sequence[Item]]) -> bool:
    """Whether ranks that do one thing after the other come to their ends: tried out, event by event."""
    at, sent = [0] * len(items), set()
    while True:
        moved = False
        for rank, own in enumerate(items):
            if at[rank] == len(own):
                continue
            kind, (_, who, _), number = own[at[rank]]
            if kind == "send":
                sent.add(number)
            elif kind == "receive" and number not in sent:
                continue
            elif kind == "collective":
                fronts = [
                    items[other][at[other]] if at[other] < len(items[other]) else None
                    for other in _GROUPS[who]
                ]
                if any(front is None or front[:2] != ("collective", own[at[rank]][1]) for front in fronts):
                    continue
                for other in _GROUPS[who]:
                    at[other] += other != rank
            at[rank] += 1
            moved = True
        if not moved:
            return all(at[rank] == len(own) for rank, own in enumerate(items))


@pytest.mark.full
@settings(max_examples=25, deadline=None)
@given(_EVENTS, st.lists(st.integers(0, 3), min_size=1, max_size=5))
def test_a_job_in_a_common_order_has_nothing_wrong(events: list[Event], works: list[int]) -> None:
    assert codes([items_of(rank, events) for rank in range(_RANKS)], works) == set()


@pytest.mark.full
@settings(max_examples=30, deadline=None)
@given(_EVENTS, st.data())
def test_a_swap_on_a_rank_is_found_where_it_is_a_fault_and_only_there(
    events: list[Event], data: st.DataObject
) -> None:
    items = [items_of(rank, events) for rank in range(_RANKS)]
    rank = data.draw(st.sampled_from(range(_RANKS)))
    assume(len(items[rank]) > 1)
    first = data.draw(st.integers(0, len(items[rank]) - 2))
    own = items[rank]
    own[first], own[first + 1] = own[first + 1], own[first]
    # Of one group, another size or type at a position is said as such.
    differs = {LintCode.COLLECTIVES_DIFFER, LintCode.SIZES_DIFFER}
    assert bool(codes(items, [1]) & {LintCode.DEADLOCK, *differs}) == (not runs(items))


@pytest.mark.full
@settings(max_examples=30, deadline=None)
@given(_EVENTS, st.data())
def test_an_event_that_a_rank_lacks_is_found(events: list[Event], data: st.DataObject) -> None:
    items = [items_of(rank, events) for rank in range(_RANKS)]
    rank = data.draw(st.sampled_from([rank for rank in range(_RANKS) if items[rank]]))
    kind, _, _ = items[rank].pop(data.draw(st.integers(0, len(items[rank]) - 1)))
    expected = {
        "collective": {LintCode.COLLECTIVES_MISSING, LintCode.DEADLOCK},
        "send": {LintCode.RECEIVE_WITHOUT_SEND, LintCode.DEADLOCK},
        "receive": {LintCode.SEND_WITHOUT_RECEIVE},
    }
    assert expected[kind] <= codes(items, [1])
