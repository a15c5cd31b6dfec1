"""`tracebraid trace-link` and `tracebraid chakra-trace-link`: the peers' options."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import typer

from tests.builders import et_text, kineto_text, write
from tests.integration.command import EVENTS, NODES, fail, run, run_process, succeed, write_pair
from tests.peers import check_trace_link, is_device, load_et_plus, read_as_converter, read_as_replay
from tracebraid.compat.trace_link import plus_path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A pair of the test's own, as files are written beside it."""
    return write_pair(tmp_path / "pair")


def trace_link(pair: tuple[Path, Path]) -> list[object]:
    return ["trace-link", "--et-file", pair[0], "--kineto-file", pair[1]]


def chakra(pair: tuple[Path, Path], out: Path) -> list[object]:
    inputs: list[object] = ["--chakra-host-trace", pair[0], "--chakra-device-trace", pair[1]]
    return ["chakra-trace-link", *inputs, "--rank", 0, "--output-file", out]


def test_trace_links_options_write_et_plus_beside_the_execution_trace(pair: tuple[Path, Path]) -> None:
    succeed(*trace_link(pair), by=run_process)
    found = load_et_plus(pair[0].with_name("torch_et_0_plus.json"))
    check_trace_link(found)
    read_as_replay(found)
    by_name = {node["name"]: node for node in found["nodes"]}
    assert (by_name["aten::mm"]["ts"], by_name["aten::mm"]["dur"]) == (10, 50)
    assert (by_name["gemm"]["parent"], by_name["gemm"]["dur"]) == (20, 10)
    assert [node["name"] for node in found["nodes"] if is_device(node)] == ["gemm", "lost"]


def test_chakras_options_write_what_o_writes(pair: tuple[Path, Path], tmp_path: Path) -> None:
    succeed("link", *pair, "-o", tmp_path / "ours.json")
    succeed(*chakra(pair, tmp_path / "theirs.json"), by=run_process)
    assert (tmp_path / "theirs.json").read_bytes() == (tmp_path / "ours.json").read_bytes()
    read_as_converter(load_et_plus(tmp_path / "theirs.json"))


def test_both_say_what_was_linked_as_our_own_form_does(pair: tuple[Path, Path], tmp_path: Path) -> None:
    ours = succeed("link", *pair)
    assert succeed(*trace_link(pair)) == ours
    assert succeed(*chakra(pair, tmp_path / "x.json")) == ours
    as_json = succeed("link", *pair, "--json")
    assert succeed(*trace_link(pair), "--json") == as_json
    assert succeed(*chakra(pair, tmp_path / "x.json"), "--json") == as_json


def test_a_missed_threshold_ends_both_with_exit_code_1(pair: tuple[Path, Path], tmp_path: Path) -> None:
    for command in (trace_link(pair), chakra(pair, tmp_path / "x.json")):
        done = run(*command, "--min-coverage", "0.99")
        assert (done.returncode, "coverage is below 0.99" in done.stderr) == (1, True)


def test_options_that_change_nothing_here_are_taken(pair: tuple[Path, Path], tmp_path: Path) -> None:
    succeed(*trace_link(pair), "--exact-match", "--annotation", "ProfilerStep", "--log-level", "DEBUG")
    succeed(*chakra(pair, tmp_path / "x.json"), "--log-level", "INFO")


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
def test_link_has_none_of_the_peers_options(pair: tuple[Path, Path], option: str) -> None:
    assert run("link", *pair, option).returncode == 2


def test_wrong_usage_ends_a_process_with_exit_code_2(pair: tuple[Path, Path]) -> None:
    done = run_process(*trace_link(pair), pair[1])
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: " in done.stderr
    assert not pair[0].with_name("torch_et_0_plus.json").exists()


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
    with pytest.raises(typer.BadParameter):
        plus_path(Path("-"))


def test_gzip_in_gzip_out(tmp_path: Path) -> None:
    et = write(tmp_path / "et.json.gz", et_text(NODES))
    kineto = write(tmp_path / "kineto_trace_0.json.gz", kineto_text(EVENTS))
    succeed(*trace_link((et, kineto)))
    assert json.loads(gzip.decompress((tmp_path / "et_plus.json.gz").read_bytes()))["nodes"]


def test_an_input_is_never_written_over(pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(pair[0])
    before = [path.read_bytes() for path in pair]
    for place in (*pair, tmp_path / "link.json"):
        assert "one of the traces to read" in fail(*chakra(pair, place))
    et = pair[0].rename(pair[0].with_name("x.json"))
    kineto = pair[1].rename(pair[1].with_name("x_plus.json"))
    assert "one of the traces to read" in fail(*trace_link((et, kineto)))
    assert [et.read_bytes(), kineto.read_bytes()] == before


def test_traces_that_changed_places_are_said(pair: tuple[Path, Path]) -> None:
    assert "did the two change places?" in fail(*trace_link((pair[1], pair[0])))


def test_a_folder_or_nothing_at_all_is_one_error(pair: tuple[Path, Path], tmp_path: Path) -> None:
    fail(*trace_link((tmp_path, pair[1])))
    fail(*trace_link((tmp_path / "none.json", pair[1])))
    fail(*chakra((pair[0], tmp_path), tmp_path / "x.json"))


def test_the_rank_that_is_named_counts_where_the_trace_tells_none(tmp_path: Path) -> None:
    et = write(tmp_path / "et.json", et_text(NODES))
    kineto = write(tmp_path / "profile.json", kineto_text(EVENTS, {"distributedInfo": {}}))
    command = ["chakra-trace-link", "--chakra-host-trace", et, "--chakra-device-trace", kineto]
    found = json.loads(succeed(*command, "--rank", 3, "--output-file", tmp_path / "x.json", "--json"))
    assert [one["rank"] for one in found["ranks"]] == [3]
    assert found["findings"] == []


def test_a_rank_that_the_trace_denies_is_said(pair: tuple[Path, Path], tmp_path: Path) -> None:
    command = [3 if one == 0 else one for one in chakra(pair, tmp_path / "x.json")]
    found = json.loads(run(*command, "--json").stdout)
    assert [one["rank"] for one in found["ranks"]] == [0]
    assert [one["code"] for one in found["findings"]] == ["ranks-differ"]


def test_the_rank_may_be_left_out(pair: tuple[Path, Path], tmp_path: Path) -> None:
    inputs = ("--chakra-host-trace", pair[0], "--chakra-device-trace", pair[1])
    succeed("chakra-trace-link", *inputs, "--output-file", tmp_path / "x.json")
    assert (tmp_path / "x.json").exists()
