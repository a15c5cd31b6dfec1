"""`tracebraid check`: what it prints, in words and as JSON, and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import et_text, write
from tests.integration.command import Done, run, run_process
from tests.planted import Host, PlannedJob
from tests.unit.linking.made import et_of
from tests.unit.validation.made import EVENTS, NODES, lay, ran, shuffled, step
from tracebraid import check


def ok(done: Done, returncode: int = 0) -> str:
    """The output of a command that ended so, and had nothing to say on standard error."""
    assert (done.returncode, done.stderr) == (returncode, "")
    return done.stdout


def findings(path: Path, returncode: int = 0) -> list[tuple[str, str]]:
    """(severity, code) of each finding, from the JSON."""
    data = json.loads(ok(run("check", path, "--json"), returncode))
    return [(one["severity"], one["code"]) for one in data["findings"]]


# --- exit codes -------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_capture_that_links_ends_with_zero(demo: Path) -> None:
    text = ok(run_process("check", demo))
    assert text.rstrip().endswith(f"{demo}: it links, 99.9 % of 9,530 nodes; no problems found")
    assert "4,764 100.0 %" in text
    assert "ProfilerStep#3 to #5 (3)" in text


def test_a_capture_that_does_not_link_ends_with_one_and_is_still_shown_whole(tmp_path: Path) -> None:
    lay(tmp_path, info={"world_size": 3})
    text = ok(run("check", tmp_path), 1)
    assert "error: " in text
    assert "2 of 3 ranks missing: 1, 2" in text
    assert text.rstrip().endswith("; 1 error")
    assert "4 100.0 %" in text


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["a", "--no-such-option"]], ids=str)
def test_wrong_usage_ends_with_two(arguments: list[str]) -> None:
    done = run("check", *arguments)
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
    text, data = ok(run("check", tmp_path), 1), json.loads(ok(run("check", tmp_path, "--json"), 1))
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


@pytest.mark.full
def test_the_same_capture_gives_the_same_bytes(tmp_path: Path) -> None:
    damaged(tmp_path)
    assert ok(run_process("check", tmp_path, "--json"), 1) == ok(run("check", tmp_path, "--json"), 1)


def test_only_a_repair_tells_of_repairs(tmp_path: Path) -> None:
    lay(tmp_path)
    assert "repairs" not in json.loads(ok(run("check", tmp_path, "--json")))
    assert len(json.loads(ok(run("check", tmp_path, "--json", "--repair")))["repairs"]) == 1


# --- what it takes ----------------------------------------------------------------------------------


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


@pytest.mark.full
def test_an_output_that_takes_ascii_alone_gets_what_it_can_take(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    folder = lay(tmp_path / "größe", nodes=shuffled(13, 11))
    assert "gr\\xf6\\xdfe: it links" in ok(run_process("check", folder))


# --- `tracebraid check` on damaged files, hostile manifests and hostile names: each is told, no ------


def codes(done: Done) -> set[str]:
    """The codes in what `check --json` printed."""
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
    return {one["code"] for one in json.loads(done.stdout)["findings"]}


def plain(text: str) -> bool:
    """Whether a terminal shows the text as it stands."""
    return all(character.isprintable() or character == "\n" for character in text)


# --- damaged files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["torch_et", "kineto_trace"])
def test_a_file_cut_off_between_two_objects_does_not_pass_as_whole(tmp_path: Path, kind: str) -> None:
    """What stood behind the cut is lost, as much as where the cut goes through an object."""
    lay(tmp_path)
    path = tmp_path / f"{kind}_0.json"
    text = path.read_text()
    last = text.rindex('"name": "after"')
    path.write_text(text[: text.rindex("},", 0, last) + 1])
    done = run("check", tmp_path, "--json")
    assert "truncated" in codes(done)
    assert done.returncode == 1


@pytest.mark.parametrize("kind", ["torch_et", "kineto_trace"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\x1f\x8bgarbage", b'{"nodes": [}'],
    ids=repr,
)
def test_a_file_that_is_no_trace_fails_the_check_and_costs_no_other_rank(
    tmp_path: Path, kind: str, content: bytes
) -> None:
    for rank in (0, 1):
        lay(tmp_path, rank, info={"world_size": 2})
    (tmp_path / f"{kind}_0.json").write_bytes(content)
    done = run("check", tmp_path, "--json")
    assert "rank-unreadable" in codes(done)
    assert done.returncode == 1
    assert [one["linked"] is None for one in json.loads(done.stdout)["ranks"]] == [True, False]


def test_two_files_that_changed_places_are_told(tmp_path: Path) -> None:
    lay(tmp_path)
    both = [tmp_path / f"{kind}_0.json" for kind in ("torch_et", "kineto_trace")]
    texts = [one.read_text() for one in both]
    for one, text in zip(both, reversed(texts), strict=True):
        one.write_text(text)
    done = run("check", tmp_path)
    assert done.returncode == 1
    assert "cannot be read: this is" in done.stdout


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x1f\x8b\x08garbage", b"\xff\xfe"], ids=repr)
def test_one_file_that_is_no_trace_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    done = run("check", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {path}: ")


# --- manifests --------------------------------------------------------------------------------------


def window(*files: Any) -> dict[str, Any]:
    return {"windows": [{"steps": [1], "complete": True, "files": list(files)}]}


HOSTILE: list[Any] = [
    [],
    "text",
    None,
    5,
    {},
    {"windows": 5},
    {"windows": None},
    {"windows": "abc"},
    {"windows": {"a": 1}},
    {"windows": [1, None, "x", []]},
    {"windows": [{"files": 5}]},
    {"windows": [{"files": None}]},
    {"windows": [{"files": {"path": "x"}}]},
    {"windows": [{"files": [5, None, "x"]}]},
    {"windows": [{"steps": 5, "complete": "yes", "failure": ["x"], "files": [{}]}]},
    window({}),
    window({"path": "../../../../../etc/passwd", "size_bytes": 1}),
    window({"path": "/", "size_bytes": 1}),
    window({"path": "", "size_bytes": 1}),
    window({"path": "x" * 5000, "size_bytes": 1}),
    window({"path": "a\0b", "size_bytes": 1}),
    window({"path": "\ud800", "size_bytes": 1}),
    window({"path": ["torch_et_0.json"], "size_bytes": 1}),
    window({"path": "torch_et_0.json", "size_bytes": "12"}),
    window({"path": "torch_et_0.json", "size_bytes": 10**30}),
    window({"path": "torch_et_0.json", "size_bytes": float("nan")}),
]


@pytest.mark.parametrize(
    ("told", "more"),
    [*((told, []) for told in HOSTILE), (HOSTILE[-1], ["--json"]), (HOSTILE[-1], ["--repair"])],
    ids=lambda value: json.dumps(value)[:60],
)
def test_a_hostile_manifest_ends_the_check_with_words_and_not_with_a_traceback(
    tmp_path: Path, told: Any, more: list[str]
) -> None:
    lay(tmp_path)
    (tmp_path / "manifest_0.json").write_text(json.dumps(told))
    done = run("check", tmp_path, *more)
    assert done.returncode in (0, 1)
    assert "manifest_0.json" in done.stdout + done.stderr
    assert plain(done.stdout + done.stderr)


# --- names that would steer a terminal ---------------------------------------------------------------

EVIL = "\x1b[2J\x1b]0;owned\x07\r\n\u202e[bold red]x[/bold red] [/] [link=http://a]b :fire:"
SHOWN = "[bold red]x[/bold red] [/] [link=http://a]b :fire:"


def test_names_of_ops_steer_no_terminal(tmp_path: Path) -> None:
    lay(tmp_path, events=[*EVENTS, ran(EVIL, 700, 5, 90, finished=False)])
    done = run("check", tmp_path)
    assert SHOWN in done.stdout
    assert plain(done.stdout)


def test_names_of_hosts_steer_no_terminal(tmp_path: Path) -> None:
    job = PlannedJob(2, [Host("a"), Host(EVIL, 10**9)])
    with job.step(1):
        job.collective()
    done = run("check", job.write(tmp_path))
    assert SHOWN in done.stdout
    assert plain(done.stdout)


def test_versions_and_what_manifests_say_steer_no_terminal(tmp_path: Path) -> None:
    lay(tmp_path)
    write(tmp_path / "torch_et_0.json", et_text(et_of(*NODES[1:-1]), schema=EVIL))
    failed = {"steps": [EVIL], "failure": EVIL, "files": [{"path": EVIL, "size_bytes": EVIL}]}
    early = {"steps": 1, "files": []}
    told = {"windows": [failed, early], "ended_by": EVIL, "steps_seen": EVIL}
    (tmp_path / "manifest_0.json").write_text(json.dumps(told))
    done = run("check", tmp_path)
    assert done.stdout.count(SHOWN) >= 4
    assert plain(done.stdout)


@pytest.mark.parametrize(
    "name", ["a\x1b[31m\n[bold]b[]", "[bold]", "a:fire:b", "x\\", "[link=http:]a"], ids=repr
)
def test_names_of_files_and_folders_steer_no_terminal(tmp_path: Path, name: str) -> None:
    folder = lay(tmp_path / name)
    (folder / "kineto_trace_0.json").rename(folder / f"{name}rank_0.pt.trace.json")
    done = run("check", folder)
    assert done.returncode == 0
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
    assert f"{shown}rank_0.pt.trace.json" in done.stdout
    assert plain(done.stdout)


@pytest.mark.full
@pytest.mark.parametrize("more", [[], ["--json"]], ids=str)
def test_a_folder_whose_name_is_no_text_is_checked(tmp_path: Path, more: list[str]) -> None:
    lay(tmp_path / "job")
    odd = tmp_path / os.fsdecode(b"job\xff")
    (tmp_path / "job").rename(odd)
    done = run_process("check", odd, *more)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
