"""What the ranks of a pipeline stage do in each step.

Groups stand in the program as the value of their `Role`, other stages as the number of stages between: the
ranks of a stage differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracebraid.chakra.generating.program import Lane, Program
from tracebraid.chakra.generating.transformer.passes import Pass, backward, forward
from tracebraid.chakra.generating.transformer.replicas import Replicas
from tracebraid.chakra.generating.transformer.schedule import passes_of_stage
from tracebraid.chakra.generating.transformer.sizes import optimizer_work, part_sizes
from tracebraid.chakra.generating.transformer.units import Unit, units_of_stage
from tracebraid.model.chakra.workloads import TransformerJob

__all__ = ["stage_program"]


def stage_program(job: TransformerJob, stage: int) -> Program:
    """The nodes of each rank of a stage."""
    program, sizes = Program(), part_sizes(job)
    units = units_of_stage(job, sizes, stage)
    replicas = Replicas(job, program)
    for step in range(job.training.steps):
        program.step = str(step)
        loss: tuple[int, ...] = ()
        for is_forward, micro_batch in passes_of_stage(
            stage, job.parallelism.pipeline, job.training.micro_batches
        ):
            at = Pass(job, sizes, program, f"step {step}/micro-batch {micro_batch}")
            messages = _Messages(at, stage, step, micro_batch)
            if is_forward:
                _forward(at, units, replicas, messages)
                loss = at.ready
            else:
                # Of the last stage: the backward pass of a micro-batch comes behind its forward pass.
                at.ready = loss if stage == job.parallelism.pipeline - 1 else ()
                is_last = micro_batch == job.training.micro_batches - 1
                _backward(at, units, replicas.of_pass(is_last), messages)
        work = optimizer_work(job, replicas.parameters(units))
        program.compute(f"step {step}/optimizer", work, program.last(Lane.COMMUNICATION), "optimizer")
    return program


class _Messages:
    """The sends and receives of a pass: activations go to the next stage, gradients to the one before."""

    def __init__(self, at: Pass, stage: int, step: int, micro_batch: int) -> None:
        self._at, self._stage = at, stage
        # Activations of a micro-batch have an even tag, gradients an odd one.
        self._tag = 2 * (step * at.job.training.micro_batches + micro_batch)

    def receive_activations(self) -> None:
        """Of any stage but the first."""
        if self._stage > 0:
            self._receive("forward/receive activations", -1, self._tag, Lane.FROM_PREVIOUS)

    def send_activations(self) -> None:
        """Of any stage but the last."""
        if self._stage < self._at.job.parallelism.pipeline - 1:
            self._send("forward/send activations", 1, self._tag)

    def receive_gradients(self) -> None:
        """Of any stage but the last."""
        if self._stage < self._at.job.parallelism.pipeline - 1:
            self._receive("backward/receive gradients", 1, self._tag + 1, Lane.FROM_NEXT)

    def send_gradients(self) -> None:
        """Of any stage but the first."""
        if self._stage > 0:
            self._send("backward/send gradients", -1, self._tag + 1)

    def _receive(self, name: str, stages: int, tag: int, lane: Lane) -> None:
        message = (stages, tag, self._at.sizes.activation_bytes)
        row = self._at.program.receive(f"{self._at.name}/{name}", message, lane)
        self._at.ready = (*self._at.ready, row)

    def _send(self, name: str, stages: int, tag: int) -> None:
        message = (stages, tag, self._at.sizes.activation_bytes)
        self._at.program.send(f"{self._at.name}/{name}", message, self._at.done())


def _forward(at: Pass, units: tuple[Unit, ...], replicas: Replicas, messages: _Messages) -> None:
    messages.receive_activations()
    for unit, gathered in _gathered_ahead(at, units, replicas, "forward"):
        at.ready = (*at.ready, *gathered)
        forward(at, unit, f"forward/{unit.name}")
    messages.send_activations()


def _backward(at: Pass, units: tuple[Unit, ...], replicas: Replicas, messages: _Messages) -> None:
    messages.receive_gradients()
    for unit, gathered in _gathered_ahead(at, units[::-1], replicas, "backward"):
        at.ready = (*at.ready, *gathered)
        if at.job.training.recompute and unit.is_layer:
            forward(at, unit, f"backward/{unit.name}/recompute")
        backward(at, unit, f"backward/{unit.name}", replicas)
        replicas.scatter(f"{at.name}/backward", unit)
    messages.send_gradients()
    replicas.reduce_rest(f"{at.name}/backward")


def _gathered_ahead(
    at: Pass, units: tuple[Unit, ...], replicas: Replicas, name: str
) -> Iterator[tuple[Unit, tuple[int, ...]]]:
    """Each unit with the nodes that gather its weights, issued while the unit before it computes (FSDP's prefetch)."""
    ahead = replicas.gather(f"{at.name}/{name}", units[0])
    for position, unit in enumerate(units):
        gathered = ahead
        if position + 1 < len(units):
            ahead = replicas.gather(f"{at.name}/{name}", units[position + 1])
        yield unit, gathered
