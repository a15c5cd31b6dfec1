"""The command line: what goes where, and that text of a trace never steers a terminal."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kernel, kineto_text, op, write
from tests.integration.command import (
    EVENTS,
    fail,
    run,
    succeed,
    truncated,
    write_pair,
)


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
    assert "cut off" in done.stderr
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


@pytest.mark.parametrize("arguments", [["link", "--json"], ["summary"]], ids=" ".join)
def test_a_reader_that_goes_away_leaves_no_traceback(job: Path, arguments: list[str]) -> None:
    """As `| head` does; here the pipe is closed before the first byte."""
    command = [sys.executable, "-m", "tracebraid", arguments[0], str(job), *arguments[1:]]
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


def test_an_output_that_takes_ascii_alone_gets_what_it_can_take(pair: tuple[Path, Path]) -> None:
    command = [sys.executable, "-m", "tracebraid", "summary", str(pair[1])]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0
    assert "gemm" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [["analyze", "--list"], ["advise"], ["summary"], ["metrics"], ["check"]]
)
def test_no_line_ends_in_spaces(arguments: list[str], job: Path) -> None:
    done = run(*arguments, *([] if "--list" in arguments else [job]))
    assert done.stdout
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []


def test_a_terminal_without_block_characters_gets_ascii(job: Path) -> None:
    command = [sys.executable, "-m", "tracebraid", "summary", str(job)]
    done = subprocess.run(
        command, capture_output=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert done.stdout.isascii()
    assert b"\\u" not in done.stdout
    assert b"\\x" not in done.stdout
