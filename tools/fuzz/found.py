"""Keeps what failed: a folder with the files of a mutant for each failure, and a list of them."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tools.fuzz.model import Failure, FailureKind, Sample, Seed
from tools.fuzz.mutants import mutant_of
from tools.fuzz.shrinking import fewest, smallest
from tools.fuzz.tally import Found
from tools.fuzz.watching import Limits, Watched
from tools.fuzz.worker import SAMPLES, Task

__all__ = ["LIST", "minimised", "write_found"]

LIST = "README.md"
"""Of the folder of failures: a line for each."""

MINIMISE_WITHIN_S = 120.0
"""Of each failure."""


def write_found(found: list[Found], run_folder: Path, target: Path, minimise: bool) -> None:
    """Write the first mutant of each failure below a folder, and a list.

    Args:
        found: the failures.
        run_folder: holds the samples.
        target: a folder, made where it is not there.
        minimise: whether the files are made as small as may be.
    """
    samples = msgspec.msgpack.decode((run_folder / SAMPLES).read_bytes(), type=dict[str, list[Sample]])
    lines = ["| folder | seed | kind | call | place | message |", "| --- | --- | --- | --- | --- | --- |"]
    with Watched(run_folder / "minimiser", Limits()) as worker:
        for one in found:
            seed, failure = one.seeds[0], one.first
            files = mutant_of(seed, samples).files
            if minimise:
                files = minimised(files, seed, failure, worker)
            name = re.sub(r"[^a-z0-9]+", "-", f"{failure.kind.value} {failure.identity[1]}".lower()).strip(
                "-"
            )
            for path, data in files.items():
                (target / name / path).parent.mkdir(parents=True, exist_ok=True)
                (target / name / path).write_bytes(data)
            message = " ".join(failure.message.split())[:160].replace("|", "\\|")
            lines.append(
                f"| {name} | {seed} | {failure.kind.value} | {failure.call} | {failure.place} | {message} |"
            )
    target.mkdir(parents=True, exist_ok=True)
    (target / LIST).write_text("\n".join(lines) + "\n")


def minimised(
    files: Mapping[str, bytes], seed: Seed, failure: Failure, worker: Watched
) -> Mapping[str, bytes]:
    """The smallest files found within the time for which the same call fails in the same place.

    Of a silent loss only whole files go: what is cut from a file is lost in truth, and counted by its name.
    """
    until = time.monotonic() + MINIMISE_WITHIN_S

    def fails(smaller: Mapping[str, bytes]) -> bool:
        if time.monotonic() > until:
            return False
        asked = worker.ask(Task(seed, smaller, (failure.call,)))
        return any(one.failure is not None and one.failure.identity == failure.identity for one in asked)

    if failure.kind is FailureKind.SILENT_LOSS:
        return dict(fewest(sorted(files.items()), lambda some: fails(dict(some))))
    return smallest(files, fails)
