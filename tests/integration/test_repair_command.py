"""`tracebraid check --repair`: what it changes, what it says of that, and that nothing is ever lost."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.builders import Json, et_text, node, write
from tests.golden.linked import load
from tests.integration.command import Done, run, run_process
from tests.misled import misled_copy, wrong_parents
from tests.unit.linking.made import et_of
from tests.unit.validation.made import EVENTS, NODES, lay, shuffled
from tracebraid.errors import OutputError

ET = "torch_et_0.json"


def repair(folder: Path, returncode: int = 0) -> Json:
    """What `check --repair --json` printed."""
    done = run("check", folder, "--repair", "--json")
    assert (done.returncode, done.stderr) == (returncode, "")
    return json.loads(done.stdout)


def content(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def parents(path: Path) -> dict[int, int]:
    return {one["id"]: one["ctrl_deps"] for one in json.loads(path.read_bytes())["nodes"]}


# --- what is said and done --------------------------------------------------------------------------


@pytest.mark.full
def test_wrong_parents_are_repaired_and_the_words_tell_what_changed(demo: Path, tmp_path: Path) -> None:
    misled = misled_copy(demo, tmp_path / "misled")
    job = Path(shutil.copytree(misled, tmp_path / "job"))
    done = run("check", job, "--repair")
    assert (done.returncode, done.stderr) == (0, "")
    first, second, *_, last = done.stdout.splitlines()
    nodes = [load(demo / f"torch_et_{rank}.json.gz")["nodes"] for rank in (0, 1)]
    changed = [f"{len(wrong_parents(one))} of {len(one):,} nodes" for one in nodes]
    assert first.startswith(f"{job / 'torch_et_0.json.gz'}: {changed[0]}")
    assert first.endswith("the original is torch_et_0.json.gz.orig")
    assert second.startswith(f"{job / 'torch_et_1.json.gz'}: {changed[1]}")
    assert last == f"{job}: it links, 99.9 % of 9,530 nodes; no problems found"
    for rank in (0, 1):
        name = f"torch_et_{rank}.json.gz"
        assert (job / f"{name}.orig").read_bytes() == (misled / name).read_bytes()
    before = content(job)
    again = run("check", job, "--repair")
    assert again.stdout.splitlines()[:2] == [
        f"{job / f'torch_et_{n}.json.gz'}: nothing to repair" for n in (0, 1)
    ]
    assert content(job) == before
    assert "parents-differ" not in run("check", job, "--json").stdout


def test_json_names_every_node_that_changed(tmp_path: Path) -> None:
    lay(tmp_path, nodes=[{**one, "ctrl_deps": 11} if one["id"] in (11, 13) else one for one in NODES])
    data = repair(tmp_path)
    expected = {"path": str(tmp_path / ET), "nodes": 6, "written": True, "changed": [11, 13], "left": []}
    assert data["repairs"] == [expected]
    assert data["findings"] == []
    assert parents(tmp_path / ET) == {1: 1, 10: 1001, 11: 10, 12: 11, 13: 10, 1001: 1}


def test_a_sound_capture_is_left_alone(tmp_path: Path) -> None:
    lay(tmp_path)
    before = content(tmp_path)
    assert f"{tmp_path / ET}: nothing to repair" in run("check", tmp_path, "--repair").stdout
    assert content(tmp_path) == before


def test_every_rank_of_every_window_is_repaired(tmp_path: Path) -> None:
    for number in (0, 1):
        for rank in (0, 1):
            lay(tmp_path / f"window_{number}", rank, nodes=shuffled(13, 11), info={"world_size": 2})
    assert [one["changed"] for one in repair(tmp_path)["repairs"]] == [[13]] * 4
    assert len(list(tmp_path.rglob("*.orig"))) == 4


def test_what_cannot_be_repaired_is_still_said(tmp_path: Path) -> None:
    lay(tmp_path, nodes=shuffled(13, 11), info={"world_size": 2})
    data = repair(tmp_path, 1)
    assert [one["code"] for one in data["findings"]] == ["rank-missing"]
    assert [one["changed"] for one in data["repairs"]] == [[13]]


def test_a_parent_that_was_never_written_is_repaired_and_no_longer_found(tmp_path: Path) -> None:
    nodes = et_of(node(10, "ProfilerStep#1", 1001), node(12, "inner", 1001, tracebraid_missing_parent=11))
    lay(tmp_path, nodes=nodes)
    assert "parent-never-written" in run("check", tmp_path, "--json").stdout
    assert repair(tmp_path)["findings"] == []
    assert parents(tmp_path / ET)[12] == 10


@pytest.mark.parametrize("name", [ET, "kineto_trace_0.json"])
def test_one_file_alone_cannot_be_repaired_and_is_not_touched(tmp_path: Path, name: str) -> None:
    lay(tmp_path, nodes=shuffled(13, 11))
    before = content(tmp_path)
    done = run("check", tmp_path / name, "--repair")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert content(tmp_path) == before


# --- manifests --------------------------------------------------------------------------------------


def tell(folder: Path, size_bytes: int | None = None) -> Path:
    """Write a manifest of the Execution Trace beside it, true but for the size where one is given."""
    size = (folder / ET).stat().st_size if size_bytes is None else size_bytes
    files = [{"path": ET, "size_bytes": size}, {"path": "kineto_trace_0.json", "size_bytes": 0}]
    files[1]["size_bytes"] = (folder / "kineto_trace_0.json").stat().st_size
    window = {"steps": [1], "complete": True, "failure": None, "files": files, "note": "é"}
    path = folder / "manifest_0.json"
    path.write_text(json.dumps({"schema": "x", "windows": [window], "more": {"a": 1}}, indent=2) + "\n")
    return path


def test_a_manifest_stays_true_and_says_that_a_file_was_repaired(tmp_path: Path) -> None:
    lay(tmp_path, nodes=shuffled(13, 11))
    manifest = tell(tmp_path)
    before = json.loads(manifest.read_bytes())
    assert repair(tmp_path)["findings"] == []
    after = json.loads(manifest.read_bytes())
    entry = after["windows"][0]["files"][0]
    assert entry == {"path": ET, "size_bytes": (tmp_path / ET).stat().st_size, "repaired": True}
    after["windows"][0]["files"][0] = before["windows"][0]["files"][0]
    assert after == before
    assert run("check", tmp_path).returncode == 0


def test_a_manifest_is_not_written_where_nothing_was_repaired(tmp_path: Path) -> None:
    lay(tmp_path)
    manifest = tell(tmp_path)
    manifest.write_text(json.dumps(json.loads(manifest.read_text())))
    before = content(tmp_path)
    repair(tmp_path)
    assert content(tmp_path) == before


def test_a_manifest_that_was_untrue_before_a_repair_is_so_after_it(tmp_path: Path) -> None:
    """Else a repair would hide that the file is not the one that was captured."""
    lay(tmp_path, nodes=shuffled(13, 11))
    tell(tmp_path, 5)
    assert run("check", tmp_path).returncode == 1
    assert "manifest-untrue" in [one["code"] for one in repair(tmp_path, 1)["findings"]]


def test_an_original_whose_repaired_file_is_gone_breaks_nothing(tmp_path: Path) -> None:
    for rank in (0, 1):
        lay(tmp_path, rank, nodes=shuffled(13, 11))
    tell(tmp_path)
    repair(tmp_path)
    (tmp_path / ET).unlink()
    done = run("check", tmp_path, "--repair")
    assert done.returncode == 1
    assert f"{ET} is missing" in done.stdout


# --- nothing is lost --------------------------------------------------------------------------------


def test_the_original_of_a_second_capture_is_kept_too(tmp_path: Path) -> None:
    """Captured again into the same folder: the file before the second repair is not that before the first one."""
    lay(tmp_path, nodes=shuffled(13, 11))
    repair(tmp_path)
    lay(tmp_path, nodes=[*shuffled(13, 12), node(14, "new", 10)])
    second = (tmp_path / ET).read_bytes()
    assert repair(tmp_path)["repairs"][0]["written"]
    assert [name for name, data in content(tmp_path).items() if data == second] != []


def test_a_file_that_an_interrupted_repair_left_behind_is_not_taken_for_the_trace(tmp_path: Path) -> None:
    lay(tmp_path)
    write(tmp_path / f".{ET}", et_text(et_of(node(50, "of another run", 1001))))
    before = (tmp_path / ET).read_bytes()
    done = run("check", tmp_path, "--repair")
    assert (tmp_path / ET).read_bytes() == before
    assert done.returncode == 0


def test_links_of_the_copy_s_name_are_not_followed(tmp_path: Path) -> None:
    job = lay(tmp_path / "job", nodes=shuffled(13, 11))
    outside = tmp_path / "outside"
    (job / f"{ET}.orig").symlink_to(outside)
    before = (job / ET).read_bytes()
    assert repair(job)["repairs"][0]["written"]
    assert not outside.exists()
    assert (job / f"{ET}.orig2").read_bytes() == before


def test_a_disk_that_fills_during_the_copy_leaves_the_trace_and_no_half_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path, nodes=shuffled(13, 11))
    before = content(tmp_path)

    def fill(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", fill)
    with pytest.raises(OutputError, match="No space left"):
        tracebraid.repair(tmp_path)
    assert content(tmp_path) == before


@pytest.mark.full
def test_of_two_repairs_at_once_none_loses_the_original(tmp_path: Path) -> None:
    nodes = shuffled(13, 11)
    lay(tmp_path, nodes=nodes)
    before = (tmp_path / ET).read_bytes()
    with ThreadPoolExecutor(2) as both:
        done = [*both.map(lambda _: run_process("check", tmp_path, "--repair"), range(2))]
    assert {one.returncode for one in done} <= {0, 1}
    assert 0 in {one.returncode for one in done}
    assert before in [path.read_bytes() for path in tmp_path.glob(f"{ET}.orig*")]
    assert parents(tmp_path / ET) == {1: 1, 10: 1001, 11: 10, 12: 11, 13: 10, 1001: 1}
    assert [*tmp_path.glob("*.part")] == []


DAMAGED: dict[str, Any] = {
    "ids twice": lambda text: text.replace('"id": 12', '"id": 13'),
    "cut off": lambda text: text[: text.rindex('"name": "after"')],
    "a node that is none": lambda text: text.replace('"id": 12', '"id": "x"'),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_a_repair_does_not_make_damage_disappear(tmp_path: Path, how: str) -> None:
    """What a repair leaves out of the new file, it says; and the capture links no better than before."""
    lay(tmp_path, nodes=shuffled(11, 1001))
    (tmp_path / ET).write_text(DAMAGED[how]((tmp_path / ET).read_text()))
    before = run("check", tmp_path, "--json")
    assert before.returncode == 1
    errors = {one["code"] for one in json.loads(before.stdout)["findings"] if one["severity"] == "error"}
    data = repair(tmp_path, 1)
    assert errors <= {one["code"] for one in data["findings"]}


def told_or_untouched(folder: Path, before: dict[str, bytes], done: Done) -> bool:
    changed = {name for name, data in content(folder).items() if before.get(name) != data}
    return not changed or "have another parent now" in done.stdout


@pytest.mark.parametrize("name", ["kineto_trace_1.json", "torch_et_1.json", "manifest_0.json"])
def test_what_cannot_be_read_keeps_no_repair_from_being_told(tmp_path: Path, name: str) -> None:
    for rank in (0, 1):
        lay(tmp_path, rank, nodes=shuffled(13, 11), info={"world_size": 2})
    (tmp_path / name).write_text("garbage")
    before = content(tmp_path)
    done = run("check", tmp_path, "--repair")
    assert done.returncode == 1
    assert name in done.stdout + done.stderr
    assert told_or_untouched(tmp_path, before, done)


def test_a_window_without_a_timeline_keeps_no_other_from_being_repaired(tmp_path: Path) -> None:
    lay(tmp_path / "window_0", nodes=shuffled(13, 11))
    lay(tmp_path / "window_1", events=None)
    before = content(tmp_path)
    done = run("check", tmp_path, "--repair")
    assert done.returncode == 1
    assert told_or_untouched(tmp_path, before, done)
    assert parents(tmp_path / "window_0" / ET)[13] == 10


def test_the_timeline_is_never_written(tmp_path: Path) -> None:
    lay(tmp_path, events=EVENTS, nodes=shuffled(13, 11))
    before = (tmp_path / "kineto_trace_0.json").read_bytes()
    repair(tmp_path)
    assert (tmp_path / "kineto_trace_0.json").read_bytes() == before
