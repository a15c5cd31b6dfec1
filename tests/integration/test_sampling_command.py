"""`--ranks` and `--sample`: each command says what its answer then cannot know; contradictions are wrong usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.command import fail, run

CODE = "ranks-chosen"
SAYS = "of 2 ranks only 1 are read"


@pytest.mark.parametrize(
    "command",
    [
        ["summary"],
        ["advise"],
        ["metrics"],
        ["analyze", "collectives"],
        ["analyze", "kernels"],
        ["report", "--text", "--no-critical-path"],
        ["diff", "{path}"],
    ],
    ids=" ".join,
)
def test_every_command_says_that_ranks_were_left_out(demo: Path, command: list[str]) -> None:
    done = run(*(word.format(path=demo) for word in command), demo, "--ranks", "1")
    assert SAYS in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [["summary"], ["advise"], ["diff", "{path}"]], ids=" ".join)
def test_json_has_it_as_a_code(demo: Path, command: list[str]) -> None:
    done = run(*(word.format(path=demo) for word in command), demo, "--sample", "1", "--json")
    codes = [finding["code"] for finding in json.loads(done.stdout)["findings"]]
    assert codes.count(CODE) >= 1


def test_sections_of_a_report_that_compare_ranks_say_so(demo: Path) -> None:
    done = run("report", demo, "--json", "--ranks", "0", "--no-critical-path")
    noted = {
        section["id"]
        for section in json.loads(done.stdout)["sections"]
        for part in section["parts"]
        if part.get("code") == CODE
    }
    assert {"job", "collectives", "trust"} <= noted
    assert "memory" not in noted


def test_a_whole_job_says_nothing_of_it(demo: Path) -> None:
    for options in (("--ranks", "0-1"), ("--sample", "2"), ()):
        assert CODE not in run("summary", demo, "--json", *options).stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--ranks", "0", "--sample", "1"], "contradict"),
        (["--ranks", "0,7"], "rank 7; it has ranks 0, 1"),
        (["--ranks", "1", "--rank", "0"], "without rank 0: only with ranks 1"),
        (["--ranks", "1-0"], "write 0-1"),
        (["--sample", "0"], "--sample"),
        (["--sample", "many"], "--sample"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_contradictions_and_unknown_ranks_are_wrong_usage(demo: Path, options: list[str], says: str) -> None:
    for command in (["summary"], ["analyze", "kernels"], ["report", "--text"]):
        done = run(*command, demo, *options)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr


def test_a_folder_without_traces_is_the_same_error_with_a_sample(tmp_path: Path) -> None:
    assert "there is no trace in it" in fail("summary", tmp_path, "--sample", "3")
