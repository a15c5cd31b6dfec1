"""Random damage ends in a trace or in one error."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import (
    Json,
    complete,
    et_text,
    flow,
    kernel,
    kineto_text,
    node,
    op,
    tensor,
)
from tests.hostile.reading import (
    NODES,
    X,
    assert_located,
)
from tracebraid.errors import InputError
from tracebraid.importers.execution_trace.reader import read_execution_trace
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.timeline import Timeline

FUZZED_EVENTS = [
    op("a", 1700000000000000.5, 2, External_id=1, Input_Dims=[[1], []], Concrete_Inputs=["", "1"]),
    kernel("k", 1, 2, 3, grid=[1, 2, 3], **Json({"Collective name": "ar", "Process Group Ranks": "[0, 1]"})),
    flow("s", 1, 1),
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "p"}},
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 5, "args": {"Addr": 1, "Bytes": 5}},
    complete("x", "new", 1, 2, "Spans", "t", {"y": [{"a": 1}, {"b": 2}]}),
    {"ph": "C", "name": "c", "ts": 1},
]


FUZZED_KINETO = kineto_text(
    FUZZED_EVENTS,
    header={
        "baseTimeNanoseconds": 5,
        "distributedInfo": {"rank": 0, "pg_config": [{"ranks": [0], "pg_size": 2}]},
    },
    tail={"deviceProperties": [{"id": 0}, {"id": 1}]},
).encode()


ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"


FUZZED_ET = et_text(
    [
        *NODES[:2],
        node(3, "a", 2, [X, ("Int", 1, [])], [tensor(12, 13, [2])], op_schema=ADD_),
        node(
            4,
            "b",
            2,
            [("GenericList[Tensor(float),Tensor(float)]", [X[1], X[1]], [[4], [4]])],
            [],
            pg_size=2,
            new=1,
        ),
        node(9, "## process_group:init ##", 2, [("String", '[{"pg_name": "0", "ranks": [0]}]', [])]),
    ]
).encode()


TOKENS = [
    *(
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\",
        b"null",
        b"true",
        b'"x"',
        b"[1]",
        b'{"a":1}',
        b'}, {"',
        b"}]",
    ),
    *(
        b"1e400",
        b"NaN",
        b"-",
        b"9" * 30,
        b"9" * 5000,
        b"9223372036854775808",
        b"-9223372036854775808",
        b"1.5e-300",
    ),
    *(b"\xff", b"\x00", b"\\ud800", b"\xc2\xb2", b"[[[" * 300, b'"-0"', b'"--5"', b"0.5", b"-1"),
]


VALUE = re.compile(rb'(?<=[ \[,])(-?\d[\d.e+]*|null|true|"[^"\\]{0,40}"|\[[^\[\]{}]{0,30}\]|\{\})')


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The data with one to three places changed: bytes, a value, an inserted token, or cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3])):
        place = rng.randrange(max(1, len(changed)))
        way = rng.random()
        if way < 0.15:
            changed[place : place + 1] = rng.randbytes(1)
        elif way < 0.25:
            del changed[place : place + rng.choice([1, 2, 5, 30])]
        elif way < 0.4:
            changed[place:place] = rng.choice(TOKENS)
        elif way < 0.45:
            del changed[place:]
        elif values := list(VALUE.finditer(bytes(changed))):
            value = rng.choice(values)
            changed[value.start() : value.end()] = rng.choice(TOKENS)
    return bytes(changed) or b"{"


def read_or_error(read: Callable[[Path], Timeline | ExecutionTrace], path: Path) -> str:
    """What to do next where the file is refused, else the path of the trace; findings are checked."""
    try:
        found = read(path)
    except InputError as error:
        return error.advice
    assert_located(found, path)
    return found.path


@pytest.mark.parametrize("block", range(8))
def test_random_damage_ends_in_a_trace_or_in_one_error(tmp_path: Path, block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        rng = random.Random(seed)
        for data, read in ((FUZZED_KINETO, read_timeline), (FUZZED_ET, read_execution_trace)):
            path = tmp_path / f"{seed}.json"
            path.write_bytes(mutated(data, rng))
            outcome = read_or_error(read, path)
            assert outcome
