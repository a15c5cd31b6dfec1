"""The steps of a program that does not mark them: its optimizer's, else its outermost module's calls."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from itertools import islice
from types import FrameType
from typing import Any

from tracebraid.recorders.backends.grace_period import wait_while
from tracebraid.recorders.guard import Guard
from tracebraid.recorders.launcher.loops import Loop, LoopKind, Loops
from tracebraid.recorders.needs_torch import torch
from tracebraid.recorders.own_process import LockOfProcess, get_ident

_NO_BACKWARD = -1
"""PyTorch's number of the backward pass of a thread that runs none."""

_JIT_TRACE = "torch.jit._trace"

_COUNTED_MODULES = 32
"""Modules in a module whose calls are counted after its windows. Calls of smaller ones take so few instructions (33,000
per layer) that the 3,500 of a count may be above 0.5 % of them."""

_PASSED_OVER = 16
"""Ends of backward passes at which a step waits on for passes of other threads, of which one may always run."""


class StepWatch:
    """Calls `on_step` at the end of each step of the loop to follow, once `start` was called.

    A step ends with the outermost `step()` of an optimizer. In a program that has none, it ends with a call of an
    outermost module; while there is an optimizer that has taken no step, nothing is followed. Code under
    torch.compile is called unchanged, and calls by which torch.jit.trace records a module and compares are no steps.

    Steps of all threads count together, and one is reported at a time. One that ends inside a backward pass, as where
    optimizers step in its hooks, is reported when that pass is over: operators of the pass are open before, and
    warnings would reach the program as the pass's own. Steps within one backward pass are one.

    Once all windows are recorded, `settle` leaves of this what a step of the program does not notice.

    What fails here or in `on_step` stops the watch, and never the program.

    Args:
        on_step: called with the followed loop; `loops` has all.
        on_failure: called with the exception, once the watch has stopped.
        steps_by: `auto`, or `optimizer` or `module` to follow only these.
        of_one_thread: whether only the thread of its first step counts the steps of a loop.
    """

    def __init__(
        self,
        on_step: Callable[[Loop], None],
        on_failure: Callable[[BaseException], None],
        steps_by: str = "auto",
        of_one_thread: bool = False,
    ) -> None:
        self.loops = Loops(of_one_thread)
        self.optimizers_made = 0
        self._on_step = on_step
        self._on_failure = on_failure
        self._steps_by = steps_by
        self._guard = Guard(self._fail)
        self._inside = threading.local()
        self._optimizers: list[weakref.ref[Any]] = []
        self._stopped = False
        self._only_counted: dict[int, Loop] | None = None
        self._counts_modules = False
        self._unwatch_modules: Callable[[], None] = _nothing
        self._unwatch_optimizers: Callable[[], None] = _nothing
        self._unwatch_backward: Callable[[], None] = _nothing
        self._in_backward: set[int] = set()
        self._ends_with_backward: Loop | None = None
        self._passed_over = 0
        self._traced: list[weakref.ref[Any]] = []
        self._one_at_a_time = LockOfProcess()

    def start(self) -> None:
        """Watch from now on. Where this torch lacks a hook, restore its classes and raise the error."""
        try:
            torch.compiler.is_compiling()
            self._watch_optimizers()
            self._watch_modules()
            self._watch_backward()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Watch no longer, and restore torch's classes."""
        self._stopped = True
        self._unwatch_modules()
        self._unwatch_optimizers()
        self._unwatch_backward()

    def settle(self) -> bool:
        """Watch only for what could still take over from the followed loop, whose windows are all recorded.

        Return whether the steps of that loop are counted on. Those of optimizers cost a call each, and so do the calls
        of a module of many modules and of others of its class. A small module, one that is compiled, and one whose
        class has a `__call__` of its own are counted no further.
        """
        followed = self.loops.followed
        if followed is None or followed.kind is LoopKind.PLAIN_MODULE:
            return True
        self._unwatch_modules()
        self._unwatch_backward()
        self._unwatch_modules = self._unwatch_backward = _nothing
        if followed.kind is LoopKind.OPTIMIZER:
            self._unwatch_optimizers()
            self._only_counted = self.loops.of_optimizers()
            return True
        counts = self._count_calls(followed)
        self.loops.stop_counting_modules(followed if counts else None)
        return counts

    def _count_calls(self, loop: Loop) -> bool:
        """Count the calls of a loop's module where torch looks for a compiled form of it, which its class has from now.

        Of the class, and not of the module: what copies a module's members, as torch's replicas do, calls itself.
        """
        module = loop.owner()
        of_class = type(module)
        if (
            of_class.__call__ is not torch.nn.Module.__call__
            or getattr(module, _COMPILED, self) is not None
            or next(islice(module.modules(), _COUNTED_MODULES - 1, None), None) is None
        ):
            return False
        owner, count, is_grad_enabled, is_compiling = (
            loop.owner,
            self.loops.count,
            torch.is_grad_enabled,
            torch.compiler.is_compiling,
        )
        trains = module.training and is_grad_enabled()

        def call_and_count(self_: Any, /, *args: Any, **kwargs: Any) -> Any:
            result = self_._call_impl(*args, **kwargs)
            is_step = owner() is self_ and (self_.training and is_grad_enabled()) is trains
            if is_step and not is_compiling():
                count(loop, get_ident())
            return result

        def undo() -> None:
            if vars(of_class).get(_COMPILED) is call_and_count:
                delattr(of_class, _COMPILED)

        setattr(of_class, _COMPILED, call_and_count)
        self._unwatch_modules = undo
        return True

    def wait_for_backward(self) -> None:
        """Wait until no thread is inside a backward pass, for a second at most: one may wait for this thread."""
        wait_while(lambda: bool(self._in_backward))

    def _fail(self, error: BaseException) -> None:
        self.stop()
        self._on_failure(error)

    def _watch_optimizers(self) -> None:
        optimizer, is_compiling = torch.optim.Optimizer, torch.compiler.is_compiling
        hook, init = optimizer.profile_hook_step, optimizer.__init__

        def profile_hook_step(function: Callable[..., Any]) -> Callable[..., Any]:
            hooked = hook(function)

            @functools.wraps(hooked)
            def step(*args: Any, **kwargs: Any) -> Any:
                if is_compiling():
                    return hooked(*args, **kwargs)
                counted = self._only_counted
                if counted is not None:
                    # A step inside of it of the same optimizer, as of the class below, is part of it.
                    loop = counted.pop(id(args[0]), None)
                    try:
                        result = hooked(*args, **kwargs)
                    finally:
                        if loop is not None:
                            counted[id(args[0])] = loop
                    if loop is not None and loop.owner() is args[0]:
                        self.loops.count(loop, get_ident())
                    return result
                with _Nested(self._inside, "optimizer") as outermost:
                    result = hooked(*args, **kwargs)
                if outermost and not self._stopped:
                    # Optimizer classes that were first used meanwhile keep this wrapper.
                    with self._guard:
                        self._optimizer_stepped(args[0])
                return result

            return step

        @functools.wraps(init)
        def init_and_note(new: Any, /, *args: Any, **kwargs: Any) -> None:
            with self._guard:
                self.optimizers_made += 1
                self._optimizers.append(weakref.ref(new))
            init(new, *args, **kwargs)

        optimizer.profile_hook_step = staticmethod(profile_hook_step)
        optimizer.__init__ = init_and_note

        def undo() -> None:
            # A wrapper that was put around ours since stays, with ours in it, which then only calls the original.
            if optimizer.profile_hook_step is profile_hook_step:
                optimizer.profile_hook_step = staticmethod(hook)
            if optimizer.__init__ is init_and_note:
                optimizer.__init__ = init

        self._unwatch_optimizers = undo

    def _watch_modules(self) -> None:
        watch, module = self, torch.nn.Module
        call = module.__call__

        # Where stacks are recorded, the profiler takes the frame's `self` for the module.
        @functools.wraps(call)
        def call_and_count(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return call(self, *args, **kwargs)
            with _Nested(watch._inside, "module") as outermost:
                result = call(self, *args, **kwargs)
            if outermost and watch._counts_modules:
                with watch._guard:
                    watch._module_called(self)
            return result

        def undo() -> None:
            self._counts_modules = False
            if module.__call__ is call_and_count:
                module.__call__ = call

        module.__call__ = call_and_count
        self._counts_modules = True
        self._unwatch_modules = undo

    def _watch_backward(self) -> None:
        """Observe the function that runs backward passes, in the two modules where torch itself replaces it."""
        autograd = torch.autograd
        modules = (autograd, autograd.graph)
        if not all(hasattr(module, "_engine_run_backward") for module in modules):
            return
        run = autograd.graph._engine_run_backward

        @functools.wraps(run)
        def run_and_note(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return run(*args, **kwargs)
            with _Nested(self._inside, "backward") as outermost:
                if not outermost:
                    return run(*args, **kwargs)
                thread = get_ident()
                self._in_backward.add(thread)
                try:
                    return run(*args, **kwargs)
                finally:
                    self._in_backward.discard(thread)
                    if self._ends_with_backward is not None and not self._stopped:
                        with self._guard:
                            self._backward_ended()

        def undo() -> None:
            for module in modules:
                if module._engine_run_backward is run_and_note:
                    module._engine_run_backward = run

        autograd._engine_run_backward = autograd.graph._engine_run_backward = run_and_note
        self._unwatch_backward = undo

    def _optimizer_stepped(self, optimizer: Any) -> None:
        may_follow = self._steps_by != "module"
        if may_follow:
            # From here on no call of a module is a step.
            self._unwatch_modules()
            self._unwatch_modules = _nothing
        if self._unwatch_backward is _nothing:
            # The windows of a module's loop are recorded, and there may be further ones now.
            self._watch_backward()
        self._count(optimizer, LoopKind.OPTIMIZER, may_follow)

    def _module_called(self, module: Any) -> None:
        if getattr(self._inside, "optimizer", 0) or self._is_traced(module):
            return
        may_follow = self._steps_by == "module" or (self._steps_by == "auto" and not self._has_optimizer())
        self._count(module, _kind_of(module), may_follow)

    def _count(self, owner: Any, kind: LoopKind, may_follow: bool) -> None:
        is_inside = bool(self._in_backward) and torch._C._current_graph_task_id() != _NO_BACKWARD
        ending = self._ends_with_backward
        if is_inside and ending is not None and ending.kind is kind and ending.owner() is owner:
            return
        loop = self.loops.stepped(owner, kind, get_ident(), may_follow)
        if loop is None:
            return
        if is_inside:
            self._ends_with_backward = loop
        else:
            self._report(loop)

    def _backward_ended(self) -> None:
        """A backward pass is over: report the step that ended in it, or in one on another thread."""
        # A pass runs on threads of devices too, so it is not known whose pass this was.
        if self._in_backward and self._passed_over < _PASSED_OVER:
            self._passed_over += 1
            return
        loop, self._ends_with_backward, self._passed_over = self._ends_with_backward, None, 0
        if loop is not None:
            self._report(loop)

    def _report(self, loop: Loop) -> None:
        with self._one_at_a_time:
            if not self._stopped:
                self._on_step(loop)

    def _is_traced(self, module: Any) -> bool:
        """Return whether torch.jit.trace makes this call: it records one, and compares further ones with it."""
        if torch._C._is_tracing():
            self._traced = [
                *(one for one in self._traced if one() is not None and one() is not module),
                weakref.ref(module),
            ]
            return True
        if not any(one() is module for one in self._traced):
            return False
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_globals.get("__name__") != _JIT_TRACE:
            frame = frame.f_back
        return frame is not None

    def _has_optimizer(self) -> bool:
        while self._optimizers and self._optimizers[-1]() is None:
            self._optimizers.pop()
        return any(reference() is not None for reference in self._optimizers)


_COMPILED = "_compiled_call_impl"
"""What a call of a module runs in place of the module, if it is set: `Module.compile()` sets it of a module."""


def _kind_of(module: Any) -> LoopKind:
    if next(module.parameters(), None) is None:
        return LoopKind.PLAIN_MODULE
    training = module.training and torch.is_grad_enabled()
    if training and any(parameter.requires_grad for parameter in module.parameters()):
        return LoopKind.TRAINING_MODULE
    return LoopKind.MODULE


def _nothing() -> None:
    pass


class _Nested:
    """Says whether a call is the outermost of its kind on its thread."""

    def __init__(self, inside: threading.local, kind: str) -> None:
        self._inside, self._kind = inside, kind

    def __enter__(self) -> bool:
        depth = getattr(self._inside, self._kind, 0)
        setattr(self._inside, self._kind, depth + 1)
        return depth == 0

    def __exit__(self, *error: object) -> None:
        setattr(self._inside, self._kind, getattr(self._inside, self._kind) - 1)
