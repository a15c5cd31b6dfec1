"""The resident memory of long programs that record window after window: it may not grow after the first minute."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tools.stress.endless import READY
from tools.stress.model import Capturing, Problem, ProblemKind, Trial, Way
from tools.stress.runner import ROOT

_SETTLED_S = 60.0
"""Seconds after which nothing may grow: by then each kind of window was recorded many times."""
_ALLOWED_MB = 24.0
"""The variation of a program that records nothing, and the manifest of thousands of windows."""
_EVERY_S = 1.0
_PARTS = 5
"""The first of so many parts of the time is compared with the last: medians of each."""


@dataclass
class Growth:
    """Samples of resident memory: seconds since the start and MB, by program."""

    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)

    def grown_mb(self, name: str) -> float | None:
        """By how much a program's memory grew after the first minute; None where it did not run for long enough."""
        later = [mb for at_s, mb in self.samples.get(name, []) if at_s > _SETTLED_S]
        share = len(later) // _PARTS
        return median(later[-share:]) - median(later[:share]) if share else None

    def problems(self) -> list[Problem]:
        """Programs that grew, or that ended before they were told to."""
        found = []
        for name in [*self.samples, *(name for name in self.ended if name not in self.samples)]:
            trial = Trial(f"growth of {name}", 0, Capturing(Way.CONTEXT))
            grown = self.grown_mb(name)
            if grown is not None and grown > _ALLOWED_MB:
                found.append(Problem(ProblemKind.GROWTH, trial, f"{grown:.1f} MB after the first minute"))
            if name in self.ended:
                found.append(Problem(ProblemKind.EXIT, trial, self.ended[name]))
        return found

    def lines(self) -> list[str]:
        """A table, as Markdown."""
        if not self.samples:
            return []
        lines = [
            "",
            "| long program | seconds | MB after a minute | MB at the end | grown by |",
            "|---|--:|--:|--:|--:|",
        ]
        for name, samples in self.samples.items():
            settled = next((mb for at_s, mb in samples if at_s > _SETTLED_S), None)
            first = "" if settled is None else f"{settled:.0f}"
            grown = self.grown_mb(name)
            told = "" if grown is None else f"{grown:+.1f}"
            lines.append(f"| {name} | {samples[-1][0]:.0f} | {first} | {samples[-1][1]:.0f} | {told} |")
        missing = [kind for kind in _KINDS if kind not in self.samples]
        return [*lines, *(f"| {kind} | no window in this time | | | |" for kind in missing)]


_KINDS = ("capture native", "capture torch", "observers native", "observers torch")


@contextmanager
def watch_growth(folder: Path, wanted: bool) -> Iterator[Growth]:
    """Run the long programs beside, and sample their memory."""
    growth = Growth()
    if not wanted:
        yield growth
        return
    over = threading.Event()
    programs = {kind: _start(_folder(folder, kind), kind) for kind in _KINDS}
    sampler = threading.Thread(target=_sample, args=(growth, folder, programs, over))
    sampler.start()
    try:
        yield growth
    finally:
        over.set()
        sampler.join()
        for kind, program in programs.items():
            if program.poll() is not None:
                said = (_folder(folder, kind) / "stderr").read_text(errors="replace")
                growth.ended[kind] = f"it ended with {program.returncode}: {said[-600:]}"
            program.kill()
            program.wait()


def _start(folder: Path, kind: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True)
    with (folder / "stderr").open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "tools.stress.endless", *kind.split(), str(folder)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )


def _sample(
    growth: Growth, folder: Path, programs: dict[str, subprocess.Popen[bytes]], over: threading.Event
) -> None:
    """The clock of each program starts with its first window: on a busy machine it imports torch for long."""
    began_s: dict[str, float] = {}
    while not over.wait(_EVERY_S):
        for name, program in programs.items():
            if not (_folder(folder, name) / READY).exists():
                continue
            at_s = time.monotonic() - began_s.setdefault(name, time.monotonic())
            with suppress(OSError, StopIteration):
                lines = Path(f"/proc/{program.pid}/status").read_text().splitlines()
                kb = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
                growth.samples.setdefault(name, []).append((at_s, kb / 1024))


def _folder(folder: Path, kind: str) -> Path:
    return folder / kind.replace(" ", "_")
