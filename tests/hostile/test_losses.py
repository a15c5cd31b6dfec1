"""Is of a damaged file never more lost than what its findings say?"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import tracebraid
from tests.builders import (
    Json,
    et_text,
    flow,
    kernel,
    kineto_text,
    node,
    op,
    process_node,
    tensor,
    thread_node,
)
from tracebraid.errors import InputError
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCode

SEEDS = range(8)
X = tensor(10, 100, [4])

EVENTS: list[Json] = [
    made
    for i in range(20)
    for made in (
        op(f"op {i}", 10 * i, 2, External_id=i, Input_Dims=[[1], []], nested=[{"a": i}, {"b": {"c": i}}]),
        kernel("k", 10 * i, 2, i, grid=[1, 2, 3]),
        flow("s", i, 10 * i),
    )
]
NODES = [
    process_node(),
    thread_node(),
    *(node(i, f"op {i}", 2, [X, ("Int", i, [])], [X], new=i) for i in range(3, 40)),
]


@dataclass(frozen=True)
class Read:
    """How many objects were read, and what was found."""

    count: int
    findings: tuple[Finding, ...]


def read_events(path: Path) -> Read:
    found = read_timeline(path)
    tables = (found.events, found.flows, found.tables["other_events"])
    return Read(sum(table.height for table in tables), found.findings)


def read_nodes(path: Path) -> Read:
    found = read_execution_trace(path)
    repeated = sum(one.count for one in found.findings if one.code == "duplicate-id")
    return Read(found.nodes.height + repeated, found.findings)


def demo_events() -> bytes:
    """A part of a real trace, without metadata events."""
    data = json.loads(gzip.decompress((tracebraid.demo_path() / "kineto_trace_0.json.gz").read_bytes()))
    events = [event for event in data["traceEvents"] if event["ph"] != "M"][:150]
    return kineto_text(events).encode()


def demo_nodes() -> bytes:
    """A part of a real Execution Trace."""
    data = json.loads(gzip.decompress((tracebraid.demo_path() / "torch_et_0.json.gz").read_bytes()))
    return et_text(data["nodes"][:60]).encode()


FILES: dict[str, tuple[bytes, Callable[[Path], Read]]] = {
    "events": (kineto_text(EVENTS).encode(), read_events),
    "events on one line": (json.dumps({"traceEvents": EVENTS}).encode(), read_events),
    "bare events": (json.dumps(EVENTS).encode(), read_events),
    "real events": (demo_events(), read_events),
    "nodes": (et_text(NODES).encode(), read_nodes),
    "real nodes": (demo_nodes(), read_nodes),
}


def zeroed(data: bytes, rng: random.Random) -> bytes:
    size = rng.choice([1, 64, 512, 4096])
    begin = rng.randrange(len(data))
    return (data[:begin] + b"\0" * size + data[begin + size :])[: len(data)]


def removed(data: bytes, rng: random.Random) -> bytes:
    begin = rng.randrange(len(data))
    return data[:begin] + data[begin + rng.choice([1, 3, 20, 300, 3000]) :]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(1, len(data))]


def swapped(data: bytes, rng: random.Random) -> bytes:
    size = rng.choice([16, 256, 1024])
    first, second = sorted(rng.sample(range(max(2, len(data) // size)), 2))
    chunks = [data[begin : begin + size] for begin in range(0, len(data), size)]
    chunks[first], chunks[second] = chunks[second], chunks[first]
    return b"".join(chunks)


def total(findings: tuple[Finding, ...]) -> Loss:
    losses = [finding.loss for finding in findings if finding.loss is not None]
    return sum(losses, Loss(0, 0, 0))


def is_json(data: bytes) -> bool:
    """Whether a file shows no damage: bytes that are missing between two objects leave no trace."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


