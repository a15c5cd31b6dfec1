"""A line that says how far a run is."""

from __future__ import annotations

import sys
import threading
import time

from tools.fuzz.tally import Tally

__all__ = ["Progress"]

_EVERY_S = 30.0
_EVERY_S_ON_A_TERMINAL = 1.0


class Progress:
    """Writes to standard error: one line that changes on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._lock, self._began = threading.Lock(), time.monotonic()
        self._every_s = _EVERY_S_ON_A_TERMINAL if sys.stderr.isatty() else _EVERY_S
        self._shown, self._places = self._began, 0

    def show(self, tally: Tally) -> None:
        """Write the line where it is time to, and each failure in a new place at once."""
        with self._lock:
            for found in list(tally.found.values())[self._places :]:
                self._places += 1
                first = found.first
                self._write(
                    f"{first.kind.value} in {first.call} at {first.place or '?'}, seed {found.seeds[0]}"
                )
            now = time.monotonic()
            if now - self._shown >= self._every_s:
                self._shown = now
                mutants = tally.mutants.total()
                rate = mutants / (now - self._began)
                failed = f"{tally.failures:,} failures in {len(tally.found):,} places"
                self._write(f"{mutants:,} mutants, {rate:,.0f}/s, {failed}", passing=True)

    def _write(self, line: str, *, passing: bool = False) -> None:
        end = "\r" if passing and sys.stderr.isatty() else "\n"
        print(f"{line:<79}".rstrip(" " if end == "\n" else ""), end=end, file=sys.stderr, flush=True)
