"""Discover trace files in a folder, with their kind and rank."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tracebraid.errors import InputError
from tracebraid.filesystem.choose import archive_of, file_system_of, with_files
from tracebraid.filesystem.interface import Entry, FileSystem, Kind
from tracebraid.filesystem.paths import joined, name_of, parent_of, shown, within
from tracebraid.importers.json_stream.chunks import PERFETTO_IS_NOT_READ, open_array
from tracebraid.importers.json_stream.source import open_source
from tracebraid.importers.merged import labels_in, ranks_of_labels
from tracebraid.model.capture_facts import COSTS, PROCESS
from tracebraid.model.finding import Finding, FindingCase, Loss
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.op_schema import is_arrow
from tracebraid.model.rank_files import RankFiles

_RANK = re.compile(r"(?:^|[^a-z])rank[-_.]?(\d{1,6})(?!\d)", re.I)
_OTHER_NAMES = (
    re.compile(r"(?:^|[^a-z])(?:kineto_trace|nsys|kineto|et|trace)[-_](\d{1,5})(?=[._]|$)", re.I),
    re.compile(r"(?:^|[^a-z])worker[-_]?(\d{1,6})(?!\d)", re.I),
    re.compile(r"(?:^|[^a-z])r(\d{1,6})(?=[._-]|$)", re.I),
)


def rank_from_name(path: str) -> int | None:
    """The rank in a file's name (`torch_et_3.json`, `rank-3.pt.trace.json.gz`) or its folder's (`rank_3/`), or None."""
    name, folder = name_of(path), name_of(parent_of(path))
    for pattern, text in ((_RANK, name), *((p, name) for p in _OTHER_NAMES), (_RANK, folder)):
        match = pattern.search(text)
        if match:
            return int(match.group(1))
    return None


def as_rank(value: object) -> int | None:
    """A rank as a file's header has it, as number or text; None if it is neither."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**31 else None


ET = "et"
KINETO = "kineto"

_TRACE_FILE = re.compile(r"\.json(\.gz|\.zst)?$|\.arrow\.zip$|^nsys.*\.sqlite$", re.I)
_ET_NAME = re.compile(
    r"(?:^|[._-])(?:torch_)?et(?:[._-]|\.json|$)|execution_trace|chakra_host|pytorch_et", re.I
)
_KINETO_NAME = re.compile(r"kineto|\.pt\.trace\.json|chakra_device|^nsys.*\.sqlite$", re.I)
_NO_TRACE = re.compile(r"^\.|et_plus|^manifest.*\.json$|_plus\.json|_report\.json$", re.I)
_WRITTEN_AT = re.compile(r"\.(\d{12,20})\.pt\.trace\.json", re.I)
_RANK_IN_TAIL = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}\[]*?"rank"\s*:\s*"?(\d{1,9})\b')
_DATABASE = ".sqlite"
TAIL_BYTES = 1 << 18
"""Bytes read from the end: Kineto's part after the events (such as `distributedInfo`) takes up to 4 KB."""


class Found(Struct, frozen=True):
    """A trace: its path, `ET` or `KINETO`, and its rank, None if it is unknown; and its label, see `RankFiles`."""

    path: str
    kind: str
    rank: int | None
    label: str = ""

    def of_rank(self, rank: int | None) -> Found:
        """The same trace with a rank that is known from elsewhere."""
        return replace(self, rank=rank)


def is_candidate(name: str) -> bool:
    """Return whether a file may be a trace, by its name; not what Tracebraid itself writes beside traces."""
    return bool(_TRACE_FILE.search(name)) and not _NO_TRACE.search(name)


def sniff(path: str) -> tuple[list[Found], list[Finding]]:
    """Sniff a file; return no trace, and a finding, if it is not a readable one; several of a file of several ranks.

    Where its name contains kind and rank, it is not opened; else only its head is read, unless it holds several ranks.
    """
    name = name_of(path)
    rank = rank_from_name(name)
    if _KINETO_NAME.search(name) and rank is not None:
        return [Found(path, KINETO, rank)], []
    if _ET_NAME.search(name) and rank is not None:
        return [Found(path, ET, rank)], []
    if name.endswith(_DATABASE):
        return [Found(path, KINETO, None)], []
    if is_arrow(name_of(path)):
        return [Found(path, ET, rank)], []
    try:
        file = open_array(open_source(path))
    except InputError as error:
        return [], [Finding.of(FindingCode.NOT_A_TRACE, shown(path), problem=error.problem)]
    if file.array == "nodes":
        return [Found(path, ET, rank)], []
    labels = labels_in(file)
    info = file.header.get("distributedInfo")
    stated = as_rank(info.get("rank")) if isinstance(info, dict) else None
    if labels:
        ranks, note = ranks_of_labels(path, labels, stated)
        return [Found(path, KINETO, number, label) for label, number in ranks.items()], [note]
    return [Found(path, KINETO, rank if stated is None else stated)], []


