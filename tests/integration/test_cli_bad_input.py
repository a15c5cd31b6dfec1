"""The command line on thresholds, wrong usage and bad input: one clear error each."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.builders import kineto_text
from tests.integration.command import (
    EVENTS,
    fail,
    run,
    run_process,
    succeed,
    truncated,
    write_pair,
)


def test_enough_coverage_ends_well(pair: tuple[Path, Path]) -> None:
    assert "2 of 3" in succeed("link", *pair, "--min-coverage", "0.25")


def test_too_little_coverage_shows_the_ledger_and_ends_with_exit_code_1(pair: tuple[Path, Path]) -> None:
    done = run("link", *pair, "--min-coverage", "0.99")
    assert done.returncode == 1
    assert "2 of 3" in done.stdout
    assert done.stderr.strip() == "error: coverage is below 0.99: rank 0 0.2500"


def test_too_little_coverage_leaves_the_json_whole(pair: tuple[Path, Path]) -> None:
    done = run("link", *pair, "--min-coverage", "0.99", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["ranks"][0]["coverage"] == 0.25


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["info"],
        ["link"],
        ["link", "a", "b", "c"],
        ["link", "a", "--nonsense"],
        ["link", "a", "--min-coverage", "1.5"],
        ["link", "a", "--min-coverage", "much"],
        ["summary"],
        ["summary", "a", "--top", "0"],
        ["summary", "a", "b"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_exit_code_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: " in done.stderr
    assert "Traceback" not in done.stderr


BAD_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n\t ", ""),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "PNG picture"),
    "binary": (bytes(range(256)) * 4, ""),
    "text": (b"hello, world\n", "no trace"),
    "other json": (b'{"a": 1}', "its keys are 'a'"),
    "a list": (b"[1, 2, 3]", ""),
    "cut off in its header": (truncated(kineto_text(EVENTS), 0.02), ""),
    "an array of rubbish": (b'{"traceEvents": [1, "x", null]}', ""),
    "an empty gzip": (gzip.compress(b""), ""),
    "half a gzip header": (b"\x1f\x8b\x08", ""),
    "deep json": (b"[" * 100_000, ""),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_trace_is_one_clear_error(tmp_path: Path, name: str) -> None:
    data, words = BAD_FILES[name]
    path = tmp_path / "kineto_trace_0.json"
    path.write_bytes(data)
    said = fail("summary", path)
    assert str(path) in said
    assert words in said
    assert said.strip().count("\n") == 0


@pytest.mark.parametrize("name", ["empty", "png", "other json"])
def test_an_execution_trace_that_is_none_is_one_clear_error(
    tmp_path: Path, pair: tuple[Path, Path], name: str
) -> None:
    data, words = BAD_FILES[name]
    path = tmp_path / "torch_et_0.json"
    path.write_bytes(data)
    said = fail("link", path, pair[1])
    assert str(path) in said
    assert words in said


def test_info_goes_on_after_a_file_that_is_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    (tmp_path / "kineto_trace_9.json").write_bytes(b"\x89PNG")
    done = run("info", ".")
    assert done.returncode == 1
    assert "torch_et_0.json" in done.stdout
    assert "kineto_trace_9.json: this looks like a PNG picture" in done.stderr


def test_traces_that_changed_places_are_told_apart(pair: tuple[Path, Path]) -> None:
    said = fail("link", pair[1], pair[0], by=run_process)
    assert "change places" in said


def test_two_kineto_traces_are_no_pair(pair: tuple[Path, Path]) -> None:
    assert "this is a Kineto trace" in fail("link", pair[1], pair[1])


def test_an_execution_trace_has_no_summary(pair: tuple[Path, Path]) -> None:
    assert "Execution Trace, which has no times" in fail("summary", pair[0])


@pytest.mark.parametrize("command", ["info", "link", "summary"])
def test_a_path_that_is_not_there_is_one_clear_error(tmp_path: Path, command: str) -> None:
    said = fail(command, tmp_path / "missing")
    assert "there is no such file" in said


@pytest.mark.parametrize("command", ["info", "link", "summary"])
def test_a_folder_without_traces_is_one_clear_error(tmp_path: Path, command: str) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert str(tmp_path) in fail(command, tmp_path)


def test_a_rank_that_is_not_there_is_one_clear_error(job: Path) -> None:
    done = run("summary", job, "--rank", "7")
    assert (done.returncode, done.stdout) == (2, "")
    assert "it has ranks 0, 1" in done.stderr


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("no/such/folder/x.json", "its folder is not there"),
        ("a_file/x.json", "cannot be written"),
        ("a_folder", "cannot be written"),
    ],
)
def test_an_output_that_cannot_be_written_is_one_clear_error(
    pair: tuple[Path, Path], tmp_path: Path, place: str, words: str
) -> None:
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_file").write_text("x")
    assert words in fail("link", *pair, "-o", tmp_path / place)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a_file", "a_folder"]


def test_a_file_where_the_output_folder_should_be_is_one_clear_error(job: Path, tmp_path: Path) -> None:
    (tmp_path / "a_file").write_text("x")
    assert "a_file" in fail("link", job, "-o", tmp_path / "a_file")
    assert "a_file" in fail("demo", tmp_path / "a_file")
    assert (tmp_path / "a_file").read_text() == "x"


def test_an_output_that_cannot_be_filled_is_refused_and_not_left_out_in_silence(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    """A Kineto trace alone has no ET+: `-o` that writes nothing must say so."""
    done = run("link", pair[1], "-o", tmp_path / "out")
    assert "Execution Trace" in done.stderr
