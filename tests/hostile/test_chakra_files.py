"""`.et` files that were cut, damaged or made to do harm are read for the rest, and say where they are wrong."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import resource
import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tracebraid
from tests.chakra_ranks import collective, compute, rank_of
from tests.integration.command import run
from tests.property.test_chakra_files import framed
from tests.unit.chakra.test_files import RANK
from tracebraid.chakra import ChakraRank, Feeder, LintCode, NodeDeps, Simulator
from tracebraid.chakra.checking.check_job import JobFacts, check_job
from tracebraid.chakra.checking.rank_facts import RankFacts, rank_facts
from tracebraid.chakra.reporting import lint_lines
from tracebraid.chakra.schema import CHAKRA_NODES
from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.writing import rank_bytes
from tracebraid.errors import InputError, NotATraceError
from tracebraid.model.finding_code import FindingCode
from tracebraid.wire_format import bytes_field, number_field

METADATA = b"\n\x050.0.4"
NODE = messages().node(id=1, name="first", type=4).SerializeToString()
GIB = 1 << 30


def written(folder: Path, content: bytes, name: str = "a.0.et") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.full
def test_a_file_cut_at_any_byte_gives_all_nodes_before_the_cut(tmp_path: Path) -> None:
    content = b"".join(rank_bytes(RANK))
    ids = RANK.nodes["node_id"].to_list()
    seen: set[int] = set()
    for cut in range(len(content)):
        path = written(tmp_path, content[:cut])
        try:
            found = tracebraid.chakra.read(path)
        except NotATraceError:
            assert not seen, "what begins with metadata is an .et file"
            continue
        count = found.nodes.height
        assert found.nodes["node_id"].to_list() == ids[:count]
        assert [finding.code for finding in found.findings] in ([], [FindingCode.TRUNCATED])
        assert found.findings or cut in (len(framed([METADATA])), *_ends(content))
        seen.add(count)
    assert seen == {0, 1, 2}


def _ends(content: bytes) -> list[int]:
    ends, at = [], 0
    while at < len(content):
        size, shift = 0, 0
        while True:
            byte = content[at]
            size |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if byte < 0x80:
                break
        at += size
        ends.append(at)
    return ends


@pytest.mark.parametrize("length", [1 << 27, 2 * GIB, (1 << 32) - 1, (1 << 63)])
def test_a_huge_length_is_damage_and_takes_no_memory(tmp_path: Path, length: int) -> None:
    content = framed([METADATA, NODE]) + number_field(0, length)[1:] + b"abc"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = tracebraid.chakra.read(written(tmp_path, content))
    assert found.nodes["node_id"].to_list() == [1]
    [finding] = found.findings
    assert (finding.code, finding.where) == (FindingCode.TRUNCATED, f"byte {len(framed([METADATA, NODE]))}")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kB"


@pytest.mark.full
def test_a_small_gzip_file_that_unpacks_to_a_huge_message_takes_little_memory(tmp_path: Path) -> None:
    bomb = framed([METADATA, NODE]) + number_field(0, 60 << 20)[1:] + bytes(300 << 20)
    path = written(tmp_path, gzip.compress(bomb, 1), "a.0.et.gz")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = tracebraid.chakra.read(path)
    assert found.nodes["node_id"].to_list()[0] == 1
    assert found.findings
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2_000_000, "kB"


def test_unknown_fields_and_versions_are_said_and_nothing_else_is_lost(tmp_path: Path) -> None:
    attribute = bytes_field(1, b"rf_id") + number_field(9, 3) + number_field(50, 1)
    node = NODE + number_field(77, 5) + bytes_field(10, attribute)
    metadata = messages().metadata(version="9.9").SerializeToString() + number_field(12, 1)
    found = tracebraid.chakra.read(written(tmp_path, framed([metadata, NODE, node])))
    assert found.nodes["attributes"].to_list() == [None, '{"rf_id":3}']
    assert {finding.code: finding.count for finding in found.findings} == {
        FindingCode.CHAKRA_FIELDS_UNKNOWN: 2,
        FindingCode.CHAKRA_VERSION_UNKNOWN: 1,
    }


def test_a_damaged_node_is_left_out_and_its_byte_is_named(tmp_path: Path) -> None:
    content = framed([METADATA, NODE, b"\x0f\x0f", NODE])
    found = tracebraid.chakra.read(written(tmp_path, content))
    assert found.nodes["name"].to_list() == ["first", "first"]
    [finding] = found.findings
    at = content.index(b"\x0f\x0f")
    assert (finding.code, finding.where, finding.count) == (
        FindingCode.CHAKRA_NODE_UNREADABLE,
        f"byte {at}",
        1,
    )


def test_a_file_that_begins_with_a_node_keeps_it(tmp_path: Path) -> None:
    found = tracebraid.chakra.read(written(tmp_path, framed([NODE, NODE])))
    assert found.nodes.height == 2
    assert [finding.code for finding in found.findings] == [FindingCode.CHAKRA_METADATA_MISSING]


def test_times_beyond_the_range_are_left_out_and_counted(tmp_path: Path) -> None:
    node = messages().node(id=2**64 - 1, duration_micros=2**63, start_time_micros=2**64 - 1)
    found = tracebraid.chakra.read(written(tmp_path, framed([METADATA, node.SerializeToString()])))
    assert found.nodes.row(0, named=True)["duration_micros"] is None
    assert b"".join(rank_bytes(found)).count(b"\xff" * 9) == 1, "the id is written as it was"
    assert {finding.code for finding in found.findings} == {FindingCode.CHAKRA_VALUE_LEFT_OUT}


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_raises_nothing_foreign(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    content = bytearray(b"".join(rank_bytes(RANK)))
    for _ in range(chance.randint(1, 8)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path = written(tmp_path, bytes(content))
    for reader in (tracebraid.chakra.read, lambda path: list(Feeder(path))):
        with contextlib.suppress(InputError):
            assert reader(path) is not None


@pytest.mark.full
def test_a_node_of_many_small_fields_takes_time_in_proportion(tmp_path: Path) -> None:
    """Dependencies that are not packed, an attribute of one name again and again, and a text of 10 MB."""
    node = NODE + number_field(5, 3) * 300_000
    node += bytes_field(10, bytes_field(1, b"comm_size") + number_field(9, 1)) * 50_000
    node += bytes_field(8, bytes_field(1, b"v" * 10_000_000))
    found = tracebraid.chakra.read(written(tmp_path, framed([METADATA, node])))
    assert len(found.data_deps) == 300_000
    assert found.nodes["comm_size"].to_list() == [1]
    assert found.nodes["attributes"].to_list()[0].count("1") == 49_999


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, "9" * 5000, "null"])
def test_files_of_the_simulator_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    written(tmp_path, framed([METADATA, NODE]))
    other = tmp_path / "odd.json"
    other.write_text(text)
    for asked in ({"comm_group": other}, {"hardware": tracebraid.chakra.ChakraHardware(settings=other)}):
        with pytest.raises(InputError) as caught:
            tracebraid.chakra.run(tmp_path, **asked)
        assert caught.value.path == str(other)


def test_a_node_without_any_field_is_written_and_read(tmp_path: Path) -> None:
    """Readers end at an empty message: it is written with its id, 0."""
    rank = rank_of(0, [{"node_id": 0, "type": "INVALID_NODE", "name": "", "duration_micros": 0}, compute(1)])
    path = tmp_path / "a.0.et"
    tracebraid.chakra.write(path, rank)
    found = tracebraid.chakra.read(path)
    assert (found.nodes["node_id"].to_list(), found.findings) == ([0, 1], ())


def test_a_double_beyond_all_numbers_is_no_integer_of_a_node(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"version": "0.0.4"}\n{"id": 1e400, "name": "a"}\n', "a.json")
    with pytest.raises(InputError, match="object 2: it is not a Chakra message"):
        tracebraid.chakra.from_json(path, tmp_path / "a.0.et")


def test_a_number_of_5000_digits_is_no_member_of_a_node(tmp_path: Path) -> None:
    path = written(tmp_path, b'{"version": "0.0.4"}\n{"id": ' + b"1" * 5000 + b', "name": "a"}\n', "a.json")
    with pytest.raises(InputError, match="object 2: character 21: a number has more digits"):
        tracebraid.chakra.from_json(path, tmp_path / "a.0.et")


@pytest.mark.parametrize("command", ["stats", "run"])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_numbers_and_runs_of_a_file_that_was_cut_off_say_so(
    command: str, form: list[str], tmp_path: Path
) -> None:
    path = written(tmp_path, b"".join(rank_bytes(rank_of(0, [compute(1), compute(2)])))[:-1])
    done = run("chakra", command, path, *form)
    assert "a.0.et, byte" in done.stderr
    assert "it is truncated" in done.stderr
    if form:
        assert [one["code"] for one in json.loads(done.stdout)["findings"]] == ["truncated"]


# --- Nodes that no program should write: the check says what is wrong, in time, and never fails ------


_NAME_BYTES = 10_000_000


def made(before: np.ndarray, after: np.ndarray, nodes: int) -> ChakraRank:
    ids = np.arange(nodes)
    frame = pl.DataFrame({"node_id": ids}).with_columns(
        name=pl.lit("n"), type=pl.lit("COMP_NODE"), duration_micros=pl.lit(1)
    )
    deps = NodeDeps.of_pairs(before, after, ids)
    return ChakraRank(
        0, "0.0.4", (), CHAKRA_NODES.conform(frame, fill_missing=True), deps, NodeDeps.none(nodes)
    )


def found(facts: RankFacts) -> dict[LintCode, str]:
    return {finding.code: str(finding) for finding in facts.findings}


def test_a_chain_of_a_million_nodes_is_no_recursion() -> None:
    nodes = 1_000_000
    ids = np.arange(nodes)
    assert rank_facts(made(ids[:-1], ids[1:], nodes), "x").findings == ()


def test_a_circle_of_a_million_nodes_is_named_by_its_first() -> None:
    nodes = 1_000_000
    ids = np.arange(nodes)
    sentences = found(rank_facts(made(ids, np.roll(ids, -1), nodes), "x"))
    assert set(sentences) == {LintCode.DEPENDENCY_CYCLE, LintCode.NO_START_NODE}
    assert all(len(sentence) < 2000 for sentence in sentences.values())


def test_a_hundred_thousand_nodes_that_are_ready_at_once_are_warned_of() -> None:
    nodes = 100_002
    middle = np.arange(1, nodes - 1)
    first, last = np.zeros_like(middle), np.full_like(middle, nodes - 1)
    rank = made(np.concatenate([first, middle]), np.concatenate([middle, last]), nodes)
    assert set(found(rank_facts(rank, "x", Simulator.ASTRA_SIM))) == {LintCode.ASTRA_MANY_READY}


def test_collectives_without_any_order_that_meet_in_a_node_take_no_memory_of_their_square() -> None:
    many = [collective(number, size=number + 1) for number in range(3000)]
    nodes = [*many, *(compute(3000 + number, *range(0, 3000, 7)) for number in range(40))]
    tracemalloc.start()
    facts = rank_facts(rank_of(0, nodes), "x")
    check = check_job(JobFacts("x", [facts], [0]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert {finding.code for finding in check.findings} == {LintCode.ORDER_BY_TIME}
    assert peak < 200_000_000


def test_names_and_groups_of_megabytes_and_of_control_characters_are_shortened() -> None:
    name = "\x1b[31m" + "x" * _NAME_BYTES
    nodes = [compute(0, 1, name=name), compute(1, 0, name=name), collective(2, group=name)]
    facts = rank_facts(rank_of(0, nodes), "x")
    check = check_job(JobFacts("x", [facts], [0], {name: [0, 9]}, "g"))
    for text in lint_lines(check):
        assert len(text) < 2000
        assert "\x1b" not in text


def test_ids_and_numbers_at_the_ends_of_int64_are_taken_as_they_are() -> None:
    most = 2**63 - 1
    nodes = [
        compute(most, us=most),
        compute(most - 1, most, us=most),
        compute(-(2**63), most - 1, us=-(2**63)),
        collective(5, most - 1, size=most),
    ]
    sentences = found(rank_facts(rank_of(0, nodes), "x"))
    assert set(sentences) == {LintCode.ID_NEGATIVE, LintCode.DURATION_NEGATIVE}


def test_a_job_of_which_no_file_could_be_read_has_its_findings() -> None:
    assert {finding.code for finding in check_job(JobFacts("x", [], [1])).findings} == {
        LintCode.RANKS_MISSING
    }
