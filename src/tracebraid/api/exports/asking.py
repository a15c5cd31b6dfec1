"""The ranks of an export, asked about the step that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from tracebraid.api.exports.options import ExportOptions, ask_each
from tracebraid.api.exports.steps import SeenSteps, steps_of
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["ask_in_step"]

T = TypeVar("T")


def ask_in_step(
    job: Job,
    options: ExportOptions,
    question: Callable[[LinkedTrace, str | None], T],
    findings: list[Finding],
) -> Iterator[T]:
    """The answers of the ranks that have the step which is asked for; of all where none is.

    Args:
        job: the ranks.
        options: which of them, and which step.
        question: takes a rank, and the name of the step or None.
        findings: what was noticed is added.

    Raises:
        ArgumentError: there is no such rank, or no rank has the step.
        InputError: no rank can be read.
    """
    seen = SeenSteps(options)
    for steps, answers in ask_each(job, options, _InStep(options, question), findings):
        seen.see(steps)
        yield from answers
    seen.check()


@dataclass(frozen=True, eq=False)
class _InStep(Generic[T]):
    """The question about a rank's part of the step: the names of its steps, and an answer where it has the step."""

    options: ExportOptions
    question: Callable[[LinkedTrace, str | None], T]

    def __call__(self, linked: LinkedTrace) -> tuple[tuple[str, ...], tuple[T, ...]]:
        names = steps_of(linked, self.options)
        if self.options.step is None:
            return names, (self.question(linked, None),)
        step = next((name for name in self.options.step_names if name in names), None)
        return names, () if step is None else (self.question(linked, step),)
