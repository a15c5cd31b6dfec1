"""`tracebraid check` on damaged files, hostile manifests and hostile names: each is told, none breaks anything."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.builders import et_text, kineto_text, node, write
from tests.integration.command import Done, run, run_process
from tests.planted import Host, PlannedJob
from tests.unit.linking.made import et_of
from tests.unit.validation.made import EVENTS, NODES, lay, ran


def codes(done: Done) -> set[str]:
    """The codes in what `check --json` printed."""
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
    return {one["code"] for one in json.loads(done.stdout)["findings"]}


def plain(text: str) -> bool:
    """Whether a terminal shows the text as it stands."""
    return all(character.isprintable() or character == "\n" for character in text)


# --- damaged files ----------------------------------------------------------------------------------

MANY = [ran(f"op{i}", 10 * i, 5, 100 + i) for i in range(3000)]


def test_a_cut_gzip_is_an_error_and_the_rest_is_checked(tmp_path: Path) -> None:
    lay(tmp_path, nodes=[*NODES, *(node(100 + i, f"op{i}", 1001) for i in range(3000))], events=None)
    whole = gzip.compress(kineto_text([*EVENTS, *MANY]).encode())
    (tmp_path / "kineto_trace_0.json.gz").write_bytes(whole[: len(whole) // 2])
    done = run_process("check", tmp_path, "--json")
    assert done.returncode == 1
    assert done.stderr == ""
    assert "compression-damaged" in codes(done)
    assert json.loads(done.stdout)["ranks"][0]["linked"]["host_ops"]["linked"] > 500


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
    [
        b"",
        b"garbage",
        b"\x1f\x8b",
        b"\x1f\x8bgarbage",
        b"\x00" * 100,
        b"{}",
        b"[]",
        b"[" * 100_000,
        b'{"nodes": [}',
    ],
    ids=lambda content: repr(content[:12]),
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


def test_a_missing_rank_is_named(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        lay(tmp_path, rank, info={"world_size": 4})
    done = run_process("check", tmp_path)
    assert done.returncode == 1
    assert "of 4 ranks, 1 are missing: 2" in done.stdout
    assert done.stderr == ""


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


@pytest.mark.parametrize("more", [[], ["--json"], ["--repair"]], ids=str)
@pytest.mark.parametrize("told", HOSTILE, ids=lambda told: json.dumps(told)[:60])
def test_a_hostile_manifest_ends_the_check_with_words_and_not_with_a_traceback(
    tmp_path: Path, told: Any, more: list[str]
) -> None:
    lay(tmp_path)
    (tmp_path / "manifest_0.json").write_text(json.dumps(told))
    done = run("check", tmp_path, *more)
    assert done.returncode in (0, 1)
    assert "manifest_0.json" in done.stdout + done.stderr
    assert plain(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"9" * 5000], ids=lambda b: repr(b[:5])
)
def test_a_manifest_that_is_no_json_is_told_without_a_traceback(tmp_path: Path, content: bytes) -> None:
    lay(tmp_path)
    (tmp_path / "manifest_0.json").write_bytes(content)
    done = run_process("check", tmp_path)
    assert "manifest_0.json" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_manifest_of_nothing_but_brackets_that_go_deep_is_told(tmp_path: Path) -> None:
    lay(tmp_path)
    (tmp_path / "manifest_0.json").write_text('{"a":' * 50_000)
    assert "manifest_0.json" in "".join(run("check", tmp_path)[1:])


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


@pytest.mark.parametrize("more", [[], ["--json"], ["--repair"]], ids=str)
def test_a_folder_whose_name_is_no_text_is_checked(tmp_path: Path, more: list[str]) -> None:
    lay(tmp_path / "job")
    odd = tmp_path / os.fsdecode(b"job\xff")
    (tmp_path / "job").rename(odd)
    done = run_process("check", odd, *more)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
