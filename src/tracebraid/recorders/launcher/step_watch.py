"""The steps of a program that does not tell them: its optimizer's, else its outermost module's calls."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from tracebraid.recorders.guard import Guard
from tracebraid.recorders.needs_torch import torch

__all__ = ["StepWatch"]

_FORWARDS_WITHOUT_STEP = 64
_STEPS_OF_ANOTHER = 16


class StepWatch:
    """Calls `on_step` at the end of each step of this process, once `start` was called.

    A step ends with the outermost `step()` of the first optimizer that took one; of another one, once that is gone, or
    this one has taken more than `_STEPS_OF_ANOTHER` steps since its last. In a program that makes no
    optimizer (or makes one whose `step()` is never called in `_FORWARDS_WITHOUT_STEP` calls), it ends with a call
    of an outermost module. Code under torch.compile is left as it is. Only the thread that took the first step
    counts.

    What fails here or in `on_step` stops the watch, and never the program.

    Args:
        on_step: is told what ended the step: `optimizer` or `module`.
        on_failure: is given what failed, once the watch has stopped.
    """

    def __init__(self, on_step: Callable[[str], None], on_failure: Callable[[BaseException], None]) -> None:
        self._on_step = on_step
        self._on_failure = on_failure
        self._guard = Guard(self._fail)
        self._inside = threading.local()
        self._optimizer: weakref.ref[Any] | None = None
        self._others: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._thread: int | None = None
        self._has_optimizer = False
        self._forwards = 0
        self._stopped = False
        self._counts_modules = False
        self._unwatch_modules: Callable[[], None] = _nothing
        self._unwatch_optimizers: Callable[[], None] = _nothing

    def start(self) -> None:
        """Watch from now on. Whatever this torch lacks for that is raised, and its classes are as they were."""
        try:
            torch.compiler.is_compiling()
            self._watch_optimizers()
            self._watch_modules()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Watch no longer: torch's classes are as they were."""
        self._stopped = True
        self._unwatch_modules()
        self._unwatch_optimizers()

    def _fail(self, error: BaseException) -> None:
        self.stop()
        self._on_failure(error)

    def _watch_optimizers(self) -> None:
        optimizer = torch.optim.Optimizer
        hook, init = optimizer.profile_hook_step, optimizer.__init__

        def profile_hook_step(function: Callable[..., Any]) -> Callable[..., Any]:
            hooked = hook(function)

            @functools.wraps(hooked)
            def step(*args: Any, **kwargs: Any) -> Any:
                if torch.compiler.is_compiling():
                    return hooked(*args, **kwargs)
                with _Nested(self._inside, "optimizer") as outermost:
                    result = hooked(*args, **kwargs)
                if outermost and not self._stopped:
                    # Classes of optimizers that were in use keep this wrapper.
                    with self._guard:
                        self._optimizer_stepped(args[0])
                return result

            return step

        @functools.wraps(init)
        def init_and_note(one: Any, *args: Any, **kwargs: Any) -> None:
            self._has_optimizer = True
            init(one, *args, **kwargs)

        optimizer.profile_hook_step = staticmethod(profile_hook_step)
        optimizer.__init__ = init_and_note

        def undo() -> None:
            # Who has wrapped these since keeps the wrapper, and ours in it, which does nothing more.
            if optimizer.profile_hook_step is profile_hook_step:
                optimizer.profile_hook_step = staticmethod(hook)
            if optimizer.__init__ is init_and_note:
                optimizer.__init__ = init

        self._unwatch_optimizers = undo

    def _watch_modules(self) -> None:
        module = torch.nn.Module
        call = module.__call__

        @functools.wraps(call)
        def call_and_count(one: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return call(one, *args, **kwargs)
            with _Nested(self._inside, "module") as outermost:
                result = call(one, *args, **kwargs)
            if outermost and self._counts_modules:
                with self._guard:
                    self._module_called()
            return result

        def undo() -> None:
            self._counts_modules = False
            if module.__call__ is call_and_count:
                module.__call__ = call

        module.__call__ = call_and_count
        self._counts_modules = True
        self._unwatch_modules = undo

    def _optimizer_stepped(self, optimizer: Any) -> None:
        if not self._is_our_thread():
            return
        if self._optimizer is None:
            self._unwatch_modules()
        if (
            self._optimizer is None
            or self._optimizer() is None
            or self._others.get(optimizer, 0) > _STEPS_OF_ANOTHER
        ):
            self._optimizer = weakref.ref(optimizer)
        if self._optimizer() is not optimizer:
            self._others[optimizer] = self._others.get(optimizer, 0) + 1
            return
        self._others.clear()
        self._on_step("optimizer")

    def _module_called(self) -> None:
        if getattr(self._inside, "optimizer", 0):
            return
        self._forwards += 1
        if (not self._has_optimizer or self._forwards > _FORWARDS_WITHOUT_STEP) and self._is_our_thread():
            self._on_step("module")

    def _is_our_thread(self) -> bool:
        if self._thread is None:
            self._thread = threading.get_ident()
        return self._thread == threading.get_ident()


def _nothing() -> None:
    pass


class _Nested:
    """Whether a call is the outermost of its kind on its thread."""

    def __init__(self, inside: threading.local, kind: str) -> None:
        self._inside, self._kind = inside, kind

    def __enter__(self) -> bool:
        depth = getattr(self._inside, self._kind, 0)
        setattr(self._inside, self._kind, depth + 1)
        return depth == 0

    def __exit__(self, *error: object) -> None:
        setattr(self._inside, self._kind, getattr(self._inside, self._kind) - 1)
