"""Checks of Chakra's `.et` files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tracebraid.chakra.checking.check_job import JobFacts, check_job
from tracebraid.chakra.checking.rank_facts import RankFacts, rank_facts
from tracebraid.chakra.job_files import ChakraJobFiles, ChakraRankFile, find_chakra_files, read_comm_groups
from tracebraid.chakra.wire.reading import read_rank
from tracebraid.errors import ArgumentError, InputError
from tracebraid.filesystem.paths import shown, text_of
from tracebraid.model.chakra.lint import ChakraCheck, LintFinding
from tracebraid.model.chakra.lint_code import LintCode, Simulator
from tracebraid.model.printable import printable

__all__ = ["check_chakra"]


def check_chakra(
    paths: str | Path | Sequence[str | Path],
    *,
    comm_group: str | Path | None = None,
    simulator: Simulator | str | None = None,
    progress: Callable[[float], None] | None = None,
) -> ChakraCheck:
    """Check `.et` files: what keeps a simulator from running them to the end.

    Args:
        paths: a folder of `PREFIX.RANK.et`, such a prefix, or the files; a single file is checked without the other
            ranks of its job.
        comm_group: the comm-group file; None: the one in the folder of the files, if there is one.
        simulator: "astra-sim": also what Chakra's format allows and ASTRA-sim does not run.
        progress: called with the share that is done, 0 to 1.

    Raises:
        InputError: there is no such file. A file that is there and cannot be read is a finding.
        ArgumentError: the folder has several comm-group files.
        MissingLibraryError: protobuf or numba is not installed.

    Example:
        ``check_chakra("job").runs``
    """
    named = [paths] if isinstance(paths, str | Path) else list(paths)
    job = find_chakra_files(
        [text_of(path) for path in named], None if comm_group is None else text_of(comm_group)
    )
    known = _simulator(simulator)
    groups = read_comm_groups(job.groups_path) if job.groups_path else None
    files, found = _first_files(job)
    ranks = []
    for number, file in enumerate(files):
        facts = _facts(file, known)
        if isinstance(facts, LintFinding):
            found.append(facts)
        else:
            ranks.append(facts)
        if progress is not None:
            progress((number + 1) / len(files))
    numbers = [file.rank for file in files]
    whole = JobFacts(job.path, ranks, numbers, groups, shown(job.groups_path), found, job.is_job)
    return check_job(whole, known)


def _simulator(simulator: Simulator | str | None) -> Simulator | None:
    if simulator is None or isinstance(simulator, Simulator):
        return simulator
    names = [known.value for known in Simulator]
    if simulator not in names:
        raise ArgumentError(f"no simulator {simulator!r} is known; known: {', '.join(names)}")
    return Simulator(simulator)


def _first_files(job: ChakraJobFiles) -> tuple[list[ChakraRankFile], list[LintFinding]]:
    """The first file of each rank, and findings about ranks that have several."""
    files: dict[int, list[ChakraRankFile]] = {}
    for file in job.files:
        files.setdefault(file.rank, []).append(file)
    found = [
        LintFinding(LintCode.RANK_TWICE, shown(own[1].path), details={"rank": rank, "files": len(own)})
        for rank, own in files.items()
        if len(own) > 1
    ]
    return [own[0] for own in files.values()], found


def _facts(file: ChakraRankFile, simulator: Simulator | None) -> RankFacts | LintFinding:
    """What a check keeps of a file, or that it cannot be read."""
    try:
        rank = replace(read_rank(file.path), rank=file.rank)
    except InputError as error:
        where = f"{error.where}: " if error.where else ""
        problem = printable(f"{where}{error.problem}")
        return LintFinding(LintCode.FILE_UNREADABLE, error.path, details={"problem": problem})
    return rank_facts(rank, shown(file.path), simulator)
