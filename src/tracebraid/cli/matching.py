"""`--match`, as all commands that link take it."""

from __future__ import annotations

from typing import Annotated

from tracebraid.cli.parameters import Option
from tracebraid.model.matching import BEST, Matching

Match = Annotated[
    str,
    Option(
        "--match",
        metavar="auto|exact|approximate",
        help="Link by ids, by alignment, or by ids with alignment as fallback.",
    ),
]

_DIGITS = 18
"""Maximum digits of an iteration's number: a 64-bit integer."""


def matching_of(match: str, annotation: str | None = None, iteration: str = BEST) -> Matching:
    """Build the matching that the options describe.

    Raises:
        ArgumentError: the match or iteration is unknown.
    """
    return Matching(
        match,
        annotation,
        int(iteration) if iteration.isdecimal() and len(iteration) <= _DIGITS else iteration,
    )
