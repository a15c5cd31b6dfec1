"""Any list of events, in any layout that JSON allows and cut into any chunks, reads to the same tables."""

from __future__ import annotations

import gzip
import itertools
import json
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tracebraid.importers.chunk_workers.parallel as parallel
from tests.builders import Json, kineto_text, op
from tests.unit.importers.reading import plain
from tracebraid.importers.json_stream.source import Source
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.model.timeline import Timeline

EXAMPLES = settings(max_examples=120, derandomize=True, deadline=None, database=None)

NASTY = [
    '}, {"ph": "X"',
    '"}, {"ph": "X", "ts": 1}, {"',
    "}, {",
    ":",
    "}]",
    "]}\n",
    "[{",
    "\\",
    '\\"',
    '"',
    '", "ts": 1, "name": "',
    '"traceEvents": [',
    "\u2028\u0000\u001f",
    "naïve 💥 名前",
    "",
]
text = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=12),
    st.tuples(st.text(max_size=4), st.sampled_from(NASTY), st.text(max_size=4)).map("".join),
)
value = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**62), 2**62), text),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(text, inner, max_size=3)),
    max_leaves=6,
)
small = st.integers(0, 3)
objects = st.lists(st.dictionaries(text, small, min_size=1, max_size=2), min_size=2, max_size=12)
ARGS: dict[str, st.SearchStrategy[Any]] = {
    "External id": small,
    "Input Dims": st.lists(st.lists(small, max_size=2), max_size=2),
    "Concrete Inputs": st.lists(text, max_size=3),
    "Call stack": text,
    "correlation": small,
    "grid": st.lists(small, min_size=3, max_size=3),
    "Collective name": text,
    "Process Group Ranks": st.sampled_from(["[0, 1]", "[]"]),
}
args = st.fixed_dictionaries({}, optional={**ARGS, "new": value, "objects": objects}).flatmap(
    lambda known: st.dictionaries(text, value, max_size=2).map(lambda others: {**others, **known})
)
complete = st.fixed_dictionaries(
    {
        "ph": st.just("X"),
        "cat": st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "python_function", "new"]),
        "name": text,
        "pid": st.one_of(small, st.just("Spans")),
        "tid": small,
        "ts": small,
        "dur": small,
    },
    optional={"args": args},
)
flow = st.fixed_dictionaries(
    {"ph": st.sampled_from("sft"), "id": small, "pid": small, "tid": small, "ts": small, "cat": text}
)
meta = st.builds(
    lambda name: {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": name}}, text
)
other = st.fixed_dictionaries({"ph": st.sampled_from("CBEO"), "name": text, "args": args})
events = st.lists(st.one_of(complete, complete, complete, flow, meta, other), max_size=12)
HEADER = {"schemaVersion": 1, "distributedInfo": {"rank": 1}, "baseTimeNanoseconds": 5}

OF_CATEGORIES = {"category-unknown", "device-work-unread", "host-ops-missing"}
"""What is said of any categories: that is no fault of reading."""


@st.composite
def layout(draw: st.DrawFn, values: list[Json]) -> str:
    """The same events in another layout, each with its members in another order."""
    shuffled = [dict(draw(st.permutations(list(event.items())))) for event in values]
    before = draw(st.integers(0, len(HEADER)))
    members = list(HEADER.items())
    whole = {**dict(members[:before]), "traceEvents": shuffled, **dict(members[before:])}
    return json.dumps(
        whole,
        indent=draw(st.sampled_from([None, 0, 1, 2, 4, "\t"])),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : "), (",\r\n", ":")])),
        ensure_ascii=draw(st.booleans()),
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[Json], str]:
    """(events, the same in another layout)."""
    values = draw(events)
    return values, draw(layout(values))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chunks")


_numbers = itertools.count()


def read(folder: Path, data: bytes, chunk_bytes: int = 1 << 21, block_bytes: int = 1 << 22) -> Timeline:
    path = folder / f"t{next(_numbers)}.json"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "CHUNK_BYTES", chunk_bytes)
        patch.setattr(Source, "blocks", partialmethod(Source.blocks, block_bytes=block_bytes))
        timeline = read_timeline(path, processes=1)
    path.unlink()
    return timeline


def assert_same(found: Timeline, expected: Timeline) -> None:
    assert plain(found) == plain(expected)
    assert {finding.code for finding in found.findings} <= OF_CATEGORIES
    assert (found.rank, found.base_time_ns) == (1, 5)


@EXAMPLES
@given(pair=pairs(), chunk_bytes=st.integers(1, 400))
def test_any_layout_in_any_chunks_reads_to_the_same_tables(
    folder: Path, pair: tuple[list[Json], str], chunk_bytes: int
) -> None:
    values, text = pair
    expected = read(folder, kineto_text(values, header=HEADER).encode())
    assert_same(read(folder, text.encode(), chunk_bytes), expected)


FILLER = [op("x" * 1000, 1, 2)] * 70
"""A stream is cut while it is read, once its first 64 KiB are there."""


@settings(EXAMPLES, max_examples=25, phases=[Phase.explicit, Phase.generate])
@given(values=events, chunk_bytes=st.integers(1, 4000), block_bytes=st.integers(64, 5000))
def test_any_layout_of_a_stream_reads_to_the_same_tables(
    folder: Path, values: list[Json], chunk_bytes: int, block_bytes: int
) -> None:
    many = [*values, *FILLER, *values]
    expected = read(folder, kineto_text(many, header=HEADER).encode())
    packed = gzip.compress(json.dumps({**HEADER, "traceEvents": many}).encode(), compresslevel=1)
    assert_same(read(folder, packed, chunk_bytes, block_bytes), expected)