def rank_in_tail(path: str) -> int | None:
    """Return the rank after the events of a Kineto trace, as in on-demand traces; None if missing.

    Of a plain file only the end is read; a compressed file is unpacked whole.
    """
    if path.endswith(_DATABASE):
        return None
    source = open_source(path)
    if source.compression is not None:
        tail = b""
        for block in source.blocks():
            tail = (tail + block)[-TAIL_BYTES:]
    else:
        tail = source.read(max(0, source.size_bytes - TAIL_BYTES), source.size_bytes)
    found = _RANK_IN_TAIL.search(tail)
    return int(found[1]) if found else None


def written_at_ns(path: str) -> int:
    """When TensorBoard's handler wrote a file, by its name, in ns on the unix clock; 0 for other names."""
    found = _WRITTEN_AT.search(name_of(path))
    return int(found[1]) if found else 0


_SHOWN = 3
"""Members in a finding."""


def archive_findings(path: str) -> list[Finding]:
    """Findings from listing the archive of a path; of members, only possible traces by name."""
    archive = archive_of(path)
    if archive is None:
        return []
    found = [
        Finding(FindingCode.MEMBERS_LEFT_OUT, archive.path, _shown(names), len(names), details={"case": case})
        for case, refused in archive.index.refused.items()
        if (names := [name for name in refused if _matters(case, name)])
    ]
    if archive.spooled is not None:
        found += [
            Finding(issue.code, archive.path, f"byte {issue.byte:,}", 1, issue.loss, issue.details)
            for issue in archive.spooled.damage
        ]
    at = archive.index.damaged_at
    if at is not None:
        found.append(Finding(FindingCode.ARCHIVE_DAMAGED, archive.path, f"byte {at:,}", loss=Loss()))
    return found


def with_text_path(finding: Finding) -> Finding:
    """Make a finding whose path is plain text."""
    return finding if type(finding.path) is str else replace(finding, path=str(finding.path))


def _matters(case: FindingCase, name: str) -> bool:
    return case is FindingCase.ARCHIVE_INSIDE or is_candidate(name.rpartition("/")[2])


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


_WINDOW = "window_"
_PROCESS_NAME = re.compile(PROCESS + r"\d+")
_WINDOW_NAME = re.compile(r"window_\d+")
_MANIFEST_NAME = re.compile(r"manifest_.*\.json", re.DOTALL)
_RECORDERS = ("native", "torch")


def windows_of(folder: str, inside: Iterable[Entry] | None = None) -> list[tuple[str, str]]:
    """Return name and path of each window folder by number; the folder itself, without name, if there is none."""
    names = [
        entry.name
        for entry in (file_system_of(folder).entries(folder) if inside is None else inside)
        if entry.kind is Kind.FOLDER and _WINDOW_NAME.fullmatch(entry.name)
    ]
    names.sort(key=lambda name: (int(name.removeprefix(_WINDOW)), name))
    return [(name, joined(folder, name)) for name in names] or [("", folder)]


def processes_of(folder: str, inside: Iterable[Entry] | None = None) -> list[tuple[str, str]]:
    """Return name and path of the folder of each further process of a capture's ranks, by number."""
    names = [
        entry.name
        for entry in (file_system_of(folder).entries(folder) if inside is None else inside)
        if entry.kind is Kind.FOLDER and _PROCESS_NAME.fullmatch(entry.name)
    ]
    names.sort(key=lambda name: (int(name.removeprefix(PROCESS)), name))
    return [(name, joined(folder, name)) for name in names]


