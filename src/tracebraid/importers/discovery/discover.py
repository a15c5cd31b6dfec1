"""Which files of a folder are traces, of which kind and of which rank?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.importers.discovery.capture_folder import choose_window
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
from tracebraid.importers.reading import reading
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.rank_files import RankFiles

__all__ = ["find_rank_files", "trace_files"]

_DEPTH = 2
"""Levels of folders below a folder without traces that are searched: `<run>/<kind>/`."""
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
    folder = Path(path)
    with reading(path):
        is_there, is_folder = folder.exists(), folder.is_dir()
    if not is_there:
        raise InputError(str(path), "there is no such file or folder", "Check the path")
    if not is_folder:
        return _single_file(folder)
    traces, findings = _traces_in(_files_of(folder))
    if window is not None or not traces:
        chosen, others = choose_window(folder, window)
        if chosen is not None:
            files, chosen_findings = find_rank_files(chosen)
            return files, (*others, *chosen_findings)
    if not traces:
        traces, more = _traces_below(folder)
        findings += more
    traces, paired = pair_by_number(pair_the_only_two(_with_ranks_of_tails(traces)))
    kinetos, more = _by_rank([trace for trace in traces if trace.kind == KINETO], "Kineto traces")
    ets, others = _by_rank([trace for trace in traces if trace.kind == ET], "Execution Traces")
    findings += [*paired, *more, *others, *_without_partner(kinetos, ets), *_not_exported(folder)]
    if not kinetos:
        raise _no_kineto(folder, traces)
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
        if path.is_dir() and not inside:
            inside = [file for below in _folders_below(path) for file in _files_of(below)]
        if not inside:
            raise InputError(
                str(path),
                "this folder holds no .json, .json.gz or .json.zst file",
                "Name the folder of the traces",
            )
        found += inside
    return found


def _single_file(path: Path) -> tuple[tuple[RankFiles, ...], tuple[Finding, ...]]:
    found, findings = sniff(path)
    if found is not None and found.kind == ET:
        advice = "Give the Kineto trace, or the folder that holds both"
        raise InputError(str(path), "this is an Execution Trace, which has no times", advice)
    if found is None:
        open_array(open_source(path))
    return (RankFiles(0 if found is None or found.rank is None else found.rank, str(path), None),), tuple(
        findings
    )


def _files_of(folder: Path) -> list[Path]:
    with reading(folder):
        return [
            entry
            for entry in sorted(folder.iterdir())
            if not entry.name.startswith(".") and is_candidate(entry.name) and entry.is_file()
        ]


def _folders_below(folder: Path, depth: int = _DEPTH) -> list[Path]:
    with reading(folder):
        inside = [
            entry for entry in sorted(folder.iterdir()) if entry.is_dir() and not entry.name.startswith(".")
        ]
    found = []
    for entry in inside:
        found.append(entry)
        found += _folders_below(entry, depth - 1) if depth > 1 else []
    return found


def _traces_in(files: Sequence[Path]) -> tuple[list[Found], list[Finding]]:
    sniffed = [sniff(file) for file in files]
    return [found for found, _ in sniffed if found], [
        finding for _, findings in sniffed for finding in findings
    ]


def _traces_below(folder: Path) -> tuple[list[Found], list[Finding]]:
    """The traces of the folders inside a folder, where they are those of one run."""
    inside = [(below, *_traces_in(_files_of(below))) for below in _folders_below(folder)]
    with_kineto = [below for below, traces, _ in inside if any(trace.kind == KINETO for trace in traces)]
    with_et = [below for below, traces, _ in inside if any(trace.kind == ET for trace in traces)]
    if len(with_kineto) > 1:
        names = [str(below.relative_to(folder)) for below in with_kineto]
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        what = f"it holds no trace itself, and {len(names)} folders in it do: {shown}"
        raise InputError(str(folder), what, "Name one of them")
    if len(with_et) > 1:
        with_et = [below for below in with_et if below in with_kineto]
    used = {*with_kineto, *with_et}
    return (
        [trace for below, traces, _ in inside if below in used for trace in traces],
        [finding for below, _, findings in inside if below in used for finding in findings],
    )


def _with_ranks_of_tails(traces: list[Found]) -> list[Found]:
    """Read the ranks of several Kineto traces from their tails, where neither names nor heads contain them."""
    unknown = [trace for trace in traces if trace.kind == KINETO and trace.rank is None]
    if len(unknown) < 2:
        return traces
    return [trace.of_rank(rank_in_tail(trace.path)) if trace in unknown else trace for trace in traces]


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
            others = ", ".join(Path(other).name for other in paths[1:])
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


def _not_exported(folder: Path) -> list[Finding]:
    reports = sorted(folder.glob("*.nsys-rep"))
    return [
        Finding(FindingCode.NSYS_NOT_EXPORTED, str(report))
        for report in reports
        if not report.with_suffix(".sqlite").exists()
    ]


def _no_kineto(folder: Path, traces: list[Found]) -> InputError:
    kinds = {trace.kind for trace in traces}
    if KINETO in kinds:
        what = "it holds several Kineto traces, and neither they nor their names tell a rank"
    elif kinds:
        what = "it holds Execution Traces, but no Kineto trace"
    elif _not_exported(folder):
        advice = "Run: nsys export --type sqlite FILE"
        return InputError(str(folder), "it holds reports of Nsight Systems that are not exported", advice)
    else:
        what = "there is no trace in it"
    return InputError(str(folder), what, _EXPECTED)
