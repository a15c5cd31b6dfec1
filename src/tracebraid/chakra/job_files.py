"""The `.et` files of a job: one for each rank, and the comm-group file beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tracebraid.errors import ArgumentError, InputError
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.interface import Kind
from tracebraid.filesystem.paths import joined, name_of, parent_of, shown, text_of

_RANK_FILE = re.compile(r"(?P<prefix>.*?)\.?(?P<rank>\d{1,9})\.et(\.gz|\.zst)?", re.I | re.S)
COMM_GROUPS = "comm_groups.json"
"""Name of the file of process groups beside the ranks' files."""
_GROUP_FILE = re.compile(r".*comm[-_ ]?groups?.*\.json", re.I | re.S)
_GROUPS = dict[str, list[int]]


class ChakraRankFile(Struct, frozen=True):
    """The file of a rank.

    Args:
        rank: the number in its name.
        path: of the file.
    """

    rank: int
    path: str


class ChakraJobFiles(Struct, frozen=True):
    """The files of a job.

    Args:
        path: the given folder, prefix, or files.
        files: by rank; a rank that exists twice stands there twice.
        groups_path: the comm-group file; "": none.
        is_job: whether these are all ranks of a job, and not a single file that was named.
    """

    path: str
    files: tuple[ChakraRankFile, ...]
    groups_path: str = ""
    is_job: bool = True


def find_chakra_files(
    paths: str | Path | Sequence[str | Path], comm_group: str | Path | None = None
) -> ChakraJobFiles:
    """Find the files of a job and, unless it is named, the comm-group file beside them; "" for none.

    Beside `PREFIX.RANK.et` that is the JSON file with `comm_group` in its name, else `PREFIX.json` with groups in it.
    """
    given = [text_of(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not given:
        raise ArgumentError("no file is given: name a folder of .et files, or the files")
    named = [file for path in given for file in _files_of(path)]
    is_job = len(named) > 1 or named != given
    files = sorted((_rank_file(path, len(named)) for path in named), key=lambda file: (file.rank, file.path))
    groups = text_of(comm_group) if comm_group is not None else _groups_beside([file.path for file in files])
    where = shown(given[0]) if len(given) == 1 else f"{len(given):,} files"
    return ChakraJobFiles(where, tuple(files), groups, is_job)


def _holds_groups(path: str) -> bool:
    """Return whether a file has what a comm-group file has: ranks of groups with numbers."""
    try:
        groups = read_comm_groups(path)
    except InputError:
        return False
    return bool(groups) and all(name.isdecimal() for name in groups)


def check_prefix(prefix: str) -> None:
    """Reject a prefix of the files of a job that is no plain name."""
    if not prefix or Path(prefix).name != prefix:
        raise ArgumentError(f"{prefix!r} is no prefix of a file's name: give one without a folder")


def read_comm_groups(path: str) -> Mapping[str, Sequence[int]]:
    """The ranks of each process group, as a comm-group file has them."""
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


def _groups_beside(paths: Sequence[str]) -> str:
    """The comm-group file in the folder of a job's files, by its name, or of their prefix as STAGE names it."""
    folder = parent_of(paths[0])
    files = file_system_of(folder)
    if files.kind(folder) is not Kind.FOLDER:
        return ""
    matches = (_RANK_FILE.fullmatch(name_of(path)) for path in paths)
    of_prefix = {f"{match['prefix']}.json" for match in matches if match}
    names = [entry.name for entry in files.entries(folder) if entry.kind is Kind.FILE]
    found = [name for name in names if _GROUP_FILE.fullmatch(name)]
    found = found or [name for name in names if name in of_prefix and _holds_groups(joined(folder, name))]
    if len(found) > 1:
        raise ArgumentError(
            f"{shown(folder)} has several comm-group files ({', '.join(found[:3])}): name one with --comm-group"
        )
    return joined(folder, found[0]) if found else ""
