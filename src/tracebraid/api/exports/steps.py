"""The rank and the step that an export is asked for, among those that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.errors import ArgumentError
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import some_steps, step_among

if TYPE_CHECKING:
    from tracebraid.api.exports.export import ExportOptions

__all__ = ["asked_ranks", "found_in_steps", "of_rank"]

T = TypeVar("T")


def asked_ranks(options: ExportOptions) -> list[int] | None:
    """The ranks that are asked for; None: all."""
    return None if options.rank is None else [options.rank]


def of_rank(
    linked: LinkedTrace, options: ExportOptions, question: Callable[[LinkedTrace, str, str | None], T]
) -> T | list[str]:
    """What a question answers of a rank, or the names of the rank's steps where it has not the step asked for.

    Args:
        linked: the rank.
        options: `step` and `annotation`.
        question: takes the rank, what marks a step, and the step's name or None.
    """
    if options.step is None:
        return question(linked, options.annotation, None)
    names = step_windows(linked, options.annotation).get_column("step").to_list()
    step = step_among(names, options.step, options.annotation)
    return names if step is None else question(linked, options.annotation, step)


def found_in_steps(answers: Iterable[T | list[str]], options: ExportOptions) -> Iterator[T]:
    """The answers of the ranks that have the step.

    Args:
        answers: see `of_rank`.
        options: what was asked.

    Raises:
        ArgumentError: no rank has the step.
    """
    seen: list[str] = []
    found = False
    for answer in answers:
        if isinstance(answer, list):
            seen += [name for name in answer if name not in seen]
        else:
            found = True
            yield answer
    if not found and options.step is not None:
        have = some_steps(seen) or "none"
        raise ArgumentError(f"there is no step {options.step} by {options.annotation}; there are: {have}")
