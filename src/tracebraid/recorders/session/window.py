"""One window: both recorders over the same steps, and the files that they leave."""

from __future__ import annotations

from pathlib import Path

from tracebraid.files import refuse_existing, writing
from tracebraid.model.finding import Finding
from tracebraid.recorders.backends.kineto import KinetoRecorder
from tracebraid.recorders.backends.nsys import NsysRecorder
from tracebraid.recorders.observer import ExecutionTraceObserver
from tracebraid.recorders.session.settings import Settings

__all__ = ["Window", "pair_of"]


def pair_of(folder: Path, rank: int) -> tuple[Path, Path]:
    """The Execution Trace and the Kineto trace of a rank, named as readers look for them."""
    return folder / f"torch_et_{rank}.json.gz", folder / f"kineto_trace_{rank}.json.gz"


class Window:
    """Both recorders over some steps: `prepare`, `start`, `stop`, `write`; or `discard` at any time.

    Args:
        folder: where its files go.
        rank: whose they are.
        settings: what to record.
    """

    def __init__(self, folder: Path, rank: int, settings: Settings) -> None:
        self.folder = folder
        self.steps: list[int] = []
        self.findings: list[Finding] = []
        self.sizes_bytes: dict[str, int] = {}
        self._settings = settings
        self._et, self._kineto = pair_of(folder, rank)
        self._observer = ExecutionTraceObserver(settings.recorder, settings.overwrite, finish_at_exit=False)
        self._times: KinetoRecorder | NsysRecorder | None = None

    def prepare(self) -> None:
        """Set both recorders up; the profiler warms up from here on.

        Raises:
            CaptureError: another profiler or observer is active in this process.
            OutputError: the folder cannot be written, or the files are there already.
        """
        if not self._settings.overwrite:
            refuse_existing((self._et, self._kineto))
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._observer.register_callback(self._et)
        if self._settings.nsys:
            self._times = NsysRecorder(self._observer)
        else:
            self._times = KinetoRecorder(self._kineto, self._settings, self._observer)

    def start(self) -> None:
        """Record from now on."""
        assert self._times is not None, "prepare() comes first"
        self._times.start()

    def stop(self) -> None:
        """Record no longer."""
        if self._times is not None:
            self._times.stop()

    def write(self) -> None:
        """Write the files, each whole or not at all.

        Raises:
            OutputError: one cannot be written; the other may be there.
        """
        self._observer.unregister_callback()
        self.findings += self._observer.findings
        self.sizes_bytes[self._et.name] = self._et.stat().st_size
        if isinstance(self._times, KinetoRecorder):
            self.sizes_bytes[self._kineto.name], found = self._times.write()
            self.findings += found

    def discard(self) -> None:
        """Let both recorders go, in whatever state they are, without writing anything."""
        if self._times is not None:
            self._times.discard()
        self._observer.discard()
