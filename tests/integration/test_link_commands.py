"""`tracebraid link` without ids: --match, --annotation, --iteration."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.builders import et_text, kineto_text, node, op, write
from tests.integration.command import EVENTS, NODES, fail, run, succeed, write_pair
from tests.peers import check_trace_link, is_device, load_et_plus, read_as_converter, read_as_replay
from tests.planted import Host, PlannedJob
from tests.planted.nodes import nodes_of as nodes_of_scene
from tests.unit.linking.made import et_of
from tests.unit.linking.unlabelled import events_of, nodes_of
from tracebraid.cli.trace_link import plus_path
from tracebraid.errors import ArgumentError

BODY = [f"aten::op{number}" for number in range(30)]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """An iteration, and four of them."""
    events = events_of({7: [one for n in range(4) for one in (f"ProfilerStep#{n}", *BODY)]})
    et = write(tmp_path / "et.json", et_text(nodes_of({1: ["ProfilerStep#2", *BODY]}), "1.1.1-chakra.0.0.4"))
    return et, write(tmp_path / "kineto.json", kineto_text(events))


def test_the_iteration_that_was_matched_is_told(pair: tuple[Path, Path]) -> None:
    done = run("link", *pair, "--min-coverage", "1")
    assert done.returncode == 0, done.stderr
    assert "31 of 31, 100.0 %" in done.stdout
    said = " ".join(done.stderr.split())
    assert "ProfilerStep#2 of 4 iterations" in said
    assert "was matched" in said
    found = json.loads(run("link", *pair, "--json", "--iteration", "0").stdout)
    (told,) = [one["message"] for one in found["findings"] if one["code"] == "matched"]
    assert "ProfilerStep#0 of 4 iterations" in told
    assert "was matched" in told
    assert "it was requested" in told


def test_by_ids_alone_nothing_is_linked(pair: tuple[Path, Path]) -> None:
    done = run("link", *pair, "--match", "exact", "--min-coverage", "0.5")
    assert done.returncode == 1
    assert "coverage is below 0.5" in done.stderr


def test_a_check_links_as_link_does(pair: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for path, name in zip(pair, ("torch_et_0.json", "kineto_trace_0.json"), strict=True):
        path.rename(folder / name)
    found = json.loads(run("check", folder, "--json").stdout)
    (rank,) = found["ranks"]
    assert found["links"]
    assert rank["linked"]["et_nodes"] == {"total": 31, "linked": 31}
    assert 0.9 < rank["confidence"] < 1.0
    assert rank["linked"] == json.loads(run("link", folder, "--json").stdout)["ranks"][0]
    by_ids = run("check", folder, "--match", "exact", "--json")
    assert by_ids.returncode == 1
    assert json.loads(by_ids.stdout)["ranks"][0]["linked"]["host_ops"]["linked"] == 0


def test_a_check_refuses_a_match_that_there_is_not(tmp_path: Path) -> None:
    assert run("check", tmp_path, "--match", "nearly").returncode == 2


def test_a_kineto_trace_that_was_cut_covers_too_little(tmp_path: Path) -> None:
    """All that is left of it links."""
    ops = [op(name, 100 * n, 50, Record_function_id=51 + n) for n, name in enumerate(BODY)]
    nodes = et_of(*(node(20 + n, name, 1001, rf_id=51 + n) for n, name in enumerate(BODY)))
    et = write(tmp_path / "et.json", et_text(nodes))
    for kept, code in ((len(ops), 0), (len(ops) // 2, 1)):
        kineto = write(tmp_path / "kineto.json", kineto_text(ops[:kept]))
        done = run("link", et, kineto, "--min-coverage", "0.99", "--json")
        assert done.returncode == code
        (rank,) = json.loads(done.stdout)["ranks"]
        assert rank["host_ops"]["linked"] == rank["host_ops"]["total"] == kept
        assert rank["coverage"] == kept / len(ops)


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (["--match", "nearly"], 2, "there is no match 'nearly'"),
        (["--iteration", "last"], 2, "there is no iteration 'last'"),
        (["--iteration", "9"], 2, "there is no iteration 9; there are 4"),
        (["--annotation", "Nowhere"], 2, "no op of the longer trace has 'Nowhere' in its name"),
    ],
)
def test_what_cannot_be_is_refused(pair: tuple[Path, Path], more: list[str], code: int, told: str) -> None:
    done = run("link", *pair, *more)
    assert done.returncode == code
    assert told in " ".join(done.stderr.replace("│", " ").split())


def test_traces_of_two_programs_are_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    events = kineto_text(events_of({7: [f"aten::other{number}" for number in range(30)]}))
    done = run("link", pair[0], write(tmp_path / "other.json", events))
    assert done.returncode == 1
    assert "it is of another program than" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


# --- `tracebraid link --align-clocks`: the ET+ of all ranks on one clock -----------------------------


AHEAD_NS = 3_600 * 10**9


def planned(folder: Path) -> PlannedJob:
    job = PlannedJob(2, [Host("a"), Host("b", AHEAD_NS)])
    for number in range(1, 5):
        with job.step(number):
            job.compute(50_000)
            job.collective()
    for scene in job.finished():
        text = et_text(nodes_of_scene(scene)).replace('"pid": 1,', f'"pid": {scene.pid},', 1)
        written = datetime.fromtimestamp(scene.base_ns // 10**9, timezone.utc)
        text = text.replace("2023-11-14 22:13:20", f"{written:%Y-%m-%d %H:%M:%S}")
        write(folder / f"torch_et_{scene.rank}.json", text)
    job.write(folder)
    return job


def ends_ns(path: Path) -> list[int]:
    """When the collectives' kernels end, on the unix clock."""
    found = json.loads(path.read_text())
    base = int(found.get("baseTimeNanoseconds", 0))
    return [
        base + round(node["ts"] * 1000) + round(node["inclusive_dur"] * 1000)
        for node in found["nodes"]
        if node["name"].startswith("ncclDevKernel") and "ts" in node
    ]


