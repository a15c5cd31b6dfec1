"""`Capture`: both traces of this process, over the steps of a loop that the schedule names."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from tracebraid.errors import CaptureError, CaptureWarning, TracebraidError
from tracebraid.files import make_folder, refuse_existing
from tracebraid.model.check import Check
from tracebraid.model.step import step_name
from tracebraid.recorders.backends.choose import choose
from tracebraid.recorders.backends.kineto import profiler_is_active
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.session.manifest import manifest, manifest_path, window_data, write_manifest
from tracebraid.recorders.session.overhead import StepTimes
from tracebraid.recorders.session.schedule import Action
from tracebraid.recorders.session.settings import Settings
from tracebraid.recorders.session.termination import Termination
from tracebraid.recorders.session.window import Window, pair_of
from tracebraid.recorders.session.world import World, world

__all__ = ["Capture"]

_TRACED = (Action.WARMUP, Action.RECORD)


class Capture(ContextDecorator):
    """Records the steps that the schedule names; a context manager around a loop, or a decorator of its function.

    Once the loop runs, nothing that goes wrong here stops it: a window that cannot be recorded or written is
    given up with a warning, and the manifest says why.

    Args:
        settings: what to capture.
        at_end: is called with this capture when its files are written.
        warn: is told what was given up; by default a `CaptureWarning`.
    """

    def __init__(
        self,
        settings: Settings,
        at_end: Callable[[Capture], None] | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings
        self.out_dir = Path(settings.out_dir)
        self.windows: list[dict[str, Any]] = []
        self.steps_seen = 0
        self.steps_counted_by = "step()"
        self.rank = 0
        self.checked: Check | None = None
        self._at_end = at_end
        self._warn = warn or _warn
        self._window: Window | None = None
        self._annotation: Any = None
        self._pid: int | None = None
        self._place = World(0, 1, "alone")

    def __enter__(self) -> Capture:
        """Start to count steps; step 0 begins now.

        Raises:
            CaptureError: another capture or a profiler is active in this process.
            OutputError: the folder cannot be written, or holds this rank's files of another run.
        """
        return self.begin(first_step=0)

    def begin(self, first_step: int) -> Capture:
        """Start to count steps, with the one that begins now.

        Args:
            first_step: its number, from 0.

        Raises:
            CaptureError: another capture or a profiler is active in this process; or the native recorder was asked
                for, and cannot be built.
            OutputError: the folder cannot be written, or holds this rank's files of another run.
        """
        if _ACTIVE.pid == os.getpid():
            raise CaptureError("a capture is active in this process already. Leave that one first")
        if profiler_is_active():
            raise CaptureError("a profiler is active in this process. Leave it before the capture begins")
        make_folder(self.out_dir)
        # Building the native recorder takes a while: not in the middle of a step.
        self.settings = replace(self.settings, recorder=choose(self.settings.recorder, self._warn))
        self._locate(anew=True)
        if not self.settings.overwrite:
            refuse_existing(self._targets())
        self.windows, self._window, self._annotation = [], None, None
        self._has_manifest = False
        self._pid = _ACTIVE.pid = os.getpid()
        self._termination = Termination(
            self.finish, lambda error: self._warn(f"what was recorded is lost: {error}")
        )
        self._termination.watch()
        self.count_from(first_step)
        return self

    def count_from(self, step: int) -> None:
        """Count anew, before any window was opened: the step that begins now is this one."""
        assert not self.has_begun, "what was recorded has its numbers"
        self.steps_seen = step
        self._times = StepTimes(self.settings.schedule)
        self._change(Action.SKIP, self.settings.schedule.action(step))
        self._step_began_ns = time.perf_counter_ns()

    def step(self) -> None:
        """An iteration is over; to be called once for each, at its end.

        Raises:
            CaptureError: outside of the context.
        """
        if self._pid is None:
            raise CaptureError("step() belongs inside `with tracebraid.capture(...) as cap:`")
        if not self._is_active:
            return
        ended_ns = time.perf_counter_ns()
        schedule = self.settings.schedule
        with self._termination.held():
            before, after = schedule.action(self.steps_seen), schedule.action(self.steps_seen + 1)
            self._times.add(self.steps_seen, ended_ns - self._step_began_ns, self._annotation is not None)
            self._end_step()
            self.steps_seen += 1
            if before is Action.RECORD and (
                after is not Action.RECORD
                or schedule.window(self.steps_seen) != schedule.window(self.steps_seen - 1)
            ):
                self._close_window(complete=True)
                before = Action.WAIT
            self._change(before, after)
        self._step_began_ns = time.perf_counter_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what was recorded, also when the loop raised: the exception goes on."""
        self.finish("end" if kind is None else kind.__name__)

    def finish(self, ended_by: str = "end") -> None:
        """Write what was recorded, and end the capture; where it is over already, nothing happens.

        Args:
            ended_by: `end`, the name of an exception, or of a signal.
        """
        if not self._is_active:
            return
        with self._termination.held():
            self._end_step()
            self._close_window(complete=False)
            self._pid = _ACTIVE.pid = None
            self._locate()
            self._write_manifest(ended_by)
        self._termination.leave()
        if not any(window["files"] for window in self.windows):
            self._warn(self._nothing_recorded(ended_by))
        if self._at_end is not None:
            self._at_end(self)

    @property
    def manifest_path(self) -> Path:
        """Where the manifest lies."""
        return manifest_path(self.out_dir, self.rank)

    @property
    def has_begun(self) -> bool:
        """Whether a window was opened."""
        return self._window is not None or bool(self.windows)

    @property
    def _is_active(self) -> bool:
        return self._pid == os.getpid()

    def _change(self, before: Action, after: Action) -> None:
        """Go from what happened during the last step to what happens during the next one."""
        try:
            if after in _TRACED and before not in _TRACED:
                self._open_window()
            if self._window is not None and after is Action.RECORD:
                if before is not Action.RECORD:
                    self._window.start()
                self._annotation = torch.profiler.record_function(step_name(self.steps_seen))
                self._annotation.__enter__()
        except (TracebraidError, RuntimeError) as error:
            self._give_up(error)

    def _locate(self, anew: bool = False) -> None:
        """Ask for rank and world; what torch.distributed told stays, also when its groups are gone."""
        if anew or self._place.source != "torch.distributed":
            self._place = world()
            self.rank = self._place.rank

    def _open_window(self) -> None:
        self._locate()
        number = self.settings.schedule.window(self.steps_seen)
        self._window = Window(self._folder(number), self.rank, self.settings)
        self._window.prepare()

    def _end_step(self) -> None:
        if self._annotation is not None:
            self._annotation.__exit__(None, None, None)
            self._annotation = None
            assert self._window is not None, "a step is annotated inside a window"
            self._window.steps.append(self.steps_seen)

    def _close_window(self, complete: bool) -> None:
        window, self._window = self._window, None
        if window is None:
            return
        if not window.steps:
            window.discard()
            return
        failure = ""
        try:
            window.stop()
            window.write()
        except (TracebraidError, RuntimeError) as error:
            failure = str(error)
            window.discard()
        self.windows.append(window_data(window, self.out_dir, failure, complete and not failure))
        if failure:
            self._warn(f"the window of steps {window.steps} is lost: {failure}")
        if complete:
            # What comes next may kill the process.
            self._write_manifest(None)

    def _give_up(self, error: Exception) -> None:
        window, self._window = self._window, None
        assert window is not None, "only a window can be given up"
        window.discard()
        self.windows.append(window_data(window, self.out_dir, str(error), False))
        self._warn(f"the window that opens with step {self.steps_seen} is not recorded: {error}")

    def _nothing_recorded(self, ended_by: str) -> str:
        if self.windows:
            return f"nothing was recorded: {self.windows[0]['failure']}"
        schedule = self.settings.schedule
        return (
            f"nothing was recorded: the loop ended after {self.steps_seen} steps ({ended_by}), and the first window "
            f"is steps {schedule.first_recorded} to {schedule.steps_needed - 1}, counted from 0. Lower skip_first "
            f"({schedule.skip_first}), wait ({schedule.wait}) or warmup ({schedule.warmup}), or run more steps"
        )

    def _folder(self, number: int) -> Path:
        return self.out_dir if self.settings.schedule.repeat == 1 else self.out_dir / f"window_{number}"

    def _targets(self) -> list[Path]:
        folders = [self._folder(number) for number in range(self.settings.schedule.repeat)]
        pairs = [path for folder in folders for path in pair_of(folder, self.rank)]
        return [manifest_path(self.out_dir, self.rank), *pairs]

    def _write_manifest(self, ended_by: str | None) -> None:
        ending = {
            "steps_seen": self.steps_seen,
            "steps_counted_by": self.steps_counted_by,
            "ended_by": ended_by,
        }
        data = manifest(self.settings, self._place, self._times, self.windows, ending)
        try:
            write_manifest(self.out_dir, data, self.settings.overwrite or self._has_manifest)
            self._has_manifest = True
        except TracebraidError as error:
            self._warn(f"the manifest is lost: {error}")


class _Active:
    """Which process a capture is active in: Kineto has one session per process, so there is one at a time."""

    pid: int | None = None


_ACTIVE = _Active()


def _warn(message: str) -> None:
    warnings.warn(message, CaptureWarning, stacklevel=3)
