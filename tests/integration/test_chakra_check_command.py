"""`tracebraid chakra check` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracebraid
from tests.chakra_ranks import collective, compute, rank_of
from tests.integration.command import fail, run, run_process
from tracebraid.chakra.wire.writing import write_rank
from tracebraid.model.chakra.lint_code import LintCode

_STEP = [compute(0, us=100), collective(1, 0, size=1 << 20), compute(2, 1, us=50)]


def job(folder: Path, *ranks: list[dict[str, object]]) -> Path:
    for number, nodes in enumerate(ranks):
        write_rank(folder / f"job.{number}.et", rank_of(number, nodes))
    return folder


def crossed(folder: Path) -> Path:
    groups = (("1", "2"), ("2", "1"))
    job(folder, *([collective(0, group=a), collective(1, 0, group=b)] for a, b in groups))
    (folder / "comm_group.json").write_text('{"1": [0, 1], "2": [0, 1]}')
    return folder


def test_a_sound_job_ends_with_0(tmp_path: Path) -> None:
    done = run_process("chakra", "check", job(tmp_path, _STEP, _STEP))
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 ranks, 6 nodes" in done.stdout


def test_warnings_end_with_0(tmp_path: Path) -> None:
    used = [collective(0, group="1")]
    done = run("chakra", "check", job(tmp_path, used, used))
    assert (done.returncode, str(LintCode.GROUPS_NOT_GIVEN) in done.stdout) == (0, True)


def test_a_deadlock_ends_with_1_and_names_the_nodes_as_json_too(tmp_path: Path) -> None:
    folder = crossed(tmp_path)
    done = run("chakra", "check", folder)
    assert (done.returncode, str(LintCode.DEADLOCK) in done.stdout) == (1, True)
    data = json.loads(run("chakra", "check", folder, "--json").stdout)
    (found,) = data["findings"]
    assert (found["code"], found["severity"], data["runs"]) == ("deadlock", "error", False)
    assert found["nodes"] == [{"rank": 0, "node_id": 0}, {"rank": 1, "node_id": 0}]


def test_a_single_file_is_checked_without_the_other_ranks(tmp_path: Path) -> None:
    folder = crossed(tmp_path)
    assert tracebraid.check_chakra(folder / "job.1.et").findings == ()
    assert not tracebraid.check_chakra(folder / "job").runs
    assert not tracebraid.check_chakra([folder / "job.0.et", folder / "job.1.et"]).runs


def test_a_file_that_is_cut_or_no_et_file_is_a_finding_and_the_others_are_checked(tmp_path: Path) -> None:
    folder = job(tmp_path, _STEP, _STEP, _STEP)
    whole = (folder / "job.1.et").read_bytes()
    (folder / "job.1.et").write_bytes(whole[: len(whole) // 2])
    (folder / "job.2.et").write_bytes(b"\x89PNG\r\n" * 50)
    check = tracebraid.check_chakra(folder)
    found = {finding.code: finding.path for finding in check.findings}
    assert found[LintCode.FILE_UNREADABLE] == str(folder / "job.2.et")
    assert found[LintCode.FILE_DAMAGED] == str(folder / "job.1.et")
    assert [rank.rank for rank in check.ranks] == [0, 1]
    assert not check.runs


def test_a_rank_with_two_files_is_found(tmp_path: Path) -> None:
    folder = job(tmp_path, _STEP, _STEP)
    write_rank(folder / "other.1.et", rank_of(1, _STEP))
    found = [finding.code for finding in tracebraid.check_chakra(folder).findings]
    assert found == [LintCode.RANK_TWICE]


def test_wrong_usage_is_an_error_that_says_what_is_wrong(tmp_path: Path) -> None:
    assert "no .et files" in fail("chakra", "check", tmp_path)
    assert "no such file" in fail("chakra", "check", tmp_path / "job")
    job(tmp_path, _STEP, _STEP)
    (tmp_path / "comm_group.json").write_text("[]")
    assert "comm_group.json" in fail("chakra", "check", tmp_path)
    assert run("chakra", "check", tmp_path, "--simulator", "gpgpu").returncode == 2
    with pytest.raises(tracebraid.ArgumentError):
        tracebraid.check_chakra(tmp_path, simulator="gpgpu")
