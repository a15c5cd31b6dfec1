"""The windows of a capture, opened and closed as the steps of a loop go by."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from tracebraid.errors import TracebraidError
from tracebraid.recorders.backends.other_profilers import OtherProfilers
from tracebraid.recorders.own_process import get_ident, getpid
from tracebraid.recorders.session.calibration import measured_costs
from tracebraid.recorders.session.manifest import lost_window, window_data
from tracebraid.recorders.session.place import Place
from tracebraid.recorders.session.progress import Counted, Progress
from tracebraid.recorders.session.schedule import Action
from tracebraid.recorders.session.settings import Settings
from tracebraid.recorders.session.window import Window

_OTHER_PROFILER = (
    "another profiler was active where a window was to open, and Kineto has one session per process"
)
_OTHER_THREAD = (
    "steps or a profiler followed on another thread, which cannot end a session that records allocations"
)


class Target(Struct, frozen=True):
    """Destination of the windows.

    Args:
        settings: what to record.
        locate: returns this process's place; called as a window opens.
        clear: removes what a dead process left in a place; called before the first file is written there.
        wait_for_edge: returns when a window may open or close.
    """

    settings: Settings
    locate: Callable[[], Place]
    clear: Callable[[], None]
    wait_for_edge: Callable[[], None]

    def folder(self, out_dir: Path, window: int) -> Path:
        """The folder of a window."""
        return out_dir if self.settings.schedule.repeat == 1 else out_dir / f"window_{window}"


class Recording:
    """Both recorders, over the windows of the loop that is followed.

    Args:
        target: destination of the windows.
        on_loss: called with a message on each lost window.
    """

    def __init__(self, target: Target, on_loss: Callable[[str], None]) -> None:
        self.progress = Progress(target.settings.schedule, Counted(), 0)
        self.target = target
        self._on_loss = on_loss
        self._earlier: Progress | None = None
        self._others = OtherProfilers(self._stop_for_other)
        self._window: Window | None = None
        self._out_dir = Path(target.settings.out_dir)
        self._pid = getpid()
        self._thread = 0
        self._step_began_ns = 0
        self._abandoned: tuple[int, Window] | None = None

    def begin(self, counted: Counted, first_step: int) -> None:
        """Count the steps of a loop; the one that begins now has the number `first_step`."""
        self._others.watch()
        self._count(counted, first_step)

    def follow(self, counted: Counted) -> None:
        """Count the steps of another loop, of which one is over; its windows replace the existing ones."""
        if self._is_out_of_reach:
            self._abandon_window()
        self.end_step(is_step=False)
        self._close_window(complete=False)
        if self.progress.has_files:
            self._earlier = self.progress
        self._count(counted, first_step=1)

    def step(self) -> bool:
        """A step is over, and the next one begins: whether that closed a window."""
        ended_ns = time.perf_counter_ns()
        closes = self.progress.closes_window
        recorded = self.end_step()
        self.progress.end_step(ended_ns - self._step_began_ns, recorded)
        closed = closes and self._close_window(complete=True)
        self._begin_step()
        self._step_began_ns = time.perf_counter_ns()
        return closed

    def end_step(self, is_step: bool = True) -> bool:
        """End the step in the window, if there is one: whether it was recorded."""
        if self._window is None or not self._window.is_in_step:
            return False
        self._window.end_step(self.progress.steps_seen, is_step)
        return True

    def finish(self) -> None:
        """Write the recording. If the last followed loop has no files, those of an earlier one remain."""
        if self._is_out_of_reach:
            self._abandon_window()
        self._close_window(complete=False)
        self._end_abandoned()
        self._others.leave()
        if self._earlier is not None and not self.progress.has_files:
            self.progress = self._earlier
        if self._abandoned is not None and not self.progress.windows:
            self.progress.windows.append(lost_window(_OTHER_THREAD))
        if self.progress.is_postponed and not self.progress.windows:
            self.progress.windows.append(lost_window(_OTHER_PROFILER))
            self._on_loss(f"nothing was recorded: {_OTHER_PROFILER}")

    def measure_costs(self) -> dict[str, Any]:
        """Measure what recording costs; empty where a profiler is open, or nothing was recorded."""
        is_open = self._window is not None or self._abandoned is not None or self._others.is_active
        if is_open or not self.progress.has_files:
            return {}
        with self._others.not_this():
            return measured_costs(self.target.settings)

    def discard(self) -> None:
        """Release the recorders, without writing anything."""
        if self._is_out_of_reach:
            self._abandon_window()
        self.end_step(is_step=False)
        self._discard_window()
        self._end_abandoned()
        self._others.leave()

    def _count(self, counted: Counted, first_step: int) -> None:
        self.progress = Progress(self.target.settings.schedule, counted, first_step)
        self._thread = get_ident()
        self._begin_step()
        self._step_began_ns = time.perf_counter_ns()

    def _begin_step(self) -> None:
        """Carry out the schedule's action for the step that begins."""
        progress = self.progress
        action = progress.action
        if action not in (Action.WARMUP, Action.RECORD) or self._abandoned is not None:
            return
        try:
            if self._window is None and progress.opens_window:
                if self._others.is_active:
                    progress.postpone()
                    return
                self._open_window()
            if self._window is not None and action is Action.RECORD:
                with self._others.not_this():
                    self._window.begin_step(progress.steps_seen)
        except (TracebraidError, RuntimeError) as error:
            self._abort(error)

    def _stop_for_other(self) -> None:
        """Another profiler begins, on any thread: end our session, as two at once would corrupt both."""
        if self._window is None or self._pid != getpid():
            return
        if self._is_out_of_reach:
            self._abandon_window()
            return
        if get_ident() == self._thread:
            self.end_step(is_step=False)
        recorded = len(self._window.steps)
        self._discard_window()
        self.progress.postpone(recorded)

    def _open_window(self) -> None:
        place = self.target.locate()
        self._out_dir = place.folder
        folder = self.target.folder(place.folder, self.progress.window)
        self._window = Window(folder, place.rank, self.target.settings, self.progress.times)
        self.target.wait_for_edge()
        with self._others.not_this():
            self._window.prepare(self._replaceable(), place.replaces)

    def _replaceable(self) -> list[Path]:
        """Recording of the previously followed loop."""
        windows = [] if self._earlier is None else self._earlier.windows
        return [self._out_dir / file["path"] for window in windows for file in window["files"]]

    def _close_window(self, complete: bool) -> bool:
        """Write the window that is open, if there is one; whether it had a step."""
        window = self._window
        if window is None:
            return False
        if not window.steps:
            self._discard_window()
            return False
        self._window = None
        failure = ""
        try:
            self.target.wait_for_edge()
            with self._others.not_this():
                window.stop()
            self.target.clear()
            if complete:
                for path in self._replaceable():
                    path.unlink(missing_ok=True)
                self._earlier = None
            window.write()
        except (TracebraidError, RuntimeError) as error:
            failure = str(error)
            window.discard()
        data = window_data(window, self._out_dir, failure, complete and not failure)
        self.progress.windows.append(data)
        if failure:
            self._on_loss(f"the window of steps {window.steps} is lost: {failure}")
        return True

    def _abort(self, error: Exception) -> None:
        window = self._window
        self._discard_window()
        failed = (
            lost_window(str(error))
            if window is None
            else window_data(window, self._out_dir, str(error), False)
        )
        self.progress.windows.append(failed)
        self._on_loss(f"the window that opens with step {self.progress.steps_seen} is not recorded: {error}")

    @property
    def _is_out_of_reach(self) -> bool:
        """Return whether a window is open whose session belongs to another thread: ending it here would crash the
        process.

        A session that records all threads belongs to none; one with allocations belongs to the thread that began it.
        """
        is_of_thread = self.target.settings.memory and get_ident() != self._thread
        return self._window is not None and is_of_thread

    def _abandon_window(self) -> None:
        """Leave a session that is out of reach as it is; there can be no other one in this process."""
        assert self._window is not None, "only a window can be abandoned"
        self._abandoned = self._thread, self._window
        self._window.abandon()
        self._window = None
        self._on_loss(f"the window is lost: {_OTHER_THREAD}")

    def _end_abandoned(self) -> None:
        """End the session that was out of reach, if this is its thread: a process that ends with it open crashes."""
        if self._abandoned is not None and self._abandoned[0] == get_ident():
            with self._others.not_this():
                self._abandoned[1].discard()

    def _discard_window(self) -> None:
        window, self._window = self._window, None
        if window is not None:
            with self._others.not_this():
                window.discard()
