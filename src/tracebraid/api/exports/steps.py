"""The ranks of an export, asked about the step that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.api.exports.options import ExportOptions, ask_each
from tracebraid.errors import ArgumentError
from tracebraid.model.finding import Finding
from tracebraid.model.job import Job
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import some_steps

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
    seen: list[str] = []
    found = False

    def ask(linked: LinkedTrace) -> T | None:
        nonlocal found
        if options.step is None:
            return question(linked, None)
        names = (
            step_windows(linked, options.annotation).get_column("step").unique(maintain_order=True).to_list()
        )
        step = next((name for name in options.step_names if name in names), None)
        if step is None:
            seen.extend(name for name in names if name not in seen)
            return None
        found = True
        return question(linked, step)

    yield from (answer for answer in ask_each(job, options, ask, findings) if answer is not None)
    if options.step is not None and not found:
        have = some_steps(seen) or "none"
        raise ArgumentError(f"there is no step {options.step} by {options.annotation}; there are: {have}")
