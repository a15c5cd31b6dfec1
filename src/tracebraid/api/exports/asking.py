"""The ranks of an export, asked about the step that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.api.exports.options import ExportOptions, ask_each
from tracebraid.api.exports.steps import SeenSteps
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
    steps = SeenSteps(options)

    def ask(linked: LinkedTrace) -> T | None:
        steps.see(linked)
        if options.step is None:
            return question(linked, None)
        names = step_windows(linked, options.annotation).get_column("step").to_list()
        step = next((name for name in options.step_names if name in names), None)
        return None if step is None else question(linked, step)

    yield from (answer for answer in ask_each(job, options, ask, findings) if answer is not None)
    steps.check()