@pytest.mark.parametrize("aligned", [True, False])
def test_ends_of_collectives_are_one_moment_on_aligned_clocks(tmp_path: Path, aligned: bool) -> None:
    (tmp_path / "in").mkdir()
    planned(tmp_path / "in")
    succeed("link", tmp_path / "in", "-o", tmp_path / "out", *(["--align-clocks"] if aligned else []))
    first, second = (ends_ns(tmp_path / "out" / f"et_plus_{rank}.json") for rank in (0, 1))
    assert len(first) == len(second) == 4
    apart = [late - early for early, late in zip(first, second, strict=True)]
    # A float of JSON holds a time of the unix clock in µs to 1/4 µs.
    assert apart == pytest.approx([0 if aligned else AHEAD_NS] * 4, abs=2_000)


def test_clocks_are_aligned_of_a_folder_that_is_written(tmp_path: Path) -> None:
    planned(tmp_path)
    assert run("link", tmp_path, "--align-clocks").returncode == 2


# --- `tracebraid trace-link` and `tracebraid chakra-trace-link`: the peers' options ------------------


@pytest.fixture
def own_pair(tmp_path: Path) -> tuple[Path, Path]:
    """A pair of the test's own, as files are written beside it."""
    return write_pair(tmp_path / "pair")


def trace_link(own_pair: tuple[Path, Path]) -> list[object]:
    return ["trace-link", "--et-file", own_pair[0], "--kineto-file", own_pair[1]]


def chakra(own_pair: tuple[Path, Path], out: Path) -> list[object]:
    inputs: list[object] = ["--chakra-host-trace", own_pair[0], "--chakra-device-trace", own_pair[1]]
    return ["chakra-trace-link", *inputs, "--rank", 0, "--output-file", out]


