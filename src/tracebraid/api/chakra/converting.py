"""ET+ to Chakra's `.et` files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tracebraid.chakra.wire.reading import rank_in_name
from tracebraid.chakra.wire.writing import write_rank
from tracebraid.errors import ArgumentError, InputError
from tracebraid.exporters.chakra.linked.convert import ConvertedRank, convert_rank
from tracebraid.exporters.chakra.linked.groups import (
    RankCommunication,
    communication_of,
    in_job,
    job_of,
    of_known_size,
    with_group_number,
)
from tracebraid.files import is_folder, refuse_inputs, whole_folder, write_whole
from tracebraid.importers.et_plus.reader import read_et_plus
from tracebraid.model.chakra.codes import Dialect
from tracebraid.model.chakra.converted import ConvertedChakra, ConvertedCounts
from tracebraid.model.finding import Finding

__all__ = ["convert_chakra"]

_NUMBER = re.compile(r"(\d{1,9})(?=\D*$)")
_COMM_GROUPS = "comm_groups.json"
_TRACE = re.compile(r".*\.json(\.gz|\.zst)?", re.I)


@dataclass(frozen=True)
class _File:
    rank: int
    world_rank: int
    path: str


def convert_chakra(
    paths: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    dialect: Dialect | str = Dialect.CHAKRA,
    prefix: str = "job",
    overwrite: bool = False,
    progress: Callable[[float], None] | None = None,
) -> ConvertedChakra:
    """Convert ET+ JSON, of Tracebraid, of Chakra's chakra_trace_link or of trace_link, to `.et` files.

    Args:
        paths: the file of a rank, those of several, or a folder of them; ranks are numbered from 0 in the order of
            the last numbers in the files' names.
        out: of one rank, the new file, such as `job.0.et`; of several, the new folder.
        dialect: "astra-sim": collectives that ASTRA-sim does not run become such as move the same bytes.
        prefix: of the files in the folder.
        overwrite: of one rank, whether a file that is there is replaced.
        progress: called with the share that is done, 0 to 1.

    Raises:
        InputError: a file cannot be read, or is no ET+.
        ArgumentError: there is no such dialect, two files have the same number, or the prefix is no name of a file.
        OutputError: the file or folder is there already, is the file that is read, or cannot be written.
        MissingLibraryError: protobuf or numba is not installed.

    Example:
        ``convert_chakra("et_plus_0.json", "job.0.et").counts``
    """
    names = [known.value for known in Dialect]
    if isinstance(dialect, str) and dialect not in names:
        raise ArgumentError(f"no dialect {dialect!r} is known; known: {', '.join(names)}")
    if not prefix or Path(prefix).name != prefix:
        raise ArgumentError(f"{prefix!r} is no prefix of a file's name: give one without a folder")
    files, target = _files(paths), Path(out)
    is_file = len(files) == 1 and not (isinstance(paths, str | Path) and is_folder(paths))
    if is_file and not is_folder(target):
        return _single_file(files[0], target, Dialect(dialect), overwrite)
    return _folder(_Steps(files, Dialect(dialect), progress), target, prefix)


def _files(paths: str | Path | Sequence[str | Path]) -> list[_File]:
    named = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if len(named) == 1 and is_folder(named[0]):
        folder = Path(named[0])
        named = sorted(str(path) for path in folder.iterdir() if _TRACE.fullmatch(path.name))
    if not named:
        raise InputError(str(paths), "it has no ET+ files", "Name the files that `tracebraid link` wrote")
    matches = [_NUMBER.search(Path(name).name) for name in named]
    numbers = [int(match[1]) if match else number for number, match in enumerate(matches)]
    if len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        both = [Path(name).name for name, number in zip(named, numbers, strict=True) if number == twice]
        raise ArgumentError(f"{both[0]} and {both[1]} are both of rank {twice}: name the files of one job")
    ordered = sorted(zip(numbers, named, strict=True))
    return [_File(rank, number, name) for rank, (number, name) in enumerate(ordered)]


def _single_file(file: _File, target: Path, dialect: Dialect, overwrite: bool) -> ConvertedChakra:
    refuse_inputs(target, [file.path])
    et_plus = read_et_plus(file.path)
    converted = of_known_size(convert_rank(et_plus, rank_in_name(target.name) or 0, dialect))
    write_rank(target, with_group_number(converted.rank), overwrite)
    return ConvertedChakra((target,), None, (converted.counts,), et_plus.findings)


@dataclass(frozen=True)
class _Steps:
    """Ranks are converted twice, so that only one is held: first for what they communicate, then to be written."""

    files: Sequence[_File]
    dialect: Dialect
    progress: Callable[[float], None] | None

    def communication(self) -> Iterator[RankCommunication]:
        for number, file in enumerate(self.files):
            et_plus = read_et_plus(file.path)
            converted = convert_rank(et_plus, file.rank, self.dialect)
            yield communication_of(converted, file.world_rank, et_plus.groups)
            self._report(number + 1)

    def ranks(self) -> Iterator[ConvertedRank]:
        for number, file in enumerate(self.files):
            yield convert_rank(read_et_plus(file.path), file.rank, self.dialect)
            self._report(len(self.files) + number + 1)

    def _report(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done / (2 * len(self.files)))


def _folder(steps: _Steps, target: Path, prefix: str) -> ConvertedChakra:
    job = job_of(list(steps.communication()))
    counts: list[ConvertedCounts] = []
    findings: list[Finding] = []
    names: list[str] = []
    with whole_folder(target) as folder:
        for converted in steps.ranks():
            written = in_job(converted, job)
            names.append(f"{prefix}.{written.rank.rank}.et")
            write_rank(folder / names[-1], written.rank)
            counts.append(written.counts)
            findings += written.rank.findings
        if job.members:
            _write_json(folder / _COMM_GROUPS, job.members)
    groups = target / _COMM_GROUPS if job.members else None
    return ConvertedChakra(tuple(target / name for name in names), groups, tuple(counts), tuple(findings))


def _write_json(path: Path, members: object) -> None:
    chunks: Iterable[bytes] = [msgspec.json.format(msgspec.json.encode(members)), b"\n"]
    write_whole(path, chunks, overwrite=False)
