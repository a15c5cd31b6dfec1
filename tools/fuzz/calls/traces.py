"""Calls that read single traces, link pairs, and hold what was read against what the files hold."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import tracebraid
from tools.fuzz.calls.commands import input_files, run_command
from tools.fuzz.losses import judge_losses
from tools.fuzz.model import Call, FailureError, FailureKind
from tracebraid.chakra.et_plus import read_et_plus
from tracebraid.errors import ArgumentError, InputError, TracebraidError
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode


def _of_each(read: Callable[[Path], None]) -> Callable[[Path, random.Random], None]:
    """Asks each file of a mutant; the errors of ours must name the file."""

    def ask(folder: Path, _: random.Random) -> None:
        for path in input_files(folder):
            try:
                read(path)
            except TracebraidError as error:
                _must_name(error, path)

    return ask


def _must_name(error: TracebraidError, *paths: Path) -> None:
    if not any(str(path) in str(error) for path in paths):
        message = f"the error names no file: {type(error).__name__}: {error}"
        raise FailureError(FailureKind.FOREIGN_EXCEPTION, message) from error


def _read_timeline(path: Path) -> None:
    found = tracebraid.read_timeline(path)
    count = found.events.height + found.flows.height + found.tables["other_events"].height
    judge_losses(str(path), path.read_bytes(), count, found.findings)
    _must_be_sound(found.findings)


def _read_execution_trace(path: Path) -> None:
    found = tracebraid.read_execution_trace(path)
    repeated = sum(one.count for one in found.findings if one.code is FindingCode.DUPLICATE_ID)
    judge_losses(str(path), path.read_bytes(), found.nodes.height + repeated, found.findings)
    _must_be_sound(found.findings)
    assert found.tensors.height >= 0
    assert found.tensor_uses.height >= 0


def _read_et_plus(path: Path) -> None:
    found = read_et_plus(path)
    judge_losses(str(path), path.read_bytes(), found.nodes.height, found.findings)
    _must_be_sound(found.findings)


def _must_be_sound(findings: tuple[Finding, ...]) -> None:
    """Each finding counts something and says it in one sentence."""
    for finding in findings:
        if finding.count < 1 or not finding.message or not str(finding).strip():
            raise FailureError(FailureKind.INVALID_OUTPUT, f"a finding that says nothing: {finding!r}")


def _pairs(folder: Path) -> list[tuple[Path, Path]]:
    """(Execution Trace, Kineto trace) by their place in the order of names."""
    files = [path for path in input_files(folder) if ".json" in path.name]
    ets = [path for path in files if "et_" in path.name]
    kinetos = [path for path in files if "kineto" in path.name]
    return list(zip(ets, kinetos, strict=False))


def _link(folder: Path, _: random.Random) -> None:
    for et, kineto in _pairs(folder)[:1]:
        try:
            linked = tracebraid.link(et, kineto)
            assert linked.coverage.share <= 1
            linked.compute_all()
            tracebraid.write_et_plus(linked, folder / "out" / "plus.json")
        except (InputError, ArgumentError) as error:
            _must_name(error, et, kineto, folder)
            return
        read_et_plus(folder / "out" / "plus.json")


def _link_command(folder: Path, rng: random.Random) -> None:
    match = ("--match", rng.choice(("auto", "exact", "approximate")))
    as_json = rng.choice(((), ("--json",)))
    if rng.random() < 0.5:
        run_command("link", folder, "-o", folder / "out" / "linked", *match, *as_json)
    for et, kineto in _pairs(folder)[:1]:
        run_command("link", et, kineto, "-o", folder / "out" / "plus.json", *match, *as_json)


def _trace_link(folder: Path, rng: random.Random) -> None:
    copy = folder / "out" / "copy"
    for et, kineto in _pairs(folder)[:1]:
        copy.mkdir(parents=True)
        shutil.copy(et, copy / et.name)
        run_command(
            "trace-link", "--et-file", copy / et.name, "--kineto-file", kineto, *rng.choice(((), ("--json",)))
        )


def _repair(folder: Path, _: random.Random) -> None:
    copy = folder / "out" / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("out"))
    tracebraid.repair(copy)
    unfinished = {path.relative_to(copy) for path in copy.rglob("*") if path.suffix in (".part", ".tmp")}
    left = sorted(str(path) for path in unfinished if not (folder / path).exists())
    if left:
        raise FailureError(FailureKind.INVALID_OUTPUT, f"a repair left {left}")


def _convert(folder: Path, rng: random.Random) -> None:
    files = [path for path in input_files(folder) if ".json" in path.name]
    if files:
        path = rng.choice(files)
        (folder / "out").mkdir(exist_ok=True)
        run_command(
            "chakra-converter", "PyTorch", "--input", path, "--output", folder / "out" / "x.et", "--simulate"
        )


READ_TIMELINE = Call("read_timeline", _of_each(_read_timeline))
READ_ET = Call("read_execution_trace", _of_each(_read_execution_trace))
READ_ET_PLUS = Call("read_et_plus", _of_each(_read_et_plus))
LINK = Call("link", _link)
LINK_COMMAND = Call("tracebraid link", _link_command)
TRACE_LINK = Call("tracebraid trace-link", _trace_link)
REPAIR = Call("repair", _repair)
CONVERT = Call("tracebraid chakra-converter", _convert)
