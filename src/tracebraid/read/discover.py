"""Which files of a folder are traces, of which kind and of which rank?"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tracebraid.errors import InputError
from tracebraid.model.finding import Finding
from tracebraid.model.job import RankFiles
from tracebraid.read.pieces import open_array
from tracebraid.read.rank import as_rank, rank_from_name
from tracebraid.read.source import open_source

__all__ = ["find_rank_files", "trace_files"]

_TRACE_FILE = re.compile(r"\.json(\.gz)?$", re.I)
_ET_NAME = re.compile(
    r"(?:^|[._-])(?:torch_)?et(?:[._-]|\.json|$)|execution_trace|chakra_host|pytorch_et", re.I
)
_KINETO_NAME = re.compile(r"kineto|\.pt\.trace\.json|chakra_device", re.I)
_OURS = re.compile(r"et_plus|manifest|_plus\.json", re.I)

_Found: TypeAlias = "tuple[str, str, int | None]"
"""(path, "et" or "kineto", rank or None)."""

_Look: TypeAlias = "tuple[_Found | None, list[Finding]]"


def find_rank_files(path: str | Path) -> tuple[tuple[RankFiles, ...], tuple[Finding, ...]]:
    """The pairs of a folder by rank, and what is odd about them; one Kineto file is a job of one rank.

    Kind and rank are taken from names where these tell them, else from the head of the file. Nothing else of
    a file is read.

    Raises:
        InputError: there is no such folder, or no Kineto trace in it.
    """
    folder = Path(path)
    if not folder.exists():
        raise InputError(str(path), "there is no such file or folder", "Check the path")
    if not folder.is_dir():
        found, odd = _look(folder)
        if found is not None and found[1] == "et":
            advice = "Give the Kineto trace, or the folder that holds both"
            raise InputError(str(path), "this is an Execution Trace, which has no times", advice)
        if found is None:
            open_array(open_source(path))
        return (RankFiles(0 if found is None or found[2] is None else found[2], str(path), None),), tuple(odd)
    looks = [_look(entry) for entry in _files_of(folder)]
    findings = [finding for _, odd in looks for finding in odd]
    looks = _pair_the_only_two(looks)
    kinetos, more = _by_rank([found for found, _ in looks if found and found[1] == "kineto"], "Kineto traces")
    ets, others = _by_rank([found for found, _ in looks if found and found[1] == "et"], "Execution Traces")
    findings += [*more, *others, *_without_partner(kinetos, ets)]
    if not kinetos:
        kinds = {found[1] for found, _ in looks if found is not None}
        what = "there is no trace in it"
        if "kineto" in kinds:
            what = "it holds several Kineto traces, and neither they nor their names tell a rank"
        elif kinds:
            what = "it holds Execution Traces, but no Kineto trace"
        advice = "Expected files such as kineto_trace_0.json.gz beside torch_et_0.json.gz, or rank-0.pt.trace.json.gz"
        raise InputError(str(path), what, advice)
    ranks = sorted({*kinetos, *ets})
    return tuple(RankFiles(rank, kinetos.get(rank), ets.get(rank)) for rank in ranks), tuple(findings)


def trace_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files themselves, and of each folder the files that may be traces by their names, in order.

    Raises:
        InputError: a folder cannot be listed, or has no such file.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        inside = _files_of(path) if path.is_dir() else [path]
        if not inside:
            raise InputError(
                str(path), "this folder holds no .json or .json.gz file", "Name the folder of the traces"
            )
        found += inside
    return found


def _files_of(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(str(folder), f"it cannot be listed ({error.strerror})", "Check its rights") from None
    return [e for e in entries if _TRACE_FILE.search(e.name) and not _OURS.search(e.name) and e.is_file()]


def _look(path: Path) -> _Look:
    """What a file is; None, with a finding, where it is no trace that can be opened."""
    rank = rank_from_name(str(path.name))
    if _KINETO_NAME.search(path.name) and rank is not None:
        return (str(path), "kineto", rank), []
    if _ET_NAME.search(path.name) and rank is not None:
        return (str(path), "et", rank), []
    try:
        file = open_array(open_source(path))
    except InputError as error:
        return None, [Finding("not-a-trace", f"left out: {error.problem}", str(path))]
    if file.array == "nodes":
        return (str(path), "et", rank), []
    info = file.header.get("distributedInfo")
    told = as_rank(info.get("rank")) if isinstance(info, dict) else None
    return (str(path), "kineto", rank if told is None else told), []


def _pair_the_only_two(looks: list[_Look]) -> list[_Look]:
    """One Kineto trace and one Execution Trace, of which one at most tells a rank, are of the same rank."""
    found = [one for one, _ in looks if one is not None]
    if sorted(kind for _, kind, _ in found) != ["et", "kineto"]:
        return looks
    ranks = {rank for _, _, rank in found if rank is not None}
    if len(ranks) != 1:
        return looks
    (rank,) = ranks
    return [((one[0], one[1], rank) if one is not None else None, findings) for one, findings in looks]


def _by_rank(found: list[_Found], what: str) -> tuple[dict[int, str], list[Finding]]:
    """One file for each rank: a file that tells none gets rank 0, if it is the only one of its kind."""
    by_rank: dict[int, list[str]] = defaultdict(list)
    findings = []
    for path, _, rank in found:
        if rank is None and len(found) > 1:
            text = f"left out: nothing tells its rank, and there are {len(found)} {what}"
            findings.append(Finding("rank-unknown", text, path))
            continue
        by_rank[0 if rank is None else rank].append(path)
    for rank, paths in sorted(by_rank.items()):
        if len(paths) > 1:
            others = ", ".join(Path(other).name for other in paths[1:])
            text = f"rank {rank} has {len(paths)} {what}; this one is used, left out: {others}"
            findings.append(Finding("rank-claimed-twice", text, paths[0]))
    return {rank: paths[0] for rank, paths in by_rank.items()}, findings


def _without_partner(kinetos: dict[int, str], ets: dict[int, str]) -> list[Finding]:
    findings = [
        Finding("no-kineto", f"rank {rank} has an Execution Trace, but no Kineto trace; left out", ets[rank])
        for rank in sorted(set(ets) - set(kinetos))
    ]
    if ets:
        findings += [
            Finding(
                "no-et",
                f"rank {rank} has no Execution Trace; its Kineto trace is linked on its own",
                kinetos[rank],
            )
            for rank in sorted(set(kinetos) - set(ets))
        ]
    return findings
