"""Files are read alike in chunks, in samples and from stores."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partialmethod
from itertools import pairwise
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tracebraid.importers.chunk_decoding as chunk_decoding
from tests.builders import Json, kineto_text, op
from tests.unit.importers.reading import plain
from tracebraid.analysis.kernels.sequences import maximal_repeats, separated, without_overlap
from tracebraid.importers.json_stream.source import Source
from tracebraid.importers.kineto.reader import read_timeline
from tracebraid.importers.sampling import StrataBy, strata_of, stratified
from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.coverage import ChoiceReason
from tracebraid.model.finding import Finding, FindingCase, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.matching import ChosenIterations
from tracebraid.model.rank_files import GroupOfRank, RankOrigin
from tracebraid.model.timeline import Timeline
from tracebraid.store.findings import findings_of, stored_findings, to_builtin
from tracebraid.store.manifest import StoredFinding, read_sealed, sealed
from tracebraid.store.opening import STORED_TABLES
from tracebraid.store.parquet import decoded, encoded

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
        patch.setattr(chunk_decoding, "CHUNK_BYTES", chunk_bytes)
        patch.setattr(Source, "blocks", partialmethod(Source.blocks, block_bytes=block_bytes))
        timeline = read_timeline(path)
    path.unlink()
    return timeline


def assert_same(found: Timeline, expected: Timeline) -> None:
    assert plain(found) == plain(expected)
    assert {finding.code for finding in found.findings} <= OF_CATEGORIES
    assert (found.rank, found.base_time_ns) == (1, 5)


@pytest.mark.full
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


@pytest.mark.full
@settings(EXAMPLES, max_examples=25, phases=[Phase.explicit, Phase.generate])
@given(values=events, chunk_bytes=st.integers(1, 4000), block_bytes=st.integers(64, 5000))
def test_any_layout_of_a_stream_reads_to_the_same_tables(
    folder: Path, values: list[Json], chunk_bytes: int, block_bytes: int
) -> None:
    many = [*values, *FILLER, *values]
    expected = read(folder, kineto_text(many, header=HEADER).encode())
    packed = gzip.compress(json.dumps({**HEADER, "traceEvents": many}).encode(), compresslevel=1)
    assert_same(read(folder, packed, chunk_bytes, block_bytes), expected)


steady = settings(deadline=None, derandomize=True, max_examples=100)


@dataclass(frozen=True)
class Layout:
    """A job as Megatron lays it out: tensor-parallel ranks are neighbours, pipeline stages far apart."""

    tensor: int
    data: int
    stages: int
    per_host: int
    is_pipeline_outermost: bool = True

    @property
    def ranks(self) -> int:
        return self.tensor * self.data * self.stages

    def position(self, rank: int) -> tuple[int, int, int]:
        """Where a rank is: tensor, data, stage."""
        rest, tensor = divmod(rank, self.tensor)
        if self.is_pipeline_outermost:
            stage, data = divmod(rest, self.data)
        else:
            data, stage = divmod(rest, self.stages)
        return tensor, data, stage

    def origins(self) -> list[RankOrigin]:
        everywhere = [self.position(rank) for rank in range(self.ranks)]
        members: dict[Hashable, list[int]] = {}
        for rank, here in enumerate(everywhere):
            for axis in range(3):
                members.setdefault((axis, here[:axis] + here[axis + 1 :]), []).append(rank)
        names = ("TENSOR", "DATA", "PIPELINE")
        world = GroupOfRank("default_pg", tuple(range(self.ranks)))
        return [
            RankOrigin(
                rank,
                f"node{rank // self.per_host}",
                (
                    world,
                    *(
                        GroupOfRank(names[axis], tuple(members[axis, here[:axis] + here[axis + 1 :]]))
                        for axis in range(3)
                    ),
                ),
            )
            for rank, here in enumerate(everywhere)
        ]


layouts = st.builds(
    Layout,
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 9),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.sampled_from([2, 3, 4, 8]),
    st.booleans(),
)


def farthest(keys: Sequence[Hashable], sample: Sequence[int]) -> float:
    """How far any stratum is from its share of the sample, in ranks."""
    sizes, taken = Counter(keys), Counter(keys[rank] for rank in sample)
    return max(abs(taken[key] - len(sample) * sizes[key] / len(keys)) for key in sizes)


def sample_of(origins: Sequence[RankOrigin], size: int) -> list[int]:
    return stratified(strata_of(origins), len(origins), size)


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=80), st.data())
@steady
def test_each_host_has_its_share(hosts: list[str], data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(hosts)))
    found = sample_of([RankOrigin(rank, host) for rank, host in enumerate(hosts)], size)
    assert len(found) == len(set(found)) == size
    assert found == sorted(found)
    assert found[0] == 0
    assert size == 1 or found[-1] == len(hosts) - 1
    # The two ends are in every sample: where they have less than a share of their own, they take it from others.
    ends = Counter([hosts[0], hosts[-1]][:size])
    shares = {host: size * hosts.count(host) / len(hosts) for host in ends}
    borrowed = sum(max(0.0, ends[host] - shares[host]) for host in ends)
    assert farthest(hosts, found) < 1 + borrowed


@given(layouts, st.data())
@steady
def test_a_grid_of_parallel_groups_is_sampled_in_proportion_by_host_and_by_stage(
    layout: Layout, data: st.DataObject
) -> None:
    size = data.draw(st.integers(2, layout.ranks)) if layout.ranks > 1 else 1
    origins = layout.origins()
    found = sample_of(origins, size)
    assert len(found) == size
    assert {0, layout.ranks - 1} <= set(found)
    assert farthest([origin.host for origin in origins], found) < 2
    for axis in range(3):
        assert farthest([layout.position(rank)[axis] for rank in range(layout.ranks)], found) < 2


def test_a_large_job_is_sampled_within_one_rank_of_every_share() -> None:
    for outermost in (True, False):
        layout = Layout(8, 16, 8, 8, outermost)
        origins = layout.origins()
        for size in (8, 16, 32, 64, 100):
            found = sample_of(origins, size)
            for kind in range(1, 4):
                assert farthest([origin.groups[kind].ranks for origin in origins], found) <= 1
            assert farthest([origin.host for origin in origins], found) <= 1
            for axis in range(3):
                keys = [layout.position(rank)[axis] for rank in range(layout.ranks)]
                assert farthest(keys, found) <= 1, (outermost, size, axis)


@given(st.integers(1, 300), st.data())
@steady
def test_where_nothing_is_known_the_sample_is_evenly_spread(ranks: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, ranks))
    found = sample_of([RankOrigin(rank) for rank in range(ranks)], size)
    assert len(found) == size
    assert {0, ranks - 1 if size > 1 else 0} <= set(found)
    gaps = [after - before for before, after in pairwise(found)]
    assert not gaps or max(gaps) <= 2 * -(-ranks // size)


@given(layouts, st.integers(2, 20))
@steady
def test_the_order_in_which_groups_are_named_does_not_matter(layout: Layout, size: int) -> None:
    origins = layout.origins()
    size = min(size, len(origins))
    reversed_groups = [RankOrigin(origin.rank, origin.host, origin.groups[::-1]) for origin in origins]
    assert sample_of(reversed_groups, size) == sample_of(origins, size)


def test_only_what_tells_ranks_apart_divides_them() -> None:
    world = GroupOfRank("default_pg", (0, 1, 2))
    assert strata_of([RankOrigin(rank, "localhost", (world,)) for rank in range(3)]) == ()
    (by_host,) = strata_of([RankOrigin(rank, f"node{rank}", (world,)) for rank in range(3)])
    assert by_host.by is StrataBy.HOST


def by_definition(sequence: list[int], shortest: int) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    size = len(sequence)
    for start in range(size):
        for end in range(start + 1, size + 1):
            found[tuple(sequence[start:end])].append(start)
    repeats = set()
    for pattern, starts in found.items():
        if len(starts) < 2 or len(pattern) < shortest:
            continue
        before = {sequence[at - 1] if at else "start" for at in starts}
        after = {sequence[at + len(pattern)] if at + len(pattern) < size else "end" for at in starts}
        if len(before) > 1 and len(after) > 1:
            repeats.add((pattern, tuple(starts)))
    return repeats


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 3))
def test_the_repeats_are_those_of_the_definition(sequence: list[int], shortest: int) -> None:
    found = maximal_repeats(np.array(sequence, dtype=np.int64), shortest)
    rows = {
        (tuple(sequence[positions[0] : positions[0] + length]), tuple(positions))
        for row, length in enumerate(found.length.tolist())
        for positions in [found.positions(row).tolist()]
    }
    assert rows == by_definition(sequence, shortest)
    assert len(found.length) == len(rows)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), max_size=6))
def test_nothing_comes_back_across_a_border(stretches: list[list[int]]) -> None:
    elements = np.array([element for stretch in stretches for element in stretch], dtype=np.int64)
    opens = np.array([not at for stretch in stretches for at in range(len(stretch))], dtype=np.bool_)
    sequence, rows = separated(elements, opens)
    assert sequence[rows >= 0].tolist() == elements.tolist()
    assert rows[rows >= 0].tolist() == list(range(len(elements)))
    found = maximal_repeats(sequence, 1)
    for repeat, length in enumerate(found.length.tolist()):
        for at in found.positions(repeat):
            assert (rows[at : at + length] >= 0).all()


@given(st.sets(st.integers(0, 60)), st.integers(1, 9))
def test_occurrences_that_are_kept_do_not_overlap(starts: set[int], length: int) -> None:
    positions = np.array(sorted(starts), dtype=np.int64)
    kept, reach = [], -1
    for at in positions.tolist():
        if at >= reach:
            kept.append(at)
            reach = at + length
    assert without_overlap(positions, length).tolist() == kept


INTS = st.integers(-(2**63), 2**63 - 1)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["", "\0", "a" * 5000, "[]", "null"]
)

VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INT: INTS,
    Kind.FLOAT: st.floats(),
    Kind.BOOL: st.booleans(),
    Kind.NAME: TEXTS,
    Kind.JSON: TEXTS,
    Kind.TEXT: TEXTS,
    Kind.INT3: st.lists(INTS, min_size=3, max_size=3),
    Kind.INTS: st.lists(INTS | st.none(), max_size=4),
}


def column_of(column: Column, rows: int) -> st.SearchStrategy[list[Any]]:
    value = VALUES[column.kind]
    # Events have their rows as ids, a start and a duration; nodes have ids: no nulls there.
    given = value if column.name in ("ts_ns", "dur_ns", "event_id", "node_id") else st.none() | value
    return st.lists(given, min_size=rows, max_size=rows)


@st.composite
def frames(draw: st.DrawFn, table: Table) -> pl.DataFrame:
    rows = draw(st.integers(0, 12))
    schema = table.polars_schema()
    columns = {column.name: draw(column_of(column, rows)) for column in table.columns}
    if table.name == "events":
        columns["event_id"] = list(range(rows))
    return pl.DataFrame(
        {name: pl.Series(name, values, dtype=schema[name]) for name, values in columns.items()}
    )


@pytest.mark.full(keep=3)
@pytest.mark.parametrize("name", STORED_TABLES)
@settings(max_examples=12)
@given(data=st.data())
def test_a_table_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    table = STORED_TABLES[name]
    frame = data.draw(frames(table))
    found = decoded(name, table, encoded(name, frame))
    assert found.schema == frame.schema
    assert found.equals(frame)


PLAIN: st.SearchStrategy[Any] = st.none() | st.booleans() | INTS | st.floats(allow_nan=False) | st.text()

CHOICES = st.builds(
    ChosenIterations,
    st.text(),
    st.text(),
    INTS,
    st.text(),
    st.text(),
    st.floats(0, 1),
    INTS,
    st.sampled_from(ChoiceReason),
)

DETAILS = st.recursive(
    PLAIN | st.sampled_from(FindingCase) | CHOICES,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def said(code: FindingCode) -> st.SearchStrategy[dict[str, Any]]:
    """Details with which the sentence of a code can be said, and others."""
    fields = [(name, spec) for _, name, spec, _ in Formatter().parse(code.sentence) if name]
    known = st.fixed_dictionaries({name: INTS if spec else DETAILS for name, spec in fields})
    return st.tuples(st.dictionaries(st.text(), DETAILS), known).map(lambda both: both[0] | both[1])


FINDINGS = st.sampled_from(FindingCode).flatmap(
    lambda code: st.builds(
        Finding,
        st.just(code),
        st.text(st.characters()),
        st.text(),
        INTS,
        st.none() | st.builds(Loss, INTS, st.none() | INTS, INTS),
        said(code),
    )
)


@pytest.mark.full
@given(FINDINGS)
def test_a_finding_comes_back_as_it_was_though_its_path_is_no_text(
    tmp_path_factory: pytest.TempPathFactory, finding: Finding
) -> None:
    path = tmp_path_factory.getbasetemp() / "finding.json"
    path.write_bytes(sealed(stored_findings([finding])[0]))
    read, _ = read_sealed(path, StoredFinding)
    assert findings_of([read]) == (finding,)
    assert repr(findings_of([read])) == repr((finding,))
    json.loads(path.read_bytes())


@pytest.mark.parametrize("value", [date(2026, 1, 1), b"bytes", {1, 2}, object()])
def test_what_a_store_has_no_form_for_is_refused_when_it_is_written(value: object) -> None:
    with pytest.raises(TypeError, match="cannot represent"):
        to_builtin(value)


@pytest.mark.parametrize(
    "value", [{"$kind": "Popen", "value": "ls"}, {"$kind": "tuple"}, {}, {"$kind": "FindingCase", "value": 3}]
)
def test_a_file_cannot_name_a_kind_that_is_not_known(value: dict[str, Any]) -> None:
    stored = StoredFinding("not-a-trace", "", "", 1, None, {"problem": value})
    if value.get("$kind") == "tuple":
        assert findings_of([stored])[0].details == {"problem": ()}
        return
    with pytest.raises(ValueError, match=r"."):
        findings_of([stored])
