"""The `.et` files of a job: one for each rank, and the comm-group file beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from tracebraid.errors import ArgumentError, InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.interface import Kind
from tracebraid.filesystem.paths import joined, name_of, parent_of, shown

__all__ = ["ChakraJobFiles", "ChakraRankFile", "find_chakra_files", "read_comm_groups"]

_RANK_FILE = re.compile(r"(?P<prefix>.*?)\.?(?P<rank>\d{1,9})\.et(\.gz|\.zst)?", re.I | re.S)
_GROUP_FILE = re.compile(r".*comm[-_ ]?groups?.*\.json", re.I | re.S)
_GROUPS = dict[str, list[int]]


@dataclass(frozen=True)
class ChakraRankFile:
    """The file of a rank.

    Args:
        rank: the number in its name.
        path: of the file.
    """

    rank: int
    path: str


@dataclass(frozen=True)
class ChakraJobFiles:
    """The files of a job.

    Args:
        path: what was named: a folder, a prefix, or several files.
        files: by rank; a rank that is there twice stands there twice.
        groups_path: the comm-group file; "": there is none.
        is_job: whether these are all ranks of a job, and not a single file that was named.
    """

    path: str
    files: tuple[ChakraRankFile, ...]
    groups_path: str = ""
    is_job: bool = True


def find_chakra_files(paths: Sequence[str], comm_group: str | None = None) -> ChakraJobFiles:
    """The files of a job.

    Args:
        paths: a folder of `PREFIX.RANK.et`, such a prefix, or the files.
        comm_group: the comm-group file; None: the one in the folder of the files, if there is one.

    Raises:
        InputError: there is no such file, or its name has no rank.
        ArgumentError: the folder has several comm-group files.
    """
    if not paths:
        raise ArgumentError("no file is named: name a folder of .et files, or the files")
    named: list[str] = []
    for path in paths:
        named += _files_of(path)
    is_job = len(named) > 1 or named != list(paths)
    files = sorted((_rank_file(path, len(named)) for path in named), key=lambda file: (file.rank, file.path))
    groups = comm_group if comm_group is not None else _groups_beside(parent_of(files[0].path))
    where = shown(paths[0]) if len(paths) == 1 else f"{len(paths):,} files"
    return ChakraJobFiles(where, tuple(files), groups, is_job)


def read_comm_groups(path: str) -> Mapping[str, Sequence[int]]:
    """The ranks of each process group, as a comm-group file has them.

    Raises:
        InputError: it is not there, or is no such file.
    """
    file = file_system_of(path).open(path)
    try:
        return msgspec.json.decode(file.read(0, file.size_bytes), type=_GROUPS)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"this is no comm-group file: {error}"
        raise InputError(shown(path), problem, 'Name a file such as {"1": [0, 1], "2": [2, 3]}') from None


def _files_of(path: str) -> list[str]:
    """The files of a folder or prefix; a file is itself."""
    files = file_system_of(path)
    kind = files.kind(path)
    if kind is Kind.FOLDER:
        names = [entry.name for entry in files.entries(path) if entry.kind is Kind.FILE]
        found = [joined(path, name) for name in names if _RANK_FILE.fullmatch(name)]
        if not found:
            advice = "Name a folder of PREFIX.RANK.et, as `tracebraid export --to chakra` writes it"
            raise InputError(shown(path), "it has no .et files", advice)
        return found
    if kind is Kind.ABSENT:
        folder, prefix = parent_of(path), name_of(path)
        if file_system_of(folder).kind(folder) is Kind.FOLDER:
            matches = ((entry.name, _RANK_FILE.fullmatch(entry.name)) for entry in files.entries(folder))
            found = [joined(folder, name) for name, match in matches if match and match["prefix"] == prefix]
            if found:
                return found
        raise InputError(shown(path), "there is no such file", "Check the path")
    return [path]


def _rank_file(path: str, files: int) -> ChakraRankFile:
    match = _RANK_FILE.fullmatch(name_of(path))
    if match is None and files > 1:
        advice = "Name the files of a job PREFIX.RANK.et, such as job.0.et"
        raise InputError(shown(path), "its name has no rank", advice)
    return ChakraRankFile(int(match["rank"]) if match else 0, path)


def _groups_beside(folder: str) -> str:
    files = file_system_of(folder)
    if files.kind(folder) is not Kind.FOLDER:
        return ""
    names = [entry.name for entry in files.entries(folder) if entry.kind is Kind.FILE]
    found = [name for name in names if _GROUP_FILE.fullmatch(name)]
    if len(found) > 1:
        raise ArgumentError(
            f"{shown(folder)} has several comm-group files ({', '.join(found[:3])}): name one with --comm-group"
        )
    return joined(folder, found[0]) if found else ""