def choose_window(
    folder: str, number: int | None, inside: Iterable[Entry]
) -> tuple[str | None, list[Finding]]:
    """The folder of one window of a capture, and a finding that names the others."""
    files = file_system_of(folder)
    windows = [(name, path) for name, path in windows_of(folder, inside) if name and files.entries(path)]
    names = [name for name, _ in windows]
    listed = ", ".join(names) or "none"
    wanted = f"{_WINDOW}{number}" if number is not None else names[-1] if names else ""
    if number is not None and wanted not in names:
        advice = "Name one of these" if names else "Leave the window out"
        raise InputError(shown(folder), f"it has no window {number}; it has {listed}", advice)
    if len(names) < 2:
        return next((path for _, path in windows), None), []
    details = {"windows": len(names), "names": listed, "chosen": wanted}
    return dict(windows)[wanted], [Finding(FindingCode.WINDOW_CHOSEN, shown(folder), details=details)]


def manifests_of(
    folder: str, rank: int | None = None
) -> tuple[list[tuple[str, dict[str, Any]]], list[Finding]]:
    """Path and content of each manifest, or of one rank's, and a finding for each that is unreadable."""
    manifests: list[tuple[str, dict[str, Any]]] = []
    findings: list[Finding] = []
    files = file_system_of(folder)
    names = (
        [entry.name for entry in files.entries(folder) if _MANIFEST_NAME.fullmatch(entry.name)]
        if rank is None
        else [f"manifest_{rank}.json"]
    )
    for path in (joined(folder, name) for name in names):
        try:
            kind = files.kind(path)
            if rank is not None and kind is Kind.ABSENT:
                continue
            if kind is not Kind.FILE:
                raise InputError(path, "it is no file", "")
            file = files.open(path)
            content = json.loads(file.read(0, file.size_bytes))
        except (InputError, ValueError, RecursionError) as error:
            problem = error.problem if isinstance(error, InputError) else str(error)
            findings.append(Finding.of(FindingCode.MANIFEST_UNREADABLE, path, error=problem))
            continue
        if isinstance(content, dict):
            manifests.append((path, content))
        else:
            case = FindingCase.NO_OBJECT
            findings.append(Finding.of(FindingCode.MANIFEST_UNREADABLE, path, case=case))
    return manifests, findings


def recorder_of(et: str) -> str:
    """Return the recorder of an Execution Trace, `native` or `torch`, by manifest or file format; "" if unknown."""
    if is_arrow(name_of(et)):
        return "native"
    named = [content.get("recorders") for content in _manifests_naming(et)]
    found = [name for names in named if isinstance(names, list) for name in names if name in _RECORDERS]
    return str(found[0]) if found else ""


def torch_of(trace: str, kept: Iterable[tuple[str, dict[str, Any]]] | None = None) -> str:
    """The version of torch that recorded a trace, by its manifest; "" where unknown.

    Args:
        trace: its path.
        kept: path and content of the manifests that a store has; None: those beside the trace are read.
    """
    found = [content.get("torch") for content in _manifests_naming(trace, kept)]
    return next((version for version in found if isinstance(version, str)), "")