def test_trace_links_options_write_et_plus_beside_the_execution_trace(own_pair: tuple[Path, Path]) -> None:
    succeed(*trace_link(own_pair))
    found = load_et_plus(own_pair[0].with_name("torch_et_0_plus.json"))
    check_trace_link(found)
    read_as_replay(found)
    by_name = {node["name"]: node for node in found["nodes"]}
    assert (by_name["aten::mm"]["ts"], by_name["aten::mm"]["dur"]) == (10, 50)
    assert (by_name["gemm"]["parent"], by_name["gemm"]["dur"]) == (20, 10)
    assert [node["name"] for node in found["nodes"] if is_device(node)] == ["gemm", "lost"]


def test_chakras_options_write_what_o_writes(own_pair: tuple[Path, Path], tmp_path: Path) -> None:
    succeed("link", *own_pair, "-o", tmp_path / "ours.json")
    succeed(*chakra(own_pair, tmp_path / "theirs.json"))
    assert (tmp_path / "theirs.json").read_bytes() == (tmp_path / "ours.json").read_bytes()
    read_as_converter(load_et_plus(tmp_path / "theirs.json"))


def test_both_say_what_was_linked_as_our_own_form_does(own_pair: tuple[Path, Path], tmp_path: Path) -> None:
    ours = succeed("link", *own_pair)
    assert succeed(*trace_link(own_pair)) == ours
    assert succeed(*chakra(own_pair, tmp_path / "x.json")) == ours
    as_json = succeed("link", *own_pair, "--json")
    assert succeed(*trace_link(own_pair), "--json") == as_json
    assert succeed(*chakra(own_pair, tmp_path / "x.json"), "--json") == as_json


def test_a_missed_threshold_ends_both_with_exit_code_1(own_pair: tuple[Path, Path], tmp_path: Path) -> None:
    for command in (trace_link(own_pair), chakra(own_pair, tmp_path / "x.json")):
        done = run(*command, "--min-coverage", "0.99")
        assert (done.returncode, "coverage is below 0.99" in done.stderr) == (1, True)


def test_options_that_change_nothing_here_are_taken(own_pair: tuple[Path, Path], tmp_path: Path) -> None:
    succeed(*trace_link(own_pair), "--exact-match", "--annotation", "ProfilerStep", "--log-level", "DEBUG")
    succeed(*chakra(own_pair, tmp_path / "x.json"), "--log-level", "INFO")


TRACE_LINK, CHAKRA = "trace-link", "chakra-trace-link"


@pytest.mark.parametrize(
    "arguments",
    [
        [TRACE_LINK],
        [TRACE_LINK, "--et-file", "a"],
        [TRACE_LINK, "--kineto-file", "a"],
        [TRACE_LINK, "--et-file", "-", "--kineto-file", "b"],
        [TRACE_LINK, "--et-file", "", "--kineto-file", "b"],
        [TRACE_LINK, "--et-file", "a", "--kineto-file", "b", "c"],
        [TRACE_LINK, "--et-file", "a", "--kineto-file", "b", "--exact-match", "True"],
        [TRACE_LINK, "--et-file", "a", "--kineto-file", "b", "-o", "c"],
        [TRACE_LINK, "--et-file", "a", "--kineto-file", "b", "--rank", "0"],
        [CHAKRA],
        [CHAKRA, "--chakra-host-trace", "a", "--chakra-device-trace", "b"],
        [CHAKRA, "--chakra-host-trace", "a", "--output-file", "b"],
        [CHAKRA, "a", "b"],
        [
            *(CHAKRA, "--chakra-host-trace", "a", "--chakra-device-trace", "b"),
            *("--output-file", "c", "--rank", "-1"),
        ],
        [
            *(CHAKRA, "--chakra-host-trace", "a", "--chakra-device-trace", "b"),
            *("--output-file", "c", "--rank", "one"),
        ],
        [CHAKRA, "--et-file", "a", "--kineto-file", "b"],
    ],
    ids=" ".join,
)
def test_options_that_are_missing_or_of_another_command_are_wrong_usage(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "option",
    [
        *("--et-file", "--kineto-file", "--exact-match", "--chakra-host-trace", "--chakra-device-trace"),
        *("--rank", "--output-file", "--log-level"),
    ],
)
def test_link_has_none_of_the_peers_options(own_pair: tuple[Path, Path], option: str) -> None:
    assert run("link", *own_pair, option).returncode == 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("et.json", "et_plus.json"),
        ("et.json.gz", "et_plus.json.gz"),
        ("et.gz", "et_plus.json.gz"),
        ("et.json.zst", "et_plus.json"),
        ("et", "et_plus.json"),
        ("a.json.b.json", "a.json.b_plus.json"),
        (".json", ".json_plus.json"),
        ("et.arrow.zip", "et_plus.json"),
        ("et_plus.json", "et_plus_plus.json"),
    ],
)
def test_the_name_of_the_et_plus(name: str, expected: str) -> None:
    """A folder with `.json` in its name keeps it."""
    assert plus_path(Path("run.json") / name) == Path("run.json") / expected


