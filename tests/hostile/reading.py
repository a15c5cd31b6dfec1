"""Reads hostile files for tests, and says what was found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import (
    et_text,
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
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.timeline import Timeline

EVENTS = [op("first", 1, 2, External_id=1), op("second", 3, 4), op("third", 5, 6, External_id=3)]


X = tensor(10, 100, [4])


NODES = [
    process_node(),
    thread_node(),
    node(3, "first", 2, [], [X]),
    node(4, "second", 2, [X]),
    node(5, "third", 2, [X]),
]


KINETO, ET = kineto_text(EVENTS), et_text(NODES)


DEEP = "[" * 100_000 + "]" * 100_000


UNLOCATED = {"rank-unknown", "schema-unknown", "base-time"}


def timeline(folder: Path, data: str | bytes, name: str = "t.json") -> Timeline:
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    found = read_timeline(path)
    assert_located(found, path)
    return found


def trace(folder: Path, data: str | bytes, name: str = "et.json") -> ExecutionTrace:
    path = folder / name
    path.unlink(missing_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    found = read_execution_trace(path)
    assert_located(found, path)
    return found


def assert_located(found: Timeline | ExecutionTrace, path: Path) -> None:
    for finding in found.findings:
        assert finding.path == str(path)
        assert finding.count >= 1
        assert finding.message
        assert finding.where or finding.code in UNLOCATED, finding


def names(found: Timeline) -> list[str]:
    return found.events.get_column("name").to_list()


def codes(found: Timeline | ExecutionTrace) -> list[str]:
    return [finding.code for finding in found.findings if finding.code not in UNLOCATED]


def refused(read: Callable[[], object], path: Path | str) -> InputError:
    """The one error, which names the file and what to do."""
    with pytest.raises(InputError) as caught:
        read()
    assert caught.value.path == str(path)
    assert str(path) in str(caught.value)
    assert caught.value.problem
    assert caught.value.advice
    return caught.value