def facts_beside(trace: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a capture wrote about a trace in its manifest once the trace was written; empty without one.

    That is the costs of recording, and the unrecorded steps, also those after the window.

    Args:
        trace: its path.
        facts: what the trace itself says of its process, by which its window is recognised.
    """
    for content in _manifests_naming(trace):
        processes = [window.get("process") for window in content["windows"] if isinstance(window, dict)]
        if not any(isinstance(own, dict) and own.items() <= facts.items() for own in processes if own):
            continue
        overhead = content.get("overhead")
        known = overhead if isinstance(overhead, dict) and overhead.get("untraced_steps") else {}
        steps = {name: value for name, value in known.items() if name.startswith("untraced_")}
        return {**steps, COSTS: content.get(COSTS)}
    return {}


def _manifests_naming(
    trace: str, kept: Iterable[tuple[str, dict[str, Any]]] | None = None
) -> list[dict[str, Any]]:
    """Find the manifests of the trace's rank beside it, or beside its window, that list it."""
    name, folder, rank = name_of(trace), parent_of(trace), rank_from_name(trace)
    if rank is None:
        return []
    in_window = name_of(folder).startswith(_WINDOW)
    folders = [folder, parent_of(folder)] if in_window else [folder]
    if kept is None:
        found = [content for where in folders for _, content in manifests_of(where, rank)[0]]
    else:
        of_rank = {joined(where, f"manifest_{rank}.json") for where in folders}
        found = [content for path, content in kept if path in of_rank]
    return [content for content in found if name in _files_of(content)]


def size_beside(manifest: str, name: str) -> int | None:
    """Return the size of a file below a manifest's folder; None if missing, or the name leads out of it."""
    if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
        return None
    path = joined(parent_of(manifest), name)
    try:
        files = file_system_of(path)
        return files.size_bytes(path) if files.kind(path) is Kind.FILE else None
    except (InputError, ValueError):
        return None


def _files_of(content: dict[str, Any]) -> set[str]:
    """Names of the files that a manifest lists."""
    windows = content.get("windows")
    files = [
        file
        for window in (windows if isinstance(windows, list) else [])
        if isinstance(window, dict) and isinstance(window.get("files"), list)
        for file in window["files"]
    ]
    return {PurePosixPath(str(file.get("path"))).name for file in files if isinstance(file, dict)}


T = TypeVar("T")
A = TypeVar("A")

_DEPTH = 2
"""Levels of folders below a folder without traces that are searched: `<run>/<kind>/`."""


class _Folder(Struct, frozen=True):
    path: str
    real_path: str
    inside: Iterable[Entry]


def folders_below(
    folder: str, inside: Iterable[Entry], files: FileSystem
) -> tuple[list[tuple[str, list[Entry]]], list[InputError]]:
    """List folders two levels deep with their content, and errors of those that could not be listed.

    Each is listed once: a link to one that is listed anyway is left out, so that no circle of links is followed.
    """
    level = [_Folder(folder, files.real_path(folder), inside)]
    seen = {level[0].real_path}
    found: list[tuple[str, list[Entry]]] = []
    errors: list[InputError] = []
    for _ in range(_DEPTH):
        # Folders before links to them.
        below = [*_new_folders(level, False, seen, files), *_new_folders(level, True, seen, files)]
        level = []
        for (path, real), listed in zip(
            below, each_path(lambda pair: _listed(pair[0], files), below, files), strict=True
        ):
            if isinstance(listed, InputError):
                errors.append(listed)
            else:
                found.append((path, listed))
                level.append(_Folder(path, real, listed))
    return sorted(found, key=lambda pair: pair[0].split("/")), errors


def each_path(question: Callable[[A], T], paths: Sequence[A], files: FileSystem) -> list[T]:
    """Map a function over paths in order, concurrently if each call has latency."""
    if files.requests_at_once == 1 or len(paths) < 2:
        return [question(path) for path in paths]
    with ThreadPoolExecutor(files.requests_at_once) as executor:
        return list(executor.map(question, paths))


def _new_folders(
    level: Iterable[_Folder], links: bool, seen: set[str], files: FileSystem
) -> list[tuple[str, str]]:
    """The folders in folders, or what links there lead to, but for those seen: path, and path without links."""
    found = []
    for folder in level:
        for entry in folder.inside:
            if entry.kind is not Kind.FOLDER or entry.is_link != links or entry.name.startswith("."):
                continue
            path = joined(folder.path, entry.name)
            real = files.real_path(path) if links else joined(folder.real_path, entry.name)
            if real not in seen:
                seen.add(real)
                found.append((path, real))
    return found


def _listed(folder: str, files: FileSystem) -> list[Entry] | InputError:
    try:
        return files.entries(folder)
    except InputError as error:
        return error


_NUMBER = re.compile(r"\d+")
_MOST_DIGITS = 6
"""A number of more digits is a time or a process id, and no rank."""


def pair_the_only_two(traces: list[Found]) -> list[Found]:
    """One Kineto trace and one Execution Trace, of which at most one has a rank, are of the same rank."""
    ranks = {trace.rank for trace in traces if trace.rank is not None}
    if sorted(trace.kind for trace in traces) != [ET, KINETO] or len(ranks) != 1:
        return traces
    (rank,) = ranks
    return [trace.of_rank(rank) for trace in traces]


def pair_by_number(traces: list[Found]) -> tuple[list[Found], list[Finding]]:
    """Give a file without rank the rank of the file of the other kind with the same number in its name.

    `dlrm_eg_4.json` and `worker4_....pt.trace.json`: the number is the rank of a file that has one, else any number in
    its name. It must be unique among the files of either kind, and a name may contain only one such number.
    """
    owners = {kind: _owners([trace for trace in traces if trace.kind == kind]) for kind in (ET, KINETO)}
    shared = {
        number
        for number in owners[ET].keys() & owners[KINETO].keys()
        if len(owners[ET][number]) == len(owners[KINETO][number]) == 1
    }
    ambiguous = {
        number for trace in traces if len(_numbers(trace) & shared) > 1 for number in _numbers(trace)
    }
    found, findings = [], []
    for trace in traces:
        own = _numbers(trace) & (shared - ambiguous)
        if trace.rank is not None or not own:
            found.append(trace)
            continue
        (rank,) = own
        partner = owners[KINETO if trace.kind == ET else ET][rank][0]
        name = name_of(partner.path)
        found.append(trace.of_rank(rank))
        findings.append(Finding.of(FindingCode.PAIRED_BY_NUMBER, trace.path, rank=rank, partner=name))
    return found, findings


def _owners(traces: list[Found]) -> dict[int, list[Found]]:
    """The files by their numbers; of several of the same rank, the first."""
    owners: dict[int, list[Found]] = {}
    for trace in traces:
        for number in _numbers(trace):
            known = owners.setdefault(number, [])
            if not (known and trace.rank is not None and known[0].rank == trace.rank):
                known.append(trace)
    return owners


def _numbers(trace: Found) -> set[int]:
    if trace.rank is not None:
        return {trace.rank}
    return {int(text) for text in _NUMBER.findall(name_of(trace.path)) if len(text) <= _MOST_DIGITS}


_REPORT = ".nsys-rep"
_TIMELINES = (".pftrace", ".pftrace.gz")
_DISCOVER_SHOWN = 5
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
    """
    folder = with_files(path)
    found, findings = _rank_files(folder, window)
    as_text = tuple(replace(files, kineto=_text(files.kineto), et=_text(files.et)) for files in found)
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
    traces, findings = _without_merged(traces, findings)
    kinetos, more = _by_rank([trace for trace in traces if trace.kind == KINETO], "Kineto traces")
    ets, others = _by_rank([trace for trace in traces if trace.kind == ET], "Execution Traces")
    not_exported = _not_exported(folder, inside)
    others += _other_processes(folder, inside)
    findings += [*paired, *more, *others, *_without_partner(kinetos, ets), *not_exported]
    if not kinetos:
        raise _no_kineto(folder, traces, [entry.name for entry in inside])
    ranks = sorted({*kinetos, *ets})
    return tuple(_files_of_rank(rank, kinetos.get(rank), ets.get(rank)) for rank in ranks), tuple(findings)


def ranks_in_file(path: str) -> tuple[tuple[RankFiles, ...], tuple[Finding, ...]]:
    """The ranks of a Kineto trace of several ranks, and the note on their numbers; nothing of any other file."""
    found, findings = sniff(path)
    ranks = tuple(_files_of_rank(trace.rank or 0, trace, None) for trace in found if trace.label)
    return ranks, tuple(findings) if ranks else ()


def _other_processes(folder: str, inside: Iterable[Entry]) -> list[Finding]:
    """A finding that names the folders of further processes of the same ranks."""
    names = [name for name, _ in processes_of(folder, inside)]
    if not names:
        return []
    details = {"processes": len(names) + 1, "names": ", ".join(names)}
    return [Finding(FindingCode.PROCESS_CHOSEN, shown(folder), details=details)]


def trace_files(paths: Sequence[str | Path]) -> list[str]:
    """The files themselves, and of each folder the files that may be traces by their names, in order."""
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
                "this folder contains no .json, .json.gz or .json.zst file",
                "Name the folder of the traces",
            )
        found += inside
    return found


def _single_file(path: str) -> tuple[tuple[RankFiles, ...], tuple[Finding, ...]]:
    found, findings = sniff(path)
    if any(trace.kind == ET for trace in found):
        advice = "Give the Kineto trace, or the folder that holds both"
        raise InputError(shown(path), "this is an Execution Trace, which has no times", advice)
    if not found:
        open_array(open_source(path))
        found = [Found(path, KINETO, None)]
    return tuple(_files_of_rank(trace.rank or 0, trace, None) for trace in found), tuple(findings)


def _files_of_rank(rank: int, kineto: Found | None, et: Found | None) -> RankFiles:
    return RankFiles(
        rank,
        None if kineto is None else kineto.path,
        None if et is None else et.path,
        "" if kineto is None else kineto.label,
    )


def _candidates(folder: str, inside: Iterable[Entry]) -> list[str]:
    """The files of a folder that may be traces by their names."""
    return [
        joined(folder, entry.name)
        for entry in inside
        if not entry.name.startswith(".") and is_candidate(entry.name) and entry.kind is Kind.FILE
    ]


def _traces_in(paths: Sequence[str], files: FileSystem) -> tuple[list[Found], list[Finding]]:
    sniffed = each_path(sniff, paths, files)
    return [trace for found, _ in sniffed for trace in found], [
        finding for _, findings in sniffed for finding in findings
    ]


def _traces_below(
    folder: str, entries: Iterable[Entry], files: FileSystem
) -> tuple[list[Found], list[Finding]]:
    """Return the traces of the folders inside a folder, if they are of one run."""
    below, errors = folders_below(folder, entries, files)
    inside = [(path, *_traces_in(_candidates(path, entries), files)) for path, entries in below]
    with_kineto = [below for below, traces, _ in inside if any(trace.kind == KINETO for trace in traces)]
    with_et = [below for below, traces, _ in inside if any(trace.kind == ET for trace in traces)]
    if len(with_kineto) > 1:
        names = [within(folder, below) for below in with_kineto]
        listed = ", ".join(names[:_DISCOVER_SHOWN]) + (", ..." if len(names) > _DISCOVER_SHOWN else "")
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


def _without_merged(traces: list[Found], findings: list[Finding]) -> tuple[list[Found], list[Finding]]:
    """Leave out files of several ranks whose ranks all have files of their own: SGLang writes both."""
    own = {trace.rank for trace in traces if trace.kind == KINETO and not trace.label}
    ranks: dict[str, list[int | None]] = defaultdict(list)
    for trace in traces:
        if trace.label:
            ranks[trace.path].append(trace.rank)
    merged = {path for path, of_file in ranks.items() if own.issuperset(of_file)}
    left_out = [
        Finding.of(
            FindingCode.MERGED_RANKS,
            finding.path,
            case=FindingCase.MERGED_LEFT_OUT,
            numbers=finding.details["numbers"],
        )
        if finding.path in merged and finding.code is FindingCode.MERGED_RANKS
        else finding
        for finding in findings
    ]
    return [trace for trace in traces if trace.path not in merged], left_out


def _by_rank(found: list[Found], what: str) -> tuple[dict[int, Found], list[Finding]]:
    """One file for each rank: a file of unknown rank gets rank 0, if it is the only one of its kind.

    Of several of one rank, the one that TensorBoard's handler wrote last is used, else the first by name; a Kineto
    trace goes before an export of Nsight Systems, and a file of its own before one of several ranks.
    """
    by_rank: dict[int, list[Found]] = defaultdict(list)
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
        by_rank[0 if trace.rank is None else trace.rank].append(trace)
    for rank, traces in sorted(by_rank.items()):
        traces.sort(key=_precedence)
        if len(traces) > 1:
            others = ", ".join(name_of(other.path) for other in traces[1:])
            details = {"rank": rank, "files": len(traces), "kind": what, "others": others}
            if written_at_ns(traces[0].path):
                details["case"] = FindingCase.LAST_WRITTEN
            findings.append(Finding(FindingCode.RANK_CLAIMED_TWICE, traces[0].path, details=details))
    return {rank: traces[0] for rank, traces in by_rank.items()}, findings


def _precedence(trace: Found) -> tuple[bool, bool, int]:
    """Order of the files of one rank, the used one first."""
    return trace.label != "", trace.path.endswith(_DATABASE), -written_at_ns(trace.path)


def _without_partner(kinetos: dict[int, Found], ets: dict[int, Found]) -> list[Finding]:
    findings = [
        Finding.of(FindingCode.NO_KINETO, ets[rank].path, rank=rank)
        for rank in sorted(set(ets) - set(kinetos))
    ]
    if ets:
        findings += [
            Finding.of(FindingCode.NO_ET, kinetos[rank].path, rank=rank)
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


def _no_kineto(folder: str, traces: list[Found], names: Sequence[str]) -> InputError:
    kinds = {trace.kind for trace in traces}
    if KINETO in kinds:
        what = "it holds several Kineto traces, and neither they nor their names tell a rank"
    elif kinds:
        what = "it holds Execution Traces, but no Kineto trace"
    elif any(name.endswith(_REPORT) for name in names):
        advice = "Run: nsys export --type sqlite FILE"
        return InputError(folder, "it contains reports of Nsight Systems that are not exported", advice)
    elif timelines := [name for name in names if name.endswith(_TIMELINES)]:
        return InputError(joined(folder, timelines[0]), *PERFETTO_IS_NOT_READ)
    else:
        what = "there is no trace in it"
    return InputError(folder, what, _EXPECTED)
