"""SIGTERM and Ctrl-C during a capture: the files are completed, then the signal has its usual effect."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tracebraid.recorders.guard import Guard
from tracebraid.recorders.own_process import getpid


class Termination:
    """Finishes a capture when SIGTERM comes, and keeps Ctrl-C out of moments when files are half written.

    Handlers of the program remain; outside the main thread, where Python allows none, no handler is set.

    Args:
        finish: writes the recording; called with `SIGTERM`.
        on_failure: called with what `finish` raises; the signal has its effect all the same.
    """

    def __init__(self, finish: Callable[[str], None], on_failure: Callable[[BaseException], None]) -> None:
        self._finish = finish
        self._guard = Guard(on_failure)
        self._held = 0
        self._came: list[int] = []
        self._previous: dict[int, object] = {}

    def watch(self) -> None:
        """Set handlers for both signals if they have the default."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, default in (
            (signal.SIGTERM, signal.SIG_DFL),
            (signal.SIGINT, signal.default_int_handler),
        ):
            if signal.getsignal(number) is default:
                self._previous[number] = signal.signal(number, self._on_signal)

    def leave(self) -> None:
        """Restore the previous handlers, unless the program has replaced ours since."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in list(self._previous):
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, self._previous[number])  # type: ignore[arg-type]
            del self._previous[number]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer signals while recorders or files are in an inconsistent state; a second signal is not deferred."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if self._came and not self._held:
                number = self._came.pop()
                if threading.current_thread() is threading.main_thread():
                    self._act(number)
                else:
                    # Signals have their effect on the main thread, to which this one comes again.
                    os.kill(getpid(), number)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._held and not self._came:
            self._came.append(number)
        else:
            self._act(number)

    def _act(self, number: int) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        with self._guard:
            self._finish("SIGTERM")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(getpid(), signal.SIGTERM)
