"""A new folder for each run, the same one for all of its ranks."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tracebraid.errors import OutputError
from tracebraid.recorders.session.numbered import numbered_folder


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    return iter([monkeypatch])


def folder_of(parent: Path, rank: int) -> str:
    """The folder that a rank gets; it leaves a file there."""
    found = numbered_folder(parent, lambda: [parent / f"manifest_{rank}.json"])
    (found / f"manifest_{rank}.json").touch()
    return found.name


def test_each_run_of_a_single_process_has_a_folder_of_its_own(tmp_path: Path) -> None:
    assert [folder_of(tmp_path / "traces", 0) for _ in range(3)] == ["run_1", "run_2", "run_3"]
    assert sorted(path.name for path in (tmp_path / "traces").iterdir()) == ["run_1", "run_2", "run_3"]


def test_folders_that_are_gone_leave_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "run_7").mkdir()
    (tmp_path / "run_of_the_mill").mkdir()
    assert folder_of(tmp_path, 0) == "run_8"


def test_all_ranks_of_a_run_have_one_folder_and_the_next_run_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_PORT", "29500")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda rank: folder_of(tmp_path, rank), range(8))) == {"run_1"}
        # The next run has the same address.
        assert folder_of(tmp_path, 3) == "run_2"
        assert folder_of(tmp_path, 5) == "run_2"
        monkeypatch.setenv("MASTER_PORT", "29501")
        assert folder_of(tmp_path, 0) == "run_3"


def test_a_parent_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        numbered_folder(tmp_path / "file")
