"""The command line: what goes where, and that text of a trace never steers a terminal."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

import tracebraid
from tests.builders import kernel, kineto_text, op, write
from tests.integration.command import EVENTS, fail, run, succeed, truncated, write_pair


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("arguments", [["info"], ["link"], ["summary"], ["link", "--json"]], ids=" ".join)
def test_where_nothing_is_wrong_standard_error_stays_empty(job: Path, arguments: list[str]) -> None:
    assert run(arguments[0], job, *arguments[1:]).stderr == ""


def test_an_error_is_one_line_and_nothing_else(job: Path) -> None:
    said = fail("summary", job / "missing.json")
    assert said == f"error: {job / 'missing.json'}: there is no such file or folder. Check the path\n"


def test_a_damaged_trace_is_read_for_the_rest_with_a_located_warning(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "kineto_trace_0.json"
    path.write_bytes(truncated(kineto_text(EVENTS), 0.9))
    done = run("link", pair[0], path)
    assert done.returncode == 0
    assert "2 of 3" in done.stdout
    assert "warning" not in done.stdout
    assert done.stderr.strip().startswith("warning: ")
    assert "truncated" in done.stderr
    assert str(path) in done.stderr


def test_warnings_are_in_the_json_too(pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "kineto_trace_0.json"
    path.write_bytes(truncated(kineto_text(EVENTS), 0.9))
    done = run("summary", path, "--json")
    assert "truncated" in {one["code"] for one in json.loads(done.stdout)["findings"]}


def test_a_truncated_gzip_is_read_for_the_rest(pair: tuple[Path, Path], tmp_path: Path) -> None:
    events = [op(f"op{i}", 10 * i, 5, Record_function_id=i + 1) for i in range(5000)]
    whole = gzip.compress(kineto_text(events).encode())
    path = tmp_path / "kineto_trace_0.json.gz"
    path.write_bytes(whole[: len(whole) // 2])
    done = run("link", pair[0], path)
    assert done.returncode == 0
    assert "gzip" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_leaves_no_traceback(job: Path) -> None:
    """As `| head` does; here the pipe is closed before the first byte."""
    command = [sys.executable, "-m", "tracebraid", "link", "--json", str(job)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        said = process.stderr.read().decode()
    process.wait()
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "BrokenPipe" not in said


@pytest.mark.full
def test_output_into_head_ends_quietly(demo: Path) -> None:
    command = f"'{sys.executable}' -m tracebraid summary '{demo}' --json | head -n 2"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") == 2
    assert "error" not in done.stderr
    assert "Traceback" not in done.stderr


def test_no_output_holds_terminal_codes(job: Path) -> None:
    assert "\x1b" not in succeed("summary", job)
    assert "\x1b" not in fail("summary", job / "missing")


MARKUP = "[bold]x[/bold] [/] [link=http://a]b a\\ 100%"


EMOJI = "loss:fire: :key:"


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", [MARKUP, EMOJI], ids=["markup", "emoji"])
@pytest.mark.parametrize(
    "events",
    [
        pytest.param(lambda name: [op(name, 0, 9)], id="op"),
        pytest.param(lambda name: [op("op", 0, 9), kernel(name, 0, 9, 1)], id="kernel"),
        pytest.param(
            lambda name: [op("op", 0, 9), op(f"ProfilerStep#{name}", 0, 9, cat="user_annotation")], id="step"
        ),
        pytest.param(
            lambda name: [op("op", 0, 9), *({**kernel("k", 0, 9, 1), "pid": pid} for pid in (name, 0))],
            id="device",
        ),
    ],
)
def test_names_are_printed_as_they_stand(
    tmp_path: Path, events: Callable[[str], list[Any]], name: str
) -> None:
    path = write(tmp_path / "kineto_trace_0.json", kineto_text(events(name)))
    assert name in succeed("summary", path)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", ["[bold]x[]", "a:fire:b"], ids=["markup", "emoji"])
def test_paths_are_printed_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_pair(Path(name))
    assert f"{name}/torch_et_0.json" in succeed("info", name)
    assert f"{name}/missing" in fail("link", f"{name}/missing")
    done = run("demo", name)
    assert done.returncode == 0
    assert f"are in {name}." in done.stdout


def test_control_characters_in_names_reach_no_terminal(tmp_path: Path) -> None:
    """Traces are handed around: a name must not clear the screen, nor break its row in two."""
    events = [op("red\x1b[31m\x07", 0, 9), op("two\nlines", 20, 5), kernel("back\rward", 30, 5, 1)]
    path = write(tmp_path / "kineto_trace_0.json", kineto_text(events))
    text = succeed("summary", path)
    assert not any(character in text for character in "\x1b\x07\r")
    assert not any(line.strip() == "lines" for line in text.splitlines())


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "arguments", [["analyze", "--list"], ["advise"], ["summary"], ["metrics"], ["check"]]
)
def test_no_line_ends_in_spaces(arguments: list[str], job: Path) -> None:
    done = run(*arguments, *([] if "--list" in arguments else [job]))
    assert done.stdout
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []


@pytest.mark.full
def test_an_output_that_takes_ascii_alone_gets_ascii_without_escapes(job: Path) -> None:
    command = [sys.executable, "-m", "tracebraid", "summary", str(job)]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, check=True, env=env)
    assert b"gemm" in done.stdout
    assert done.stdout.isascii()
    assert b"\\u" not in done.stdout
    assert b"\\x" not in done.stdout
    assert b"Traceback" not in done.stderr


def test_a_name_in_square_brackets_is_said_as_it_is(tmp_path: Path) -> None:
    annotation = {
        "ph": "X",
        "cat": "user_annotation",
        "name": "[param|cuda]",
        "pid": 1,
        "tid": 1,
        "ts": 0,
        "dur": 900,
    }
    path = write(tmp_path / "kineto_trace_0.json", kineto_text([annotation, op("aten::mm", 1, 10, 20)]))
    assert "[param|cuda] (1" in run("advise", path).stdout


def test_a_path_in_place_of_a_command_is_told_which_to_give(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 2
    assert f"tracebraid summary {tmp_path}" in " ".join(done.stderr.split())


# --- The command line on thresholds, wrong usage and bad input: one clear error each -----------------


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
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "PNG picture"),
    "text": (b"hello, world\n", "no trace"),
    "other json": (b'{"a": 1}', "its keys are 'a'"),
    "cut off in its header": (truncated(kineto_text(EVENTS), 0.02), ""),
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


def test_info_goes_on_after_a_file_that_is_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    (tmp_path / "kineto_trace_9.json").write_bytes(b"\x89PNG")
    done = run("info", ".")
    assert done.returncode == 1
    assert "torch_et_0.json" in done.stdout
    assert "kineto_trace_9.json: this looks like a PNG picture" in done.stderr


def test_traces_that_changed_places_are_told_apart(pair: tuple[Path, Path]) -> None:
    said = fail("link", pair[1], pair[0])
    assert "are the two swapped" in said


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
        ("no/such/folder/x.json", "its folder does not exist"),
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


# --- Does one bad rank, or a lost Execution Trace, cost no other rank, and is it never passed o ------


@pytest.fixture
def demo_job(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tracebraid.demo_path(), tmp_path / "job"))


@pytest.mark.parametrize("command", ["link", "summary"])
def test_a_rank_that_cannot_be_read_costs_no_other_and_fails_the_command(
    demo_job: Path, command: str
) -> None:
    (demo_job / "kineto_trace_0.json.gz").write_bytes(b"")
    done = run(command, demo_job, "--json")
    assert done.returncode == 1
    assert [rank["rank"] for rank in json.loads(done.stdout)["ranks"]] == [1]
    assert "rank 0 is skipped" in run(command, demo_job).stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("command", ["link", "summary"])
def test_one_rank_under_two_names_counts_once_and_fails_the_command(demo_job: Path, command: str) -> None:
    for kind in ("kineto_trace", "torch_et"):
        shutil.copy(demo_job / f"{kind}_0.json.gz", demo_job / f"{kind}_1.json.gz")
    done = run(command, demo_job, "--json")
    assert done.returncode == 1
    assert [rank["rank"] for rank in json.loads(done.stdout)["ranks"]] == [0]
    checked = run("check", demo_job, "--json")
    assert checked.returncode == 1
    codes = [finding["code"] for finding in json.loads(checked.stdout)["findings"]]
    assert "runs-mixed" in codes


def test_a_lost_execution_trace_fails_the_threshold(demo_job: Path) -> None:
    assert run("link", demo_job, "--min-coverage", "0.99").returncode == 0
    (demo_job / "torch_et_1.json.gz").unlink()
    done = run("link", demo_job, "--min-coverage", "0.99")
    assert done.returncode == 1
    assert "rank 1 0.0000" in done.stderr


def test_a_job_without_any_execution_trace_is_measured_by_its_launches(demo_job: Path) -> None:
    for rank in (0, 1):
        (demo_job / f"torch_et_{rank}.json.gz").unlink()
    assert run("link", demo_job, "--min-coverage", "0.99").returncode == 0


# --- What starting the command line costs ------------------------------------------------------------


def python(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


HEAVY = "print(sorted({'torch', 'pandas', 'jinja2', 'plotly', 'ray', 'matplotlib'} & set(sys.modules)))"


def test_importing_loads_no_heavy_library() -> None:
    assert python(f"import sys, tracebraid; {HEAVY}") == "[]\n"


@pytest.mark.full
def test_opening_linking_and_asking_load_no_heavy_library(job: Path) -> None:
    code = (
        "import sys, tracebraid; job = tracebraid.open(sys.argv[1]); job[0]; tracebraid.analyses.breakdown(job);"
        f"tracebraid.analyses.kernels(job); tracebraid.analyses.ops(job); {HEAVY}"
    )
    assert python(code, job) == "[]\n"


# --- Results that standard output does not take end in one line --------------------------------------


FULL = Path("/dev/full")


@pytest.mark.full
@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [("--version",), ("info", "{demo}", "--json")], ids=" ".join)
def test_a_full_disk_behind_standard_output_is_said_in_one_line(arguments: tuple[str, ...]) -> None:
    demo = tracebraid.demo_path() / "kineto_trace_0.json.gz"
    with FULL.open("w") as full:
        done = ended([str(demo) if part == "{demo}" else part for part in arguments], full)
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard output: it cannot be written")
    assert done.stderr.count("\n") == 1


def ended(arguments: list[str], out: IO[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tracebraid", *arguments]
    return subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.full
def test_a_process_without_standard_output_ends_well() -> None:
    command = 'exec "$@" >&-'
    line = ["sh", "-c", command, "sh", sys.executable, "-m", "tracebraid", "metrics", "--list"]
    done = subprocess.run(line, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