def test_a_name_that_is_none_has_no_et_plus() -> None:
    with pytest.raises(ArgumentError):
        plus_path(Path("-"))


def test_gzip_in_gzip_out(tmp_path: Path) -> None:
    et = write(tmp_path / "et.json.gz", et_text(NODES))
    kineto = write(tmp_path / "kineto_trace_0.json.gz", kineto_text(EVENTS))
    succeed(*trace_link((et, kineto)))
    assert json.loads(gzip.decompress((tmp_path / "et_plus.json.gz").read_bytes()))["nodes"]


def test_an_input_is_never_written_over(own_pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(own_pair[0])
    before = [path.read_bytes() for path in own_pair]
    for place in (*own_pair, tmp_path / "link.json"):
        assert "one of the traces to read" in fail(*chakra(own_pair, place))
    et = own_pair[0].rename(own_pair[0].with_name("x.json"))
    kineto = own_pair[1].rename(own_pair[1].with_name("x_plus.json"))
    assert "one of the traces to read" in fail(*trace_link((et, kineto)))
    assert [et.read_bytes(), kineto.read_bytes()] == before


def test_traces_that_changed_places_are_said(own_pair: tuple[Path, Path]) -> None:
    assert "are the two swapped?" in fail(*trace_link((own_pair[1], own_pair[0])))


def test_a_folder_or_nothing_at_all_is_one_error(own_pair: tuple[Path, Path], tmp_path: Path) -> None:
    fail(*trace_link((tmp_path, own_pair[1])))
    fail(*trace_link((tmp_path / "none.json", own_pair[1])))
    fail(*chakra((own_pair[0], tmp_path), tmp_path / "x.json"))


def test_the_rank_that_is_named_counts_where_the_trace_tells_none(tmp_path: Path) -> None:
    et = write(tmp_path / "et.json", et_text(NODES))
    kineto = write(tmp_path / "profile.json", kineto_text(EVENTS, {"distributedInfo": {}}))
    command = ["chakra-trace-link", "--chakra-host-trace", et, "--chakra-device-trace", kineto]
    found = json.loads(succeed(*command, "--rank", 3, "--output-file", tmp_path / "x.json", "--json"))
    assert [one["rank"] for one in found["ranks"]] == [3]
    assert found["findings"] == []


def test_a_rank_that_the_trace_denies_is_said(own_pair: tuple[Path, Path], tmp_path: Path) -> None:
    command = [3 if one == 0 else one for one in chakra(own_pair, tmp_path / "x.json")]
    found = json.loads(run(*command, "--json").stdout)
    assert [one["rank"] for one in found["ranks"]] == [0]
    assert [one["code"] for one in found["findings"]] == ["ranks-differ"]


def test_the_rank_may_be_left_out(own_pair: tuple[Path, Path], tmp_path: Path) -> None:
    inputs = ("--chakra-host-trace", own_pair[0], "--chakra-device-trace", own_pair[1])
    succeed("chakra-trace-link", *inputs, "--output-file", tmp_path / "x.json")
    assert (tmp_path / "x.json").exists()
