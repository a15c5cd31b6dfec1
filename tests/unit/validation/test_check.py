"""Does a check look at everything: both files of each rank, all ranks, all windows, and what manifests say?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracebraid
from tests.builders import Json, node
from tests.unit.linking.made import et_of
from tests.unit.validation.made import EVENTS, NODES, codes, diagnosis, lay, ran, shuffled, step
from tracebraid import check
from tracebraid.errors import InputError
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode, Severity
from tracebraid.validation.advice import diagnose, without_consequences


def tell(folder: Path, rank: int = 0, **more: object) -> None:
    """Write a true manifest of one whole window over all traces below the folder."""
    files = [one for one in sorted(folder.rglob("*.json")) if not one.name.startswith("manifest")]
    entries = [{"path": str(one.relative_to(folder)), "size_bytes": one.stat().st_size} for one in files]
    window = {"steps": [1], "complete": True, "failure": None, "files": entries, **more}
    told = {"steps_seen": 2, "ended_by": "exit", "windows": [window]}
    (folder / f"manifest_{rank}.json").write_text(json.dumps(told))


def test_different_worlds_are_found_once_and_in_a_file(tmp_path: Path) -> None:
    for rank in (0, 1):
        lay(tmp_path, rank, info={"world_size": 2 + rank})
    found = [one.finding for one in check(tmp_path).diagnoses]
    (worlds,) = [finding for finding in found if finding.code is FindingCode.WORLD_DIFFERS]
    assert worlds.path.endswith(".json")
    (missing,) = [finding for finding in found if finding.code is FindingCode.RANK_MISSING]
    assert (missing.count, missing.details["missing"]) == (1, 1)


# --- one window -------------------------------------------------------------------------------------


def test_a_sound_capture_links_and_nothing_is_found(tmp_path: Path) -> None:
    for rank in (0, 1):
        lay(tmp_path, rank, info={"world_size": 2})
    tell(tmp_path)
    checked = check(tmp_path)
    assert checked.links
    assert checked.diagnoses == ()
    assert [(one.rank, one.window, one.steps) for one in checked.ranks] == [
        (0, "", ("ProfilerStep#1",)),
        (1, "", ("ProfilerStep#1",)),
    ]
    assert {Path(one.et or "").name for one in checked.ranks} == {"torch_et_0.json", "torch_et_1.json"}
    assert all(one.coverage is not None and one.coverage.share == 1.0 for one in checked.ranks)


def test_further_processes_of_a_rank_are_checked_and_said_to_be_there(tmp_path: Path) -> None:
    folders = [tmp_path, *(tmp_path / f"process_{number}" for number in (2, 10))]
    for folder in folders:
        folder.mkdir(exist_ok=True)
        tell(lay(folder))
    checked = check(tmp_path)
    assert [one.window for one in checked.ranks] == ["", "process_2", "process_10"]
    assert codes(checked) == ["process-chosen"]
    (chosen,) = tracebraid.open(tmp_path).findings
    assert (chosen.details["processes"], chosen.details["names"]) == (3, "process_2, process_10")
    assert not tracebraid.open(folders[1]).findings
    (folders[2] / "torch_et_0.json").write_text("no trace")
    assert not check(tmp_path).links


def test_a_first_process_without_traces_does_not_hide_the_others(tmp_path: Path) -> None:
    tell(tmp_path)
    for number in (1, 2):
        folder = tmp_path / f"process_{number}"
        folder.mkdir()
        tell(lay(folder))
    checked = check(tmp_path)
    assert [one.window for one in checked.ranks] == ["process_1", "process_2"]
    assert codes(checked) == ["nothing-recorded"]


def test_warnings_and_notes_do_not_keep_a_capture_from_linking(tmp_path: Path) -> None:
    checked = check(lay(tmp_path, events=EVENTS[1:], nodes=shuffled(13, 11)))
    assert codes(checked) == ["parents-differ", "no-steps"]
    assert [one.severity for one in checked.diagnoses] == [Severity.WARNING, Severity.NOTE]
    assert checked.links


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ([*NODES, node(13, "again", 10)], "duplicate-id"),
        (shuffled(12, 404), "parent-missing"),
        (
            et_of(node(10, "ProfilerStep#1", 1001), node(11, "outer", 12), node(12, "inner", 11)),
            "parent-cycle",
        ),
        (shuffled(13, 11), "parents-differ"),
    ],
)
def test_faults_of_the_tree_are_found_and_located(tmp_path: Path, nodes: list[Json], code: str) -> None:
    one = diagnosis(check(lay(tmp_path, nodes=nodes)), code)
    assert one.finding.path == str(tmp_path / "torch_et_0.json")
    assert one.finding.where.startswith("node")
    assert one.advice


def test_a_rank_of_the_world_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    checked = check(lay(tmp_path, info={"world_size": 2}))
    assert codes(checked) == ["rank-missing"]
    assert not checked.links


def test_a_rank_with_one_of_its_two_files_is_an_error(tmp_path: Path) -> None:
    lay(lay(lay(tmp_path, 0), 1, nodes=None), 2, events=None)
    checked = check(tmp_path)
    assert codes(checked) == ["no-kineto", "no-et"]
    assert [(one.rank, one.et is not None, one.kineto is not None) for one in checked.ranks] == [
        (0, True, True),
        (1, False, True),
        (2, True, False),
    ]
    assert checked.ranks[2].coverage is None


def test_a_rank_with_an_execution_trace_alone_is_not_missing_too(tmp_path: Path) -> None:
    lay(lay(tmp_path, 0, info={"world_size": 2}), 1, events=None)
    assert codes(check(tmp_path)) == ["no-kineto"]


def test_timelines_alone_need_no_execution_trace(tmp_path: Path) -> None:
    assert codes(check(lay(tmp_path, nodes=None))) == []


def test_a_rank_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    for rank in (0, 1):
        lay(tmp_path, rank, info={"world_size": 2})
    (tmp_path / "kineto_trace_1.json").write_text("no trace")
    checked = check(tmp_path)
    one = diagnosis(checked, "rank-unreadable")
    assert one.finding.path == str(tmp_path / "kineto_trace_1.json")
    assert one.severity is Severity.ERROR
    assert checked.ranks[0].coverage is not None
    assert checked.ranks[1].coverage is None


def test_ranks_of_other_steps_or_other_times_are_found(tmp_path: Path) -> None:
    lay(tmp_path / "steps", 0, nodes=None)
    lay(tmp_path / "steps", 1, [step(2)], None)
    assert codes(check(tmp_path / "steps")) == ["steps-differ"]
    lay(tmp_path / "times", 0, nodes=None)
    lay(tmp_path / "times", 1, [step(1, 5000)], None)
    assert codes(check(tmp_path / "times")) == ["clocks-differ"]


def test_files_of_another_rank_than_their_names_say_are_found(tmp_path: Path) -> None:
    lay(tmp_path)
    (tmp_path / "torch_et_0.json").rename(tmp_path / "torch_et_3.json")
    (tmp_path / "kineto_trace_0.json").rename(tmp_path / "kineto_trace_3.json")
    assert set(codes(check(tmp_path))) == {"ranks-differ"}


# --- several windows --------------------------------------------------------------------------------


def test_windows_are_checked_each_for_itself_and_by_number(tmp_path: Path) -> None:
    for number in (10, 9):
        lay(tmp_path / f"window_{number}", info={"world_size": 1})
    lay(tmp_path / "window_2", events=[step(4)], nodes=None)
    checked = check(tmp_path)
    assert [one.window for one in checked.ranks] == ["window_2", "window_9", "window_10"]
    assert checked.diagnoses == ()


def test_a_rank_that_is_missing_from_one_window_is_missed_there(tmp_path: Path) -> None:
    for number, ranks in ((0, (0, 1)), (1, (0,))):
        for rank in ranks:
            lay(tmp_path / f"window_{number}", rank, info={"world_size": 2})
    assert diagnosis(check(tmp_path), "rank-missing").finding.path == str(tmp_path / "window_1")


@pytest.mark.parametrize("name", ["window_", "window_x", "window_1x", "windows", "my_window_1"])
def test_folders_with_other_names_are_no_windows(tmp_path: Path, name: str) -> None:
    lay(tmp_path)
    lay(tmp_path / name, events=[step(1)])
    assert [one.window for one in check(tmp_path).ranks] == [""]


def test_traces_beside_windows_are_not_passed_over_in_silence(tmp_path: Path) -> None:
    """Two runs in one folder, the later one of several windows."""
    lay(tmp_path, nodes=et_of(node(50, "other", 1001)))
    lay(tmp_path / "window_0")
    checked = check(tmp_path)
    assert checked.diagnoses or "" in [one.window for one in checked.ranks]


@pytest.mark.parametrize("name", ["window_1", ""])
def test_execution_traces_without_any_timeline_do_not_link(tmp_path: Path, name: str) -> None:
    """Whether a manifest is there or not: nothing in it links."""
    lay(tmp_path / "window_0")
    folder = tmp_path if name else tmp_path / "alone"
    lay(folder / name, events=None)
    tell(folder)
    assert not check(folder).links


def test_a_window_without_any_trace_is_said(tmp_path: Path) -> None:
    lay(tmp_path / "window_0")
    (tmp_path / "window_1").mkdir()
    tell(tmp_path)
    assert check(tmp_path).diagnoses


# --- manifests --------------------------------------------------------------------------------------


def test_what_manifests_say_is_found(tmp_path: Path) -> None:
    lay(tmp_path)
    tell(tmp_path, complete=False)
    assert codes(check(tmp_path)) == ["window-incomplete"]


def test_a_manifest_without_any_trace_is_checked_for_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "manifest_0.json").write_text('{"steps_seen": 3, "windows": []}')
    checked = check(tmp_path)
    assert codes(checked) == ["nothing-recorded"]
    assert "in 3 steps" in checked.diagnoses[0].finding.message
    assert checked.ranks == ()


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "5", '"x"', "[" * 100_000, "9" * 5000, "\xff"])
def test_a_manifest_that_is_none_is_said(tmp_path: Path, content: str) -> None:
    lay(tmp_path)
    (tmp_path / "manifest_0.json").write_bytes(content.encode("latin-1"))
    try:
        said = [str(one.finding) for one in check(tmp_path).diagnoses]
    except InputError as error:
        said = [str(error)]
    assert [one.startswith(str(tmp_path / "manifest_0.json")) for one in said] == [True]


# --- one rank, one file -----------------------------------------------------------------------------


def test_of_one_rank_alone_nothing_is_said_of_the_others(tmp_path: Path) -> None:
    lay(tmp_path, 0, info={"world_size": 4})
    lay(tmp_path, 1, nodes=shuffled(13, 11), info={"world_size": 4})
    tell(tmp_path, 1, complete=False)
    checked = check(tmp_path, only_rank=0)
    assert [one.rank for one in checked.ranks] == [0]
    assert checked.diagnoses == ()
    assert codes(check(tmp_path, only_rank=1)) == ["window-incomplete", "parents-differ"]


def test_one_rank_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    lay(tmp_path)
    with pytest.raises(InputError, match="7"):
        check(tmp_path, only_rank=7)


def test_a_timeline_on_its_own_is_checked_for_itself(tmp_path: Path) -> None:
    lay(tmp_path, 1, [step(1), ran("open", 5, 9, 3, finished=False)], info={"world_size": 2})
    checked = check(tmp_path / "kineto_trace_1.json")
    assert codes(checked) == ["op-unfinished"]
    assert [(one.rank, one.et) for one in checked.ranks] == [(1, None)]


def test_an_execution_trace_on_its_own_is_checked_for_itself(tmp_path: Path) -> None:
    lay(tmp_path, events=None, nodes=shuffled(12, 404))
    checked = check(tmp_path / "torch_et_0.json")
    assert codes(checked) == ["parent-missing"]
    assert checked.ranks == ()


def test_ids_that_are_all_zero_are_found_in_an_execution_trace_on_its_own(tmp_path: Path) -> None:
    lay(tmp_path, events=None, nodes=et_of(node(11, "outer", 1001, rf_id=0)))
    assert codes(check(tmp_path / "torch_et_0.json")) == ["et-without-ids"]


def test_parents_never_written_are_found_in_an_execution_trace_on_its_own(tmp_path: Path) -> None:
    lay(tmp_path, events=None, nodes=et_of(node(11, "outer", 1001, tracebraid_missing_parent=7)))
    assert codes(check(tmp_path / "torch_et_0.json")) == ["parent-never-written"]


@pytest.mark.parametrize("name", ["missing", "missing.json"])
def test_what_is_not_there_is_one_clear_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="no such file"):
        check(tmp_path / name)


def test_a_folder_without_anything_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trace in it"):
        check(tmp_path)


def test_a_window_that_holds_nothing_after_others_is_no_fault(tmp_path: Path) -> None:
    """The program ended, by a signal or by itself, while the profiler warmed up for it."""
    lay(tmp_path / "window_0")
    (tmp_path / "window_1").mkdir()
    found = check(tmp_path)
    assert "window-empty" in codes(found)
    assert diagnosis(found, "window-empty").severity is Severity.NOTE
    assert "window-unreadable" not in codes(found)


# --- Has every finding its weight and its advice -----------------------------------------------------


def test_advice_is_one_line_that_ends_without_a_full_stop() -> None:
    odd = [
        code for code in FindingCode if not code.advice or "\n" in code.advice or code.advice.endswith(".")
    ]
    assert odd == []


def test_errors_come_first_and_then_warnings_each_in_its_order() -> None:
    found = [
        Finding(FindingCode.of(code))
        for code in ("no-steps", "parents-differ", "no-overlap", "base-time", "no-et")
    ]
    assert [one.finding.code for one in diagnose(found)] == [
        "no-overlap",
        "no-et",
        "parents-differ",
        "base-time",
        "no-steps",
    ]


def test_nothing_found_is_nothing_diagnosed() -> None:
    assert diagnose([]) == ()


# --- One fault is one finding ------------------------------------------------------------------------


CUT = [
    Finding(FindingCode.COMPRESSION_DAMAGED, "d/kineto_0", "byte 9"),
    Finding(FindingCode.TRUNCATED, "d/kineto_0", "byte 9"),
    Finding(FindingCode.EVENT_UNREADABLE, "d/kineto_0", "byte 8"),
    Finding(FindingCode.MANIFEST_UNTRUE, "d/manifest_0", "kineto_0"),
    Finding(FindingCode.STEPS_DIFFER, "d"),
]


def faults(findings: list[Finding]) -> list[str]:
    return [one.code for one in without_consequences(findings)]


def test_a_file_that_is_cut_off_is_one_fault() -> None:
    assert faults(CUT) == ["compression-damaged"]
    assert faults(CUT[1:]) == ["truncated"]


@pytest.mark.parametrize("finding", CUT[1:], ids=lambda one: one.code)
def test_each_of_them_on_its_own_is_a_fault(finding: Finding) -> None:
    assert without_consequences([finding]) == [finding]


def test_what_is_wrong_elsewhere_or_more_than_once_is_another_fault() -> None:
    others = [
        Finding(FindingCode.TRUNCATED, "d/kineto_1", "byte 9"),
        Finding(FindingCode.MANIFEST_UNTRUE, "d/manifest_0", "torch_et_0"),
        Finding(FindingCode.STEPS_DIFFER, "e"),
        Finding(FindingCode.EVENT_UNREADABLE, "d/kineto_0", "bytes 3, 8", 2),
        Finding(FindingCode.PARENT_MISSING, "d/kineto_0"),
    ]
    assert without_consequences([CUT[0], *others]) == [CUT[0], *others]


def test_the_same_finding_is_there_once() -> None:
    assert without_consequences([CUT[0], CUT[1], CUT[0]]) == [CUT[0]]


def test_a_window_that_is_lost_says_that_nothing_was_recorded() -> None:
    lost = Finding(FindingCode.WINDOW_LOST, "d/manifest_0")
    assert faults([Finding(FindingCode.NOTHING_RECORDED, "d/manifest_0"), lost]) == ["window-lost"]
