"""The `.et` files of a job, and its comm-group file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracebraid.chakra.job_files import find_chakra_files, read_comm_groups
from tracebraid.errors import ArgumentError, InputError


def folder_of(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).write_bytes(b"")
    return str(folder)


def ranks(*paths: str) -> list[tuple[int, str]]:
    return [(file.rank, Path(file.path).name) for file in find_chakra_files(paths).files]


def test_the_files_of_a_folder_are_those_of_ranks_in_the_order_of_numbers(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "job.10.et", "job.2.et", "job.0.et.gz", "notes.txt", "job.et.log")
    assert ranks(folder) == [(0, "job.0.et.gz"), (2, "job.2.et"), (10, "job.10.et")]


def test_a_prefix_names_the_files_of_its_job_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "a.0.et", "a.1.et", "b.0.et")
    assert ranks(f"{folder}/a") == [(0, "a.0.et"), (1, "a.1.et")]
    assert find_chakra_files([f"{folder}/a"]).is_job


def test_a_single_file_is_no_job_and_needs_no_rank_in_its_name(tmp_path: Path) -> None:
    folder_of(tmp_path, "rank.et")
    found = find_chakra_files([str(tmp_path / "rank.et")])
    assert ([file.rank for file in found.files], found.is_job) == ([0], False)


@pytest.mark.parametrize("name", ["nothing", "job", "job.0.et"])
def test_what_is_not_there_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    folder_of(tmp_path, "other.0.et")
    with pytest.raises(InputError) as raised:
        find_chakra_files([str(tmp_path / name)])
    assert raised.value.path == str(tmp_path / name)


def test_a_folder_without_files_and_a_name_without_rank_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        find_chakra_files([folder_of(tmp_path, "x.json")])
    with pytest.raises(InputError):
        find_chakra_files([str(tmp_path / name) for name in ("a.et", "x.json")])


def test_the_comm_group_file_is_the_one_of_the_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "job.0.et", "comm_group.json", "network.json")
    assert find_chakra_files([folder]).groups_path == str(tmp_path / "comm_group.json")
    assert find_chakra_files([folder], "other.json").groups_path == "other.json"
    folder_of(tmp_path, "job.comm_groups.json")
    with pytest.raises(ArgumentError):
        find_chakra_files([folder])


@pytest.mark.parametrize("text", ["", "[1]", '{"1": "all"}', '{"1": [0, "b"]}', '{"1": [0,', b"\xff\xfe{"])
def test_a_comm_group_file_of_another_kind_is_an_error(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "comm_group.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError):
        read_comm_groups(str(path))


def test_comm_groups_are_read(tmp_path: Path) -> None:
    path = tmp_path / "comm_group.json"
    path.write_text('{"1": [0, 1], "2": []}')
    assert read_comm_groups(str(path)) == {"1": [0, 1], "2": []}
