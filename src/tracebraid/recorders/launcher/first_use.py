"""Sets the capture up when the program makes its first optimizer or calls its first module.

A process that imports torch and does neither, as many of a DataLoader's workers, loads nothing else of ours.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing.util
import sys
from collections.abc import Callable
from typing import Any

from tracebraid.recorders.guard import Guard
from tracebraid.recorders.launcher.notes import write_note
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.own_process import LockOfProcess, getpid


def watch(settings: str, on_failure: Callable[[BaseException], None]) -> None:
    """Wait for the first use of torch: a call of a module outside of DataLoader workers, or a new optimizer.

    Where this torch lacks what is watched, its classes are as they were, and the error is raised.
    """

    def load() -> Callable[[], None]:
        from tracebraid.recorders.launcher.bootstrap import set_up

        return lambda: set_up(settings)

    torch.compiler.is_compiling()
    FirstUse(load, on_failure).watch()


def at_end(end: Callable[[], None]) -> None:
    """Have a function called at the end of this process, and of those that it forks."""
    atexit.register(end)
    if multiprocessing.parent_process() is not None:
        # A process of multiprocessing may end without running what atexit has.
        multiprocessing.util.Finalize(None, end, exitpriority=1)


def exception_at_end() -> str:
    """The name of the exception that ends this process; "" where none does."""
    failed = getattr(sys, "last_type", None)
    return failed.__name__ if failed is not None else ""


def is_worker_of_data() -> bool:
    """Return whether this process is a DataLoader's worker, whose transforms may be modules."""
    return torch.utils.data.get_worker_info() is not None


class FirstUse:
    """Sets the capture up once, when a module is called or an optimizer made, with torch's classes as they were.

    Args:
        load: returns what sets the capture up, which may replace the same members of torch's classes.
        on_failure: called with the exception of either; the program goes on.
    """

    def __init__(
        self, load: Callable[[], Callable[[], None]], on_failure: Callable[[BaseException], None]
    ) -> None:
        self._load = load
        self._guard = Guard(on_failure)
        self._one_at_a_time = LockOfProcess()
        self._has_begun = self._is_over = False
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._pid = getpid()

    def watch(self) -> None:
        """Watch from now on."""
        optimizer = torch.optim.Optimizer
        is_compiling = torch.compiler.is_compiling
        for owner, name in (
            (torch.nn.Module, "__call__"),
            (optimizer, "__init__"),
            (optimizer, "profile_hook_step"),
        ):
            ours = self._replacement(owner, name, getattr(owner, name), is_compiling)
            self._replaced.append((owner, name, vars(owner)[name], ours))
        for owner, name, _, ours in self._replaced:
            setattr(owner, name, ours)
        write_note("watching")
        at_end(self._end)

    def _replacement(self, owner: Any, name: str, original: Any, is_compiling: Callable[[], bool]) -> Any:
        @functools.wraps(original)
        def first(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or self._is_over or is_worker_of_data():
                return original(*args, **kwargs)
            # Where the program has wrapped this, its wrapper would be called again by what takes its place.
            is_outermost = vars(owner)[name] is ours
            self._begin()
            return (getattr(owner, name) if is_outermost else original)(*args, **kwargs)

        ours = staticmethod(first) if isinstance(vars(owner)[name], staticmethod) else first
        return ours

    def _begin(self) -> None:
        # Other threads wait: loading takes a second, in which a pool may have taken all its steps.
        with self._one_at_a_time:
            if self._has_begun:
                return
            self._has_begun = True
            set_up: Callable[[], None] = _nothing
            try:
                with self._guard:
                    set_up = self._load()
            finally:
                for owner, name, before, ours in self._replaced:
                    if vars(owner)[name] is ours:
                        setattr(owner, name, before)
            with self._guard:
                set_up()
            self._is_over = True

    def _end(self) -> None:
        if self._pid == getpid() and not self._has_begun:
            write_note("ended", exception=exception_at_end())


def _nothing() -> None:
    pass
