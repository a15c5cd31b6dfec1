"""Is it said what a manifest tells of, and where it does not tell the truth?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.unit.validation.made import codes
from tracebraid.importers.discovery.capture_folder import size_beside
from tracebraid.model.finding import Finding
from tracebraid.validation.manifest import leftover_findings, manifest_findings

NAME = "torch_et_0.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(b"12345")
    return tmp_path


def sizes_in(folder: Path) -> Callable[[str], int | None]:
    """The sizes of the files beside a manifest, as `check` asks for them."""
    return partial(size_beside, str(folder / "manifest_0.json"))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def window(**more: Any) -> dict[str, Any]:
    """A window as a capture tells of it."""
    files = [{"path": NAME, "size_bytes": 5}]
    return {"steps": [7, 8, 9], "complete": True, "failure": None, "files": files, "findings": [], **more}


def found(folder: Path, *windows: Any, **more: Any) -> list[Finding]:
    told = {"steps_seen": 10, "ended_by": "exit", "windows": list(windows), **more}
    return manifest_findings(told, str(folder / "manifest_0.json"), sizes_in(folder))


def test_a_true_manifest_of_a_whole_window_has_nothing_to_say(folder: Path) -> None:
    assert found(folder, window()) == []


@pytest.mark.parametrize("windows", [[], [window(files=[])]], ids=["none", "empty"])
def test_a_run_that_recorded_nothing_is_an_error_with_its_number_of_steps(folder: Path, windows: Any) -> None:
    (one,) = found(folder, *windows)
    assert (one.code, one.message) == ("nothing-recorded", "nothing was recorded in 10 steps")
    assert one.path == str(folder / "manifest_0.json")


def test_one_window_with_files_is_something_recorded(folder: Path) -> None:
    assert found(folder, window(files=[]), window()) == []


def test_a_window_that_failed_is_lost_with_its_reason_and_is_not_called_incomplete_too(folder: Path) -> None:
    (one,) = found(folder, window(failure="the disk is full", complete=False))
    assert one.code == "window-lost"
    assert "steps [7, 8, 9]" in one.message
    assert "the disk is full" in one.message


def test_a_window_that_the_loop_left_early_is_incomplete_with_what_ended_it(folder: Path) -> None:
    (one,) = found(folder, window(complete=False), ended_by="SIGTERM")
    assert one.code == "window-incomplete"
    assert "(SIGTERM)" in one.message


@pytest.mark.parametrize("code", ["execution-trace-unfinished", "execution-trace-empty"])
def test_what_a_capture_lost_is_found_in_its_manifest_again(folder: Path, code: str) -> None:
    """The file itself was made whole, and shows nothing of it."""
    lost = {"code": code, "message": "ended early", "where": "byte 7", "count": 1, "file": NAME}
    (one,) = found(folder, window(findings=[lost]))
    assert (one.code, one.path, one.where) == (code, str(folder / NAME), "byte 7")
    assert one.message == lost["message"]


def test_what_a_capture_mended_is_not_said_again(folder: Path) -> None:
    mended = {"code": "name-escaped", "message": "x", "where": "", "count": 1, "file": NAME}
    assert found(folder, window(findings=[mended])) == []


@pytest.mark.parametrize("findings", [5, None, "abc", {"code": "x"}, [5, None, "x", {}], True], ids=str)
def test_findings_that_are_none_break_nothing(folder: Path, findings: Any) -> None:
    assert found(folder, window(findings=findings)) == []


def test_each_window_speaks_for_itself(folder: Path) -> None:
    windows = [window(), window(complete=False), window(failure="x")]
    assert codes(found(folder, *windows)) == ["window-incomplete", "window-lost"]


def test_a_file_that_is_not_there_is_named(folder: Path) -> None:
    (one,) = found(folder, window(files=[{"path": "gone.json", "size_bytes": 5}]))
    assert (one.code, one.message) == ("manifest-untrue", "gone.json is not there")


@pytest.mark.parametrize("size", [4, 6])
def test_a_file_of_another_size_is_told_with_both_sizes(folder: Path, size: int) -> None:
    (one,) = found(folder, window(files=[{"path": NAME, "size_bytes": size}]))
    assert (one.code, one.message) == ("manifest-untrue", f"{NAME} has 5 bytes, not {size}")


def test_files_of_windows_are_looked_for_in_their_folders(folder: Path) -> None:
    (folder / "window_1").mkdir()
    (folder / "window_1" / NAME).write_bytes(b"123")
    files = [{"path": f"window_1/{NAME}", "size_bytes": 3}, {"path": f"window_2/{NAME}", "size_bytes": 3}]
    assert [one.message for one in found(folder, window(files=files))] == [f"window_2/{NAME} is not there"]


@pytest.mark.parametrize(
    "windows",
    [5, None, "abc", {"a": 1}, [1, None, "x"], [[]], True],
    ids=str,
)
def test_windows_that_are_no_windows_break_nothing(folder: Path, windows: Any) -> None:
    told = manifest_findings({"windows": windows}, str(folder / "manifest_0.json"), sizes_in(folder))
    assert "nothing-recorded" in codes(told)


@pytest.mark.parametrize("files", [5, None, "abc", {"path": NAME}, [5, None, "x"], True], ids=str)
def test_files_that_are_no_files_break_nothing(folder: Path, files: Any) -> None:
    told = found(folder, window(), window(files=files))
    assert set(codes(told)) <= {"manifest-untrue", "nothing-recorded"}


@pytest.mark.parametrize(
    "path",
    [None, "", "/", "..", 5, ["a"], "a\0b", "x" * 5000, "a/" * 3000, "\ud800", "torch_et_0.json/below"],
    ids=lambda path: str(path)[:12].encode("ascii", "backslashreplace").decode(),
)
def test_a_path_that_is_no_file_beside_the_manifest_is_not_there(folder: Path, path: Any) -> None:
    assert codes(found(folder, window(files=[{"path": path, "size_bytes": 5}]))) == ["manifest-untrue"]


@pytest.mark.parametrize("path", ["../outside.json", "/etc/passwd", "window_1/../../outside.json"])
def test_a_path_that_leads_out_of_the_folder_is_untrue_whatever_lies_there(folder: Path, path: str) -> None:
    """Captures are handed around: a manifest must not ask about the files of whoever checks it."""
    inside = folder / "capture"
    (inside / "window_1").mkdir(parents=True)
    (folder / "outside.json").write_bytes(b"12345")
    size = Path("/etc/passwd").stat().st_size if path.startswith("/") else 5
    told = manifest_findings(
        {"windows": [window(files=[{"path": path, "size_bytes": size}])]},
        str(inside / "manifest_0.json"),
        sizes_in(inside),
    )
    assert codes(told) == ["manifest-untrue"]


def test_a_size_that_is_text_is_untrue_in_words_that_do_not_contradict_themselves(folder: Path) -> None:
    (one,) = found(folder, window(files=[{"path": NAME, "size_bytes": "5"}]))
    assert one.code == "manifest-untrue"
    assert "5 bytes, not 5" not in one.message


def test_files_that_a_killed_process_left_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    assert leftover_findings(str(tmp_path), names_in(tmp_path)) == []
    for name in (
        ".torch_et_1.json.gz.77-ab.whole.part",
        ".kineto_trace_1.json.77-ab.recording.json",
        "mine.part",
    ):
        (tmp_path / name).write_bytes(b"1")
    (one,) = leftover_findings(str(tmp_path), names_in(tmp_path))
    assert (one.code, one.count) == ("part-left", 2)
    assert one.path == str(tmp_path / ".kineto_trace_1.json.77-ab.recording.json")
