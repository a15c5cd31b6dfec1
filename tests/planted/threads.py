"""A thread of a scene: its clock, and the ops, frames and calls that nest on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.builders import Json
from tests.planted.calls import Calls
from tests.planted.events import ANNOTATION, OP, PYTHON, Planted
from tests.planted.inputs import inputs_of
from tracebraid.model.step import step_name

if TYPE_CHECKING:
    from tests.planted.scene import Scene


class Thread(Calls):
    """A thread; get it from `Scene.thread`. Calls, copies and synchronisation are in `Calls`, memory in `Memory`.

    Args:
        scene: the scene that it belongs to.
        tid: the OS thread id.
        number: PyTorch's logical id, 1 for the first thread.
        name: its name.
        now: its clock in ns.
    """

    def __init__(self, scene: Scene, tid: int, number: int, name: str, now: int) -> None:
        self.scene, self.tid, self.number, self.name, self.now = scene, tid, number, name, now
        self.open: list[Planted] = []

    def spend(self, ns: int) -> None:
        """Let time pass in what is open, or in nothing."""
        self.now += ns

    def until(self, ns: int) -> None:
        """Let time pass until a moment, if it is yet to come."""
        self.now = max(self.now, ns)

    @contextmanager
    def op(
        self,
        name: str,
        ns: int = 0,
        dims: Sequence[Any] | None = None,
        types: Sequence[str] | None = None,
        strides: Sequence[Any] | None = None,
        concrete: Sequence[str] | None = None,
        sequence: int | None = None,
        **args: Any,
    ) -> Iterator[Planted]:
        """An op around what the `with` block does.

        Args:
            name: its name.
            ns: time that it spends itself, before the block.
            dims: `Input Dims`: the shape of each input, `[]` for a scalar. Without them no input was recorded.
            types: `Input type`; default: float for each tensor, Scalar for the rest.
            strides: `Input Strides`; default: contiguous.
            concrete: `Concrete Inputs`; default: empty text.
            sequence: its sequence number, see `Scene.count("sequence")`.
            args: others by their names in the file, with underscores for spaces.
        """
        found = inputs_of(dims, types, strides, concrete)
        if sequence is not None:
            found |= {"Sequence number": sequence, "Fwd thread id": 0}
        with self.event(name, OP, {**found, **{k.replace("_", " "): v for k, v in args.items()}}) as planted:
            self.spend(ns)
            yield planted

    def run(self, name: str, ns: int, **options: Any) -> Planted:
        """An op with nothing inside it; options as for `op`."""
        with self.op(name, ns, **options) as planted:
            pass
        return planted

    @contextmanager
    def annotation(self, name: str, ns: int = 0) -> Iterator[Planted]:
        """An annotation (`record_function`) around the block."""
        with self.event(name, ANNOTATION, {}) as planted:
            self.spend(ns)
            yield planted

    @contextmanager
    def step(self, number: int, ns: int = 0) -> Iterator[Planted]:
        """A step of the profiler around the block."""
        with self.annotation(step_name(number), ns) as planted:
            yield planted

    @contextmanager
    def frame(self, name: str, ns: int = 0, called_from: str = "") -> Iterator[Planted]:
        """A Python function around the block, such as `train.py(10): step`; torch 2.14 knows where it is called."""
        outer = [event for event in self.open if event.category == PYTHON]
        parent = outer[-1].args["Python id"] if outer else None
        args = {"Python parent id": parent, "Python id": self.scene.count("python")}
        if called_from:
            args["CallFrom"] = called_from
        with self.event(name, PYTHON, args) as planted:
            self.spend(ns)
            yield planted

    @contextmanager
    def module(self, name: str, ns: int = 0) -> Iterator[Planted]:
        """The call of an nn.Module around the block: `Linear_0`, the class and the number among its instances."""
        with self.frame(f"nn.Module: {name}", ns) as planted:
            planted.args["Python module id"] = int(name.rpartition("_")[2])
            yield planted

    @contextmanager
    def backward(self, name: str, forward: Planted, thread: Thread, ns: int = 0) -> Iterator[Planted]:
        """The autograd engine's evaluation of a node, and inside it the node's op, which is given; then the block.

        Args:
            name: the node: `MmBackward0`.
            forward: the forward op, planted with a sequence number.
            thread: the thread of the forward op.
            ns: time that the inner op spends itself.
        """
        number = forward.args["Sequence number"]
        args = {"Sequence number": number, "Fwd thread id": thread.number}
        with (
            self.event(f"autograd::engine::evaluate_function: {name}", OP, dict(args)),
            self.event(name, OP, dict(args)) as planted,
        ):
            self.scene.forward_arrow(number, forward, planted)
            self.spend(ns)
            yield planted

    @contextmanager
    def event(self, name: str, category: str, args: Json) -> Iterator[Planted]:
        """A host event of any category from now until the end of the block."""
        if category in (OP, ANNOTATION):
            number = self.scene.count("op")
            args = {"External id": number, "Record function id": number, **args}
        planted = self._begin(name, category, args)
        self.open.append(planted)
        yield planted
        self.open.pop()
        planted.dur = self.now - planted.ts

    def _begin(self, name: str, category: str, args: Json) -> Planted:
        planted = self.scene.add(name, category, self.scene.pid, self.tid, self.now, 0, args)
        planted.parent = self.open[-1] if self.open else None
        ops = [event for event in self.open if event.category in (OP, ANNOTATION)]
        planted.op = ops[-1] if ops else None
        return planted
