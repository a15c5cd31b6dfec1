"""The other profilers of this process: Kineto has one session per process, and the program's own come first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tracebraid.recorders.needs_torch import torch

_HOOKS = ("_prepare_profiler", "_run_on_profiler_start", "_run_on_profiler_stop")
"""Functions that PyTorch's Python profiler calls as it prepares, starts and ends a session."""


def profiler_is_active() -> bool:
    """Return whether one of PyTorch's profilers records in this process.

    `torch.autograd._profiler_enabled` covers this thread only, and no profiler that records all threads; the second
    flag is the state of PyTorch's Python side.
    """
    return bool(torch.autograd._profiler_enabled() or torch.autograd.profiler._is_profiler_enabled)


class OtherProfilers:
    """Watcher for other profilers, prepared or active; it is notified between `watch` and `leave`.

    Args:
        stop_for_other: called just before another profiler prepares or starts a session, on its thread.
    """

    def __init__(self, stop_for_other: Callable[[], None]) -> None:
        self._stop_for_other = stop_for_other
        self._ours = threading.local()
        self._is_prepared = False
        self._originals: dict[str, Any] = {}

    @property
    def is_active(self) -> bool:
        """Return whether another profiler is prepared or recording. Call only while no own session is open."""
        return self._is_prepared or profiler_is_active()

    @contextmanager
    def not_this(self) -> Iterator[None]:
        """Sessions that start and end inside this context, on this thread, are not counted as another profiler's."""
        self._ours.depth = getattr(self._ours, "depth", 0) + 1
        try:
            yield
        finally:
            self._ours.depth -= 1

    def watch(self) -> None:
        """Observe other profilers from now on."""
        module = torch.autograd.profiler
        self._originals = {name: getattr(module, name) for name in _HOOKS if hasattr(module, name)}
        for name, original in self._originals.items():
            setattr(module, name, self._hook(original, is_stop=name.endswith("stop")))

    def leave(self) -> None:
        """Observe them no longer."""
        for name, original in self._originals.items():
            setattr(torch.autograd.profiler, name, original)
        self._originals = {}

    def _hook(self, original: Callable[..., Any], is_stop: bool) -> Callable[..., Any]:
        def hook(*args: Any, **kwargs: Any) -> Any:
            if not getattr(self._ours, "depth", 0) and self._originals:
                self._is_prepared = not is_stop
                if not is_stop:
                    self._stop_for_other()
            return original(*args, **kwargs)

        return hook
