"""Judges how the program of a trial ended, against the same program without a capture."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tracebraid
from tools.stress.model import Outcome, Problem, ProblemKind, Scenario, Trial, Way
from tools.whole_files import fault_of
from tracebraid.errors import TracebraidError
from tracebraid.model.finding_code import FindingCode, Severity

_DOCUMENTED = re.compile(
    r"(window_\d+/)?(torch_et_\d+\.json\.gz|kineto_trace_\d+\.json\.gz|torch_et_\d+_report\.json)|manifest_\d+\.json"
)
"""Names that docs/capture.md lists for a capture that lost nothing."""
_TELLING = (
    "Traceback (most recent call last)",
    "Fatal Python error",
    "terminate called",
    "Exception ignored",
    "Warning: ",
)
_SHOWN = 600
"""Characters of an output in a report."""
_OF_LOSS = {FindingCode.NOTHING_RECORDED, FindingCode.RANK_MISSING}
"""Findings of a check in a folder where a window, or a rank, was lost without any fault."""


def judge(scenario: Scenario, trial: Trial, plain: Outcome, got: Outcome) -> list[Problem]:
    """Return the problems of a trial."""
    found = [*_of_end(scenario, plain, got)]
    if got.returncode is not None:
        found += _of_files(scenario, got)
        if trial.capturing.way is not Way.PLAIN:
            found += _of_manifests(scenario, got)
        left = _names(got.folder / "tmp")
        if len(left) > len(_names(plain.folder / "tmp")) and not scenario.may_leave_parts:
            found.append((ProblemKind.LEFT, f"temporary files {left[:5]}"))
        if not scenario.is_random and _names(got.folder / "own") != _names(plain.folder / "own"):
            found.append((ProblemKind.LEFT, f"the program's own files are {_names(got.folder / 'own')}"))
    return [Problem(kind, trial, detail) for kind, detail in found]


def _of_end(scenario: Scenario, plain: Outcome, got: Outcome) -> Iterator[tuple[ProblemKind, str]]:
    if got.returncode is None:
        yield ProblemKind.HANG, f"{got.wall_s:.0f} s: {got.stderr[-_SHOWN:]}"
        return
    right = scenario.expected_codes if scenario.is_random else (plain.returncode,)
    if got.returncode not in right:
        yield ProblemKind.EXIT, f"{got.returncode}, and not {right}: {got.stderr[-_SHOWN:]}"
    elif not scenario.is_random:
        if got.stdout != plain.stdout:
            yield ProblemKind.RESULT, f"{got.stdout[-_SHOWN:]!r}, and not {plain.stdout[-_SHOWN:]!r}"
        for words in _TELLING:
            if got.stderr.count(words) > plain.stderr.count(words):
                yield ProblemKind.ERROR, got.stderr[-_SHOWN:]
                break
    if got.strays > plain.strays:
        yield ProblemKind.STRAY, f"{got.strays}"


def _of_files(scenario: Scenario, got: Outcome) -> Iterator[tuple[ProblemKind, str]]:
    out = got.folder / "out"
    for name in _names(out):
        path = out / name
        if path.name.startswith("."):
            if not scenario.may_leave_parts:
                yield ProblemKind.LEFT, name
        elif not _DOCUMENTED.fullmatch(name):
            if not (scenario.may_lose and path.name.endswith(".broken")):
                yield ProblemKind.LEFT, name
        elif (fault := fault_of(path)) is not None:
            yield ProblemKind.FILE, f"{name}: {fault}"
    for folder in sorted(path for path in out.rglob("*") if path.is_dir()):
        if not any(folder.iterdir()) and not scenario.may_leave_parts:
            yield ProblemKind.LEFT, f"the empty folder {folder.name}"


def _of_manifests(scenario: Scenario, got: Outcome) -> Iterator[tuple[ProblemKind, str]]:
    out = got.folder / "out"
    manifests = [_load(path) for path in sorted(out.glob("manifest_*.json"))]
    is_certain = not (scenario.may_lose or scenario.may_leave_parts or scenario.is_random)
    if is_certain and not any(window["complete"] for found in manifests for window in found["windows"]):
        yield ProblemKind.LOST, f"there is no complete window: {got.stderr[-_SHOWN:]}"
    for manifest in manifests:
        for window in manifest["windows"]:
            if window["failure"] and not scenario.may_lose:
                yield ProblemKind.LOST, window["failure"]
            for file in window["files"]:
                path = out / file["path"]
                if not path.is_file():
                    yield ProblemKind.FILE, f"the manifest names {file['path']}, which is not there"
                elif path.stat().st_size != file["size_bytes"]:
                    yield ProblemKind.FILE, f"{file['path']} has another size than the manifest says"
    if any(out.rglob("*.json.gz")) and manifests:
        yield from _of_check(scenario, out)


def _of_check(scenario: Scenario, out: Path) -> Iterator[tuple[ProblemKind, str]]:
    try:
        checked = tracebraid.check(out)
    except TracebraidError as error:
        yield ProblemKind.FILE, f"check: {error}"
        return
    for one in checked.diagnoses:
        if one.severity is Severity.ERROR and not (scenario.may_lose and one.finding.code in _OF_LOSS):
            yield ProblemKind.FILE, f"check: {one.finding}"


def _load(path: Path) -> Any:
    content = path.read_bytes()
    return json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)


def _names(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
