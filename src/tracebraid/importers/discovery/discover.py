"""Which files of a folder are traces, of which kind and of which rank?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import file_system_of, with_files
from tracebraid.filesystem.interface import Entry, FileSystem, Kind
from tracebraid.filesystem.paths import joined, name_of, shown, within
from tracebraid.importers.discovery.archive_findings import archive_findings, with_text_path
from tracebraid.importers.discovery.capture_folder import choose_window
from tracebraid.importers.discovery.folders_below import each_path, folders_below
from tracebraid.importers.discovery.pairing import pair_by_number, pair_the_only_two
from tracebraid.importers.discovery.sniff import (
    ET,
    KINETO,
    Found,
    is_candidate,
    rank_in_tail,
    sniff,
    written_at_ns,
)
from tracebraid.importers.json_stream.chunks import open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.rank_files import RankFiles

__all__ = ["find_rank_files", "trace_files"]

_REPORT = ".nsys-rep"
_SHOWN = 5
"""Names in a message."""
_EXPECTED = (
    "Expected files such as kineto_trace_0.json.gz beside torch_et_0.json.gz, or rank-0.pt.trace.json.gz"
)


def find_rank_files(
    path: str | Path, window: int | None = None
) -> tuple[tuple[RankFiles, ...], tuple[Finding, ...]]:
    """The pairs of a folder by rank, and findings about the files; a single Kineto file is a job of one rank.

    Kind and rank are taken from the file's name, else from its head; the ranks of several Kineto traces without one
    there from their tails. Nothing else of a file is read. In a folder without traces, the only folder inside it
    that has some is used, or two, of which one has the Kineto traces and the other the Execution Traces
    (Megatron-LM's `torch_profile` and `chakra`). Of a capture's windows (`window_<n>/`), one is used.

    Args:
        path: the folder or file.
        window: which window of a capture; None for the last one that has traces.

    Raises:
        InputError: there is no such folder, no such window or no Kineto trace in it, or several folders inside it have
            some.
    """
    folder = with_files(path)
    found, findings = _rank_files(folder, window)
    as_text = tuple(RankFiles(files.rank, _text(files.kineto), _text(files.et)) for files in found)
    return as_text, tuple(with_text_path(finding) for finding in (*archive_findings(folder), *findings))


def _text(path: str | None) -> str | None:
    return None if path is None else str(path)


def _rank_files(folder: str, window: int | None) -> tuple[tuple[RankFiles, ...], tuple[Finding, ...]]:
    files = file_system_of(folder)
    kind = files.kind(folder)
    if kind is Kind.ABSENT:
        raise InputError(shown(folder), "there is no such file or folder", "Check the path")
    if kind is not Kind.FOLDER:
        return _single_file(folder)
    inside = files.entries(folder)
    traces, findings = _traces_in(_candidates(folder, inside), files)
    if window is not None or not traces:
        chosen, others = choose_window(folder, window, inside)
        if chosen is not None:
            found, chosen_findings = _rank_files(chosen, None)
            return found, (*others, *chosen_findings)
    if not traces:
        traces, more = _traces_below(folder, inside, files)
        findings += more
    traces, paired = pair_by_number(pair_the_only_two(_with_ranks_of_tails(traces, files)))
    kinetos, more = _by_rank([trace for trace in traces if trace.kind == KINETO], "Kineto traces")
    ets, others = _by_rank([trace for trace in traces if trace.kind == ET], "Execution Traces")
    not_exported = _not_exported(folder, inside)
    findings += [*paired, *more, *others, *_without_partner(kinetos, ets), *not_exported]
    if not kinetos:
        raise _no_kineto(folder, traces, has_reports=bool(not_exported))
    ranks = sorted({*kinetos, *ets})
    return tuple(RankFiles(rank, kinetos.get(rank), ets.get(rank)) for rank in ranks), tuple(findings)


def trace_files(paths: Sequence[str | Path]) -> list[str]:
    """The files themselves, and of each folder the files that may be traces by their names, in order.

    Raises:
        InputError: a folder cannot be listed, or has no such file.
    """
    found: list[str] = []
    for path in map(with_files, paths):
        files = file_system_of(path)
        if files.kind(path) is not Kind.FOLDER:
            found.append(path)
            continue
        entries = files.entries(path)
        inside = _candidates(path, entries)
        if not inside:
            below, errors = folders_below(path, entries, files)
            if errors:
                raise errors[0]
            inside = [file for folder, entries in below for file in _candidates(folder, entries)]
        if not inside:
            raise InputError(
                path,
                "this folder holds no .json, .json.gz or .json.zst file",
                "Name the folder of the traces",
            )
        found += inside
    return found


def _single_file(path: str) -> tuple[tuple[RankFiles, ...], tuple[Finding, ...]]:
    found, findings = sniff(path)
    if found is not None and found.kind == ET:
        advice = "Give the Kineto trace, or the folder that holds both"
        raise InputError(shown(path), "this is an Execution Trace, which has no times", advice)
    if found is None:
        open_array(open_source(path))
    return (RankFiles(0 if found is None or found.rank is None else found.rank, path, None),), tuple(findings)


def _candidates(folder: str, inside: Iterable[Entry]) -> list[str]:
    """The files of a folder that may be traces by their names."""
    return [
        joined(folder, entry.name)
        for entry in inside
        if not entry.name.startswith(".") and is_candidate(entry.name) and entry.kind is Kind.FILE
    ]


def _traces_in(paths: Sequence[str], files: FileSystem) -> tuple[list[Found], list[Finding]]:
    sniffed = each_path(sniff, paths, files)
    return [found for found, _ in sniffed if found], [
        finding for _, findings in sniffed for finding in findings
    ]


def _traces_below(
    folder: str, entries: Iterable[Entry], files: FileSystem
) -> tuple[list[Found], list[Finding]]:
    """The traces of the folders inside a folder, where they are those of one run."""
    below, errors = folders_below(folder, entries, files)
    inside = [(path, *_traces_in(_candidates(path, entries), files)) for path, entries in below]
    with_kineto = [below for below, traces, _ in inside if any(trace.kind == KINETO for trace in traces)]
    with_et = [below for below, traces, _ in inside if any(trace.kind == ET for trace in traces)]
    if len(with_kineto) > 1:
        names = [within(folder, below) for below in with_kineto]
        listed = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        what = f"it holds no trace itself, and {len(names)} folders in it do: {listed}"
        raise InputError(folder, what, "Name one of them")
    if len(with_et) > 1:
        with_et = [below for below in with_et if below in with_kineto]
    used = {*with_kineto, *with_et}
    if errors and not used:
        raise errors[0]
    unread = [
        Finding.of(FindingCode.FOLDER_UNREADABLE, shown(error.path), problem=error.problem)
        for error in errors
    ]
    return (
        [trace for below, traces, _ in inside if below in used for trace in traces],
        [*(finding for below, _, findings in inside if below in used for finding in findings), *unread],
    )


def _with_ranks_of_tails(traces: list[Found], files: FileSystem) -> list[Found]:
    """Read the ranks of several Kineto traces from their tails, where neither names nor heads contain them."""
    unknown = [trace for trace in traces if trace.kind == KINETO and trace.rank is None]
    if len(unknown) < 2:
        return traces
    ranks = dict(zip(unknown, each_path(lambda trace: rank_in_tail(trace.path), unknown, files), strict=True))
    return [trace.of_rank(ranks[trace]) if trace in ranks else trace for trace in traces]


def _by_rank(found: list[Found], what: str) -> tuple[dict[int, str], list[Finding]]:
    """One file for each rank: a file of unknown rank gets rank 0, if it is the only one of its kind.

    Of several of one rank, the one that TensorBoard's handler wrote last is used, else the first by name; a Kineto
    trace goes before an export of Nsight Systems.
    """
    by_rank: dict[int, list[str]] = defaultdict(list)
    findings = []
    for trace in found:
        if trace.rank is None and len(found) > 1:
            details: dict[str, object] = {
                "case": FindingCase.FILE_LEFT_OUT,
                "files": len(found),
                "kind": what,
            }
            findings.append(Finding(FindingCode.RANK_UNKNOWN, trace.path, details=details))
            continue
        by_rank[0 if trace.rank is None else trace.rank].append(trace.path)
    for rank, paths in sorted(by_rank.items()):
        paths.sort(key=lambda path: (path.endswith(".sqlite"), -written_at_ns(path)))
        if len(paths) > 1:
            others = ", ".join(name_of(other) for other in paths[1:])
            details = {"rank": rank, "files": len(paths), "kind": what, "others": others}
            if written_at_ns(paths[0]):
                details["case"] = FindingCase.LAST_WRITTEN
            findings.append(Finding(FindingCode.RANK_CLAIMED_TWICE, paths[0], details=details))
    return {rank: paths[0] for rank, paths in by_rank.items()}, findings


def _without_partner(kinetos: dict[int, str], ets: dict[int, str]) -> list[Finding]:
    findings = [
        Finding.of(FindingCode.NO_KINETO, ets[rank], rank=rank) for rank in sorted(set(ets) - set(kinetos))
    ]
    if ets:
        findings += [
            Finding.of(FindingCode.NO_ET, kinetos[rank], rank=rank)
            for rank in sorted(set(kinetos) - set(ets))
        ]
    return findings


def _not_exported(folder: str, inside: Iterable[Entry]) -> list[Finding]:
    names = {entry.name for entry in inside}
    return [
        Finding(FindingCode.NSYS_NOT_EXPORTED, joined(folder, name))
        for name in sorted(name for name in names if name.endswith(_REPORT))
        if name.removesuffix(_REPORT) + ".sqlite" not in names
    ]


def _no_kineto(folder: str, traces: list[Found], has_reports: bool) -> InputError:
    kinds = {trace.kind for trace in traces}
    if KINETO in kinds:
        what = "it holds several Kineto traces, and neither they nor their names tell a rank"
    elif kinds:
        what = "it holds Execution Traces, but no Kineto trace"
    elif has_reports:
        advice = "Run: nsys export --type sqlite FILE"
        return InputError(folder, "it holds reports of Nsight Systems that are not exported", advice)
    else:
        what = "there is no trace in it"
    return InputError(folder, what, _EXPECTED)