@pytest.mark.parametrize("mutate", [zeroed, removed, cut, swapped], ids=lambda one: one.__name__)
@pytest.mark.parametrize("name", FILES)
def test_no_more_is_lost_than_is_said(
    tmp_path: Path, name: str, mutate: Callable[[bytes, random.Random], bytes]
) -> None:
    data, read = FILES[name]
    path = tmp_path / "trace.json"
    path.write_bytes(data)
    before = read(path)
    assert total(before.findings) == Loss(0, 0, 0)
    damaged = 0
    for seed in SEEDS:
        changed = mutate(data, random.Random(f"{name} {mutate.__name__} {seed}"))
        path.write_bytes(changed)
        try:
            after = read(path)
        except InputError:
            continue
        lost, said = before.count - after.count, total(after.findings)
        if is_json(changed):
            continue
        damaged += lost > 0
        assert said.at_most is None or lost <= said.at_most, (seed, lost, after.findings)
        if mutate is not swapped:
            assert said.at_least <= max(lost, 0), (seed, lost, after.findings)
    assert damaged >= 2


def test_a_name_does_not_run_on_into_the_next_event(tmp_path: Path) -> None:
    events = [op(name, ts, 1) for ts, name in enumerate(("a", "A", "B", "b"))]
    text = json.dumps({"traceEvents": events})
    begin, end = text.index('"A"') + 3, text.index('{"ph": "X", "cat": "cpu_op", "name": "B"')
    path = tmp_path / "t.json"
    path.write_text(text[:begin] + "," + text[end:])
    found = read_timeline(path)
    assert found.events.get_column("name").to_list() == ["a", "B", "b"]
    losses = {one.code: one.loss for one in found.findings if one.loss is not None}
    assert losses[FindingCode.EVENT_UNREADABLE] == Loss(
        1, None, len('{"ph": "X", "cat": "cpu_op", "name": "A",')
    )


def test_a_name_that_may_end_in_another_event_hides_no_loss(tmp_path: Path) -> None:
    """A name with quotes looks the same as a name and the end of a later event's, with all between them missing."""
    text = json.dumps({"traceEvents": [op(f"op {ts}", ts, 1, x=1) for ts in range(20)]})
    path = tmp_path / "t.json"
    path.write_text(text[: text.index('op 5", "pid"') + 7] + text[text.index('op 15"') + 2 :])
    found = read_timeline(path)
    assert found.events.height == 10
    assert [one.loss for one in found.findings if one.code is FindingCode.EVENT_MENDED] == [Loss()]


@pytest.mark.parametrize("odd", ["[1]", "5", '"x"'])
def test_metadata_that_names_nothing_is_kept_as_it_is(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "t.json"
    meta = f'{{"ph": "M", "name": "process_name", "pid": 1, "args": {odd}}}'
    path.write_text(f'{{"traceEvents": [{meta}, {json.dumps(op("a", 1, 1))}]}}')
    assert read_timeline(path).tables["other_events"].get_column("json").to_list() == [meta]


def test_a_zeroed_block_is_no_name(tmp_path: Path) -> None:
    data = json.dumps({"traceEvents": [op(f"op {i}", i, 1) for i in range(60)]}).encode()
    begin = data.index(b'"op 5"') + 2
    path = tmp_path / "t.json"
    path.write_bytes(data[:begin] + b"\0" * 4096 + data[begin + 4096 :])
    found = read_timeline(path)
    assert found.events.height < 40
    assert "event-mended" not in [one.code for one in found.findings]
    said = total(found.findings)
    assert said.at_most is None
    assert said.at_least >= 1
    assert said.skipped_bytes >= 4096


def test_the_loss_behind_a_cut_is_unknown(tmp_path: Path) -> None:
    data = json.dumps({"traceEvents": [op(f"op {i}", i, 1) for i in range(60)]})
    path = tmp_path / "t.json"
    path.write_text(data[: len(data) // 2])
    truncated = next(one for one in read_timeline(path).findings if one.code == "truncated")
    assert truncated.loss == Loss(0, None, 0)


def test_an_object_that_is_no_event_is_one_loss(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [op("a", 1, 1), {"name": "no phase"}, op("b", 2, 1)]}))
    found = [one.loss for one in read_timeline(path).findings if one.code == "event-unreadable"]
    assert found == [Loss(1, 1, len('{"name": "no phase"}'))]
