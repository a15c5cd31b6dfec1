"""`tracebraid check`: what it prints, in words and as JSON, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.command import Done, run, run_process
from tests.unit.validation.made import lay, shuffled, step
from tracebraid.api import check


def ok(done: Done, returncode: int = 0) -> str:
    """The output of a command that ended so, and had nothing to say on standard error."""
    assert (done.returncode, done.stderr) == (returncode, "")
    return done.stdout


def findings(path: Path, returncode: int = 0) -> list[tuple[str, str]]:
    """(severity, code) of each finding, from the JSON."""
    data = json.loads(ok(run("check", path, "--json"), returncode))
    return [(one["severity"], one["code"]) for one in data["findings"]]


# --- exit codes -------------------------------------------------------------------------------------


def test_a_capture_that_links_ends_with_zero(demo: Path) -> None:
    text = ok(run_process("check", demo))
    assert text.rstrip().endswith(f"{demo}: it links; nothing to complain about")
    assert "4,764 100.0 %" in text
    assert "ProfilerStep#3 to ProfilerStep#5 (3)" in text


def test_a_capture_that_does_not_link_ends_with_one_and_is_still_shown_whole(tmp_path: Path) -> None:
    lay(tmp_path, info={"world_size": 3})
    text = ok(run_process("check", tmp_path), 1)
    assert "error: " in text
    assert "of 3 ranks, 2 are missing: 1, 2" in text
    assert text.rstrip().endswith("; 1 error")
    assert "4 100.0 %" in text


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["a", "--no-such-option"]], ids=str)
def test_wrong_usage_ends_with_two(arguments: list[str]) -> None:
    done = run_process("check", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("more", [[], ["--json"], ["--repair"]], ids=str)
def test_what_is_not_there_is_one_error_and_no_result(tmp_path: Path, more: list[str]) -> None:
    done = run("check", tmp_path / "missing", *more)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path / 'missing'}: there is no such file")
    assert done.stderr.count("\n") == 1


def test_the_help_names_what_it_takes_and_its_exit_code() -> None:
    text = " ".join(ok(run("check", "--help")).split())
    for word in ("PATH", "--repair", "--json", "Exit code 1"):
        assert word in text


# --- words and JSON ---------------------------------------------------------------------------------


def damaged(folder: Path) -> Path:
    """A capture with findings of every weight."""
    lay(folder, 0, nodes=shuffled(13, 11), info={"world_size": 3})
    lay(folder, 1, nodes=None, info={"world_size": 3})
    lay(folder, 2, [step(2)], None, {"world_size": 2})
    (folder / "odd.json").write_text('{"a": 1}')
    return folder


def test_json_has_all_that_the_words_have_in_the_same_order(tmp_path: Path) -> None:
    damaged(tmp_path)
    text, data = ok(run("check", tmp_path), 1), json.loads(ok(run_process("check", tmp_path, "--json"), 1))
    lines = []
    for one in data["findings"]:
        times = f" ({one['count']} times)" if one["count"] > 1 else ""
        place = f"{one['path']}, {one['where']}" if one["where"] else one["path"]
        lines += [f"{one['severity']}: {place}: {one['message']}{times}", f"  {one['advice']}"]
    assert text.split("\n\n", 1)[1].splitlines()[:-1] == lines
    assert len({one["severity"] for one in data["findings"]}) >= 2


def test_json_is_what_the_function_returns(tmp_path: Path) -> None:
    damaged(tmp_path)
    data, found = json.loads(ok(run("check", tmp_path, "--json"), 1)), check(tmp_path)
    assert (data["path"], data["links"]) == (str(tmp_path), found.links) == (str(tmp_path), False)
    assert set(data) == {"path", "links", "ranks", "findings"}
    assert [one["code"] for one in data["findings"]] == [one.finding.code for one in found.diagnoses]
    assert [(one["rank"], one["et"], one["kineto"]) for one in data["ranks"]] == [
        (one.rank, one.et, one.kineto) for one in found.ranks
    ]
    assert data["ranks"][0]["linked"]["host_ops"]["linked"] == 4
    assert data["ranks"][0]["steps"] == ["ProfilerStep#1"]


def test_the_same_capture_gives_the_same_bytes(tmp_path: Path) -> None:
    damaged(tmp_path)
    assert ok(run_process("check", tmp_path, "--json"), 1) == ok(run("check", tmp_path, "--json"), 1)


def test_only_a_repair_tells_of_repairs(tmp_path: Path) -> None:
    lay(tmp_path)
    assert "repairs" not in json.loads(ok(run("check", tmp_path, "--json")))
    assert len(json.loads(ok(run("check", tmp_path, "--json", "--repair")))["repairs"]) == 1


# --- what it takes ----------------------------------------------------------------------------------


def test_windows_are_told_apart(tmp_path: Path) -> None:
    for number in (2, 10):
        lay(tmp_path / f"window_{number}")
    text = ok(run("check", tmp_path))
    assert text.index("window_2") < text.index("window_10")
    data = json.loads(ok(run("check", tmp_path, "--json")))
    assert [one["window"] for one in data["ranks"]] == ["window_2", "window_10"]


def test_a_folder_with_a_manifest_alone_is_told_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "manifest_0.json").write_text('{"steps_seen": 2, "windows": []}')
    assert findings(tmp_path, 1) == [("error", "nothing-recorded")]
    assert "nothing was recorded in 2 steps" in ok(run("check", tmp_path), 1)


def test_a_timeline_alone_is_checked(tmp_path: Path) -> None:
    lay(tmp_path, nodes=None)
    text = ok(run("check", tmp_path / "kineto_trace_0.json"))
    assert "ProfilerStep#1" in text
    assert "nothing to complain about" in text


def test_an_execution_trace_alone_is_checked(tmp_path: Path) -> None:
    lay(tmp_path, events=None, nodes=shuffled(12, 404))
    assert findings(tmp_path / "torch_et_0.json") == [("warning", "parent-missing")]
    assert "torch_et_0.json, node 12: nodes name a parent" in ok(run("check", tmp_path / "torch_et_0.json"))


def test_an_execution_trace_alone_is_not_said_to_link(tmp_path: Path) -> None:
    """There is nothing that it could be linked to."""
    lay(tmp_path, events=None)
    assert "it links" not in ok(run("check", tmp_path / "torch_et_0.json"))


def test_a_manifest_named_as_the_file_to_check_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "manifest_0.json").write_text('{"windows": []}')
    done = run("check", tmp_path / "manifest_0.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no trace" in done.stderr


# --- where output goes ------------------------------------------------------------------------------


def test_a_reader_that_goes_away_leaves_no_traceback(demo: Path) -> None:
    command = f"'{sys.executable}' -m tracebraid check '{demo}' --json | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "{\n"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_an_output_that_takes_ascii_alone_gets_what_it_can_take(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    folder = lay(tmp_path / "größe", nodes=shuffled(13, 11))
    assert "gr\\xf6\\xdfe: it links" in ok(run_process("check", folder))
