"""One window: both recorders over the same steps, and the files that they leave."""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracebraid.files import refuse_existing, writing
from tracebraid.model.finding import Finding
from tracebraid.model.step import step_name
from tracebraid.recorders.backends.kineto import KinetoRecorder
from tracebraid.recorders.backends.nsys import NsysRecorder
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.observer import ExecutionTraceObserver
from tracebraid.recorders.session.overhead import StepTimes
from tracebraid.recorders.session.process_facts import ProcessFacts
from tracebraid.recorders.session.settings import Settings

_TAIL = "after the last step"
"""Name of the part after the last step, up to the end of the process."""


def pair_of(folder: Path, rank: int) -> tuple[Path, Path]:
    """The Execution Trace and the Kineto trace of a rank, under the names that readers search for."""
    return folder / f"torch_et_{rank}.json.gz", folder / f"kineto_trace_{rank}.json.gz"


class Window:
    """Both recorders over some steps: `prepare`, `start`, steps, `stop`, `write`; or `discard` at any time.

    Args:
        folder: the folder of its files.
        rank: the rank.
        settings: what to record.
        times: durations of the steps so far.
    """

    def __init__(self, folder: Path, rank: int, settings: Settings, times: StepTimes) -> None:
        self.folder = folder
        self.steps: list[int] = []
        self.findings: list[Finding] = []
        self.sizes_bytes: dict[str, int] = {}
        self._settings = settings
        self._et, self._kineto = pair_of(folder, rank)
        self._observer = ExecutionTraceObserver(settings.recorder, settings.overwrite, finish_at_exit=False)
        self._times: KinetoRecorder | NsysRecorder | None = None
        self._facts = ProcessFacts(times)
        self._is_running = False
        self._annotation: Any = None
        self._renamed: dict[str, str] = {}

    @property
    def paths(self) -> tuple[Path, Path]:
        """Its files, once they are written."""
        return self._et, self._kineto

    @property
    def process(self) -> dict[str, Any]:
        """Facts about the process while it was recorded; empty before it is over."""
        return self._facts.facts

    @property
    def is_in_step(self) -> bool:
        """Return whether a step is being recorded."""
        return self._annotation is not None

    def prepare(self, may_replace: Container[Path] = (), replaces_all: bool = False) -> None:
        """Set both recorders up; the profiler warms up from here on."""
        if not self._settings.overwrite and not replaces_all:
            refuse_existing(path for path in self.paths if path not in may_replace)
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._observer.register_callback(self._et)
        if self._settings.nsys:
            self._times = NsysRecorder(self._observer)
        else:
            self._times = KinetoRecorder(self._kineto, self._settings, self._observer, self._facts)

    def begin_step(self, number: int) -> None:
        """Record from now on, if that is not so already, and mark the step that begins."""
        if not self._is_running:
            self.start()
        name = step_name(number)
        self._annotation = torch.profiler.record_function(name)
        self._facts.begin_step(number, name)
        self._annotation.__enter__()

    def end_step(self, number: int, is_step: bool = True) -> None:
        """The step is over."""
        if self._annotation is None:
            return
        self._annotation.__exit__(None, None, None)
        self._annotation = None
        if is_step:
            self.steps.append(number)
            self._facts.end_step()
        else:
            self._renamed[step_name(number)] = _TAIL

    def start(self) -> None:
        """Record from now on."""
        assert self._times is not None, "prepare() comes first"
        self._times.start()
        self._is_running = True

    def stop(self) -> None:
        """Record no longer."""
        if self._times is not None:
            self._times.stop()

    def write(self) -> None:
        """Write the files, each whole or not at all."""
        for old, new in self._renamed.items():
            self._observer.rename(old, new)
        self._observer.unregister_callback()
        self.findings += self._observer.findings
        self.sizes_bytes[self._et.name] = self._et.stat().st_size
        if isinstance(self._times, KinetoRecorder):
            self.sizes_bytes[self._kineto.name], found = self._times.write(self._renamed)
            self.findings += found

    def abandon(self) -> None:
        """Leave Kineto running, since it cannot be ended from here, and release the other recorder."""
        self._observer.discard()

    def discard(self) -> None:
        """Release both recorders, in any state, without writing anything."""
        if self._times is not None:
            self._times.discard()
        self._observer.discard()
        if self._settings.schedule.repeat > 1:
            with suppress(OSError):  # It is not empty: another rank has written there.
                self.folder.rmdir()
