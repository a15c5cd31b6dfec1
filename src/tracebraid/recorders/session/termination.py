"""SIGTERM and Ctrl-C in the middle of a capture: the files are whole, then the signal does what it does without us."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tracebraid.recorders.guard import Guard

__all__ = ["Termination"]


class Termination:
    """Finishes a capture when SIGTERM comes, and keeps Ctrl-C out of moments when files are half written.

    Handlers that the program has set are left alone, and so is a loop outside the main thread, where Python
    runs none.

    Args:
        finish: writes what was recorded; is called with `SIGTERM`.
        on_failure: is given what `finish` raises; the signal does what it does all the same.
    """

    def __init__(self, finish: Callable[[str], None], on_failure: Callable[[BaseException], None]) -> None:
        self._finish = finish
        self._guard = Guard(on_failure)
        self._held = 0
        self._came: list[int] = []
        self._theirs: dict[int, object] = {}

    def watch(self) -> None:
        """Take both signals over, where nobody has."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number, default in (
            (signal.SIGTERM, signal.SIG_DFL),
            (signal.SIGINT, signal.default_int_handler),
        ):
            if signal.getsignal(number) is default:
                self._theirs[number] = signal.signal(number, self._on_signal)

    def leave(self) -> None:
        """Give the signals back, where the program has not taken them since."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in list(self._theirs):
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, self._theirs[number])  # type: ignore[arg-type]
            del self._theirs[number]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Put signals off while recorders or files are in between two states; a second one is not put off."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if self._came and not self._held:
                self._act(self._came.pop())

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
        os.kill(os.getpid(), signal.SIGTERM)
