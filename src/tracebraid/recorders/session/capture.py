"""`Capture`: both traces of this process, over the steps of a loop that the schedule names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from msgspec.structs import replace

from tracebraid.errors import CaptureError, CaptureWarning, TracebraidError
from tracebraid.files import make_folder, refuse_existing
from tracebraid.model.capture_facts import COSTS
from tracebraid.model.check import Check
from tracebraid.recorders.backends.choose import choose
from tracebraid.recorders.backends.other_profilers import profiler_is_active
from tracebraid.recorders.guard import Guard
from tracebraid.recorders.own_process import getpid
from tracebraid.recorders.session.active import become_active, leave_active, refuse_second
from tracebraid.recorders.session.manifest import (
    files_of,
    is_of_earlier_attempt,
    manifest,
    manifest_path,
    write_manifest,
)
from tracebraid.recorders.session.numbered import numbered_folder
from tracebraid.recorders.session.place import Place, TakePlace, left_by_dead, only_place
from tracebraid.recorders.session.progress import Counted
from tracebraid.recorders.session.recording import Recording, Target
from tracebraid.recorders.session.settings import Settings
from tracebraid.recorders.session.termination import Termination
from tracebraid.recorders.session.window import pair_of
from tracebraid.recorders.session.world import World, world

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result", covariant=True)
_BY_CALLS = Counted()


class CapturedFunction(Protocol[_Arguments, _Result]):
    """A function that a capture decorates; each call of it is captured."""

    capture: Capture
    """Its `step()` ends an iteration."""

    def __call__(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        """Call the function."""


class Capture(ContextDecorator):
    """Records the steps that the schedule names; a context manager around a loop, or a decorator of its function.

    Once the loop runs, no failure here stops it: a window that cannot be recorded or written is
    skipped with a warning, and the manifest says why. Where another profiler is active, a window opens later.

    Args:
        settings: what to capture.
        at_end: called with this capture when its files are written.
        warn: called with a message on each loss; by default it issues a `CaptureWarning`.
        is_guest: whether the program was started by `tracebraid capture`: then its own profilers and captures take
            precedence, and what comes after the last whole step is no step.
        take_place: gives the folder of this process's files, among processes of the same rank; by default it is the
            folder of the settings.
        wait_for_edge: returns when a window may open or close.
    """

    def __init__(
        self,
        settings: Settings,
        at_end: Callable[[Capture], None] | None = None,
        warn: Callable[[str], None] | None = None,
        is_guest: bool = False,
        take_place: TakePlace | None = None,
        wait_for_edge: Callable[[], None] = lambda: None,
    ) -> None:
        self.settings = settings
        self.out_dir = Path(settings.out_dir)
        self.rank = 0
        self.checked: Check | None = None
        self.loops: Callable[[], list[dict[str, Any]]] = list
        self.further_steps: Callable[[], int] = lambda: 0
        self.counts_to_end = True
        self.ended_by: str | None = None
        self.is_guest = is_guest
        self.has_stopped_for_other = False
        self._at_end = at_end
        self._warn = warn or _warn
        self._take_place = take_place
        self._wait_for_edge = wait_for_edge
        self._place: Place | None = None
        self._recording = self._new_recording()
        self._pid: int | None = None
        self._has_manifest = False
        self._costs: dict[str, Any] = {}
        self._world = World(0, 1, "alone")

    def __call__(  # type: ignore[override]
        self, function: Callable[_Arguments, _Result]
    ) -> CapturedFunction[_Arguments, _Result]:
        """Capture each call of a function, whose attribute `capture` has the method `step()` to end an iteration."""
        decorated: Any = super().__call__(function)
        decorated.capture = self
        return cast("CapturedFunction[_Arguments, _Result]", decorated)

    def __enter__(self) -> Capture:
        """Start to count steps; step 0 begins now.

        Raises:
            CaptureError: another capture or a profiler is active in this process.
            OutputError: the folder cannot be written, or contains this rank's files of another run.
        """
        return self.begin(first_step=0)

    def begin(self, first_step: int, counted: Counted = _BY_CALLS) -> Capture:
        """Start to count steps, with the one that begins now.

        Args:
            first_step: its number, from 0.
            counted: what ends a step.

        Raises:
            CaptureError: another capture or a profiler is active in this process; or the native recorder was asked
                for, and cannot be built.
            OutputError: the folder cannot be written, or contains this rank's files of another run.
        """
        refuse_second(self)
        if not self.is_guest and profiler_is_active():
            raise CaptureError("a profiler is active in this process. End it before the capture begins")
        self._locate(anew=True)
        self._find_folder()
        # Building the native recorder takes some 15 seconds: it must not fall into a step.
        self.settings = replace(self.settings, recorder=choose(self.settings.recorder, self._warn))
        replaces = is_of_earlier_attempt(self.out_dir, self.rank)
        if not self.settings.overwrite and self._take_place is None and not replaces:
            refuse_existing(self._targets())
        self._has_manifest = False
        self._place = None
        self.ended_by = None
        self._costs = {}
        self._pid = getpid()
        become_active(self)
        self._termination = Termination(
            self.finish, lambda error: self._warn(f"the recording is lost: {error}")
        )
        self._termination.watch()
        self._recording = self._new_recording()
        self._recording.begin(counted, first_step)
        return self

    def follow(self, counted: Counted) -> None:
        """Count the steps of another loop, whose first step has just ended; its windows replace those of the others."""
        if self._is_active:
            with self._termination.held():
                self._recording.follow(counted)

    def step(self) -> None:
        """An iteration is over; to be called once for each, at its end.

        Raises:
            CaptureError: outside the context.
        """
        if self._pid is None and not self.has_stopped_for_other:
            raise CaptureError("step() belongs inside `with tracebraid.capture(...) as cap:`")
        if not self._is_active:
            return
        if self._recording.progress.is_settled:
            self._recording.progress.steps_seen += 1
            return
        with self._termination.held():
            if self._recording.step():
                # The manifest is written now, as the process may be killed later.
                self._write_manifest(None)
                if self._calibrate():
                    self._write_manifest(None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write the recording, even if the loop raised; the exception is propagated."""
        self.finish("end" if kind is None else kind.__name__)

    def finish(self, ended_by: str = "end") -> None:
        """Write the recording, and end the capture; no effect if it has ended already.

        Args:
            ended_by: `end`, the name of an exception, or of a signal.
        """
        if not self._is_active:
            return
        with self._termination.held():
            self.ended_by = ended_by
            # A loop that an exception or a signal ended was inside a step.
            self._recording.end_step(is_step=ended_by != "end" and not self.is_guest)
            self._recording.finish()
            if ended_by == "end" and not self.is_guest:
                self._calibrate()
            self._leave()
            self._locate()
            self._write_manifest(ended_by)
        self._termination.leave()
        if not self.is_guest:
            self._warn_nothing_recorded(ended_by)
        if self._at_end is not None:
            self._at_end(self)

    def stop_for_other(self) -> None:
        """End in favour of a capture of the program's own; without a manifest if nothing was written."""
        self.has_stopped_for_other = True
        if self._recording.progress.has_files:
            self.finish()
            return
        self._recording.discard()
        self._leave()
        self._termination.leave()

    @property
    def windows(self) -> list[dict[str, Any]]:
        """Manifest entry of each window."""
        return self._recording.progress.windows

    @property
    def steps_seen(self) -> int:
        """Return how many steps have ended."""
        return self._recording.progress.steps_seen + self.further_steps()

    @property
    def steps_counted_by(self) -> str:
        """Event that ends a step: `step()`, `optimizer` or `module`."""
        return self._recording.progress.counted.by

    @property
    def is_complete(self) -> bool:
        """Return whether all windows are recorded and written."""
        return self._recording.progress.is_complete and self._recording.progress.has_files

    @property
    def is_settled(self) -> bool:
        """Return whether it is complete, and the steps that are compared with the recorded ones are over too."""
        return self.is_complete and self._recording.progress.is_settled

    @property
    def manifest_path(self) -> Path:
        """The path of the manifest."""
        return manifest_path(self.out_dir, self.rank)

    @property
    def _is_active(self) -> bool:
        return self._pid == getpid()

    def _new_recording(self) -> Recording:
        target = Target(self.settings, self._place_of_window, self._clear_place, self._wait_for_edge)
        return Recording(target, self._warn_of_loss)

    def _leave(self) -> None:
        self._pid = None
        leave_active()

    def _locate(self, anew: bool = False) -> int:
        """Return the current rank; that of torch.distributed is kept after its groups are destroyed."""
        if anew or self._world.source != "torch.distributed":
            self._world = world()
            self.rank = self._world.rank
        return self.rank

    def _place_of_window(self) -> Place:
        place = self._locate_place(has_files=True)
        assert place is not None, "there is one, or an error"
        return place

    def _locate_place(self, has_files: bool) -> Place | None:
        """Return the place of this process's files, by its current rank; None: others have all of them."""
        rank = self._locate()
        take = self._take_place
        place = self._only_place(rank) if take is None else take(rank, has_files)
        if place is not None and (self._place is None or place.rank != self._place.rank):
            self._place, self.out_dir = place, place.folder
        return self._place if place is not None else None

    def _only_place(self, rank: int) -> Place:
        return replace(only_place(self.out_dir, rank), replaces=is_of_earlier_attempt(self.out_dir, rank))

    def _clear_place(self) -> None:
        """Remove what a dead process left in the place, before the first file is written there."""
        place = self._place
        if place is None or not place.replaces:
            return
        self._place = replace(place, replaces=False)
        for path in (*files_of(place.folder, place.rank), *left_by_dead(place)):
            with suppress(OSError):
                path.unlink()

    def _find_folder(self) -> None:
        """Choose the folder of the files, and check that it is writable."""
        self.out_dir = Path(self.settings.out_dir)
        if self.settings.new:
            self.out_dir = numbered_folder(self.out_dir, self._targets)
        make_folder(self.out_dir)

    def _calibrate(self) -> bool:
        """Measure the costs of recording, once; a failure leaves them unknown. Return whether they are new."""
        if not self.settings.calibrate or self._costs:
            return False
        with Guard(lambda error: None):
            self._costs = self._recording.measure_costs()
        return bool(self._costs)

    def _warn_of_loss(self, message: str) -> None:
        # A guest's losses are reported by the launcher at the end.
        if not self.is_guest:
            self._warn(message)

    def _warn_nothing_recorded(self, ended_by: str) -> None:
        """Warn that no window opened; a lost window is reported elsewhere."""
        if self.windows:
            return
        schedule, first = self.settings.schedule, self._recording.progress.first_recorded
        self._warn(
            f"nothing was recorded: the loop ended after {self.steps_seen} steps ({ended_by}), and the first window "
            f"is steps {first} to {first + schedule.active - 1}, counted from 0. Lower skip_first "
            f"({schedule.skip_first}), wait ({schedule.wait}) or warmup ({schedule.warmup}), or run more steps"
        )

    def _targets(self) -> list[Path]:
        target = self._recording.target
        folders = [target.folder(self.out_dir, number) for number in range(self.settings.schedule.repeat)]
        pairs = [path for folder in folders for path in pair_of(folder, self.rank)]
        return [manifest_path(self.out_dir, self.rank), *pairs]

    def _write_manifest(self, ended_by: str | None) -> None:
        ending = {
            "steps_seen": self.steps_seen,
            "counted_to_end": self.counts_to_end,
            "steps_counted_by": self.steps_counted_by,
            "loop": self._recording.progress.counted.name or None,
            "ended_by": ended_by,
            "loops": self.loops(),
        }
        has_files = self._recording.progress.has_files
        try:
            place = self._locate_place(has_files)
            if place is None or (
                place.replaces and not has_files and len(files_of(place.folder, place.rank)) > 1
            ):
                # Another process of this rank has recorded something, and this one nothing.
                return
            self._clear_place()
            data = manifest(self.settings, self._world, place, self._recording.progress, ending)
            data[COSTS] = self._costs or None
            may_replace = self.settings.overwrite or self._has_manifest
            if not may_replace and not has_files:
                # Files that exist by now are another process's, and so is the name of the manifest beside them.
                refuse_existing(self._targets())
            write_manifest(self.out_dir, data, may_replace)
            self._has_manifest = True
        except TracebraidError as error:
            self._warn(f"the manifest is lost: {error}")


def _warn(message: str) -> None:
    warnings.warn(message, CaptureWarning, stacklevel=3)
