"""`--match`, as all commands that link take it."""

from __future__ import annotations

from typing import Annotated

import typer

from tracebraid.errors import ArgumentError
from tracebraid.model.matching import BEST, Matching

__all__ = ["Match", "matching_of"]

Match = Annotated[
    str,
    typer.Option(
        "--match",
        metavar="auto|exact|approximate",
        help="Link by ids, by alignment, or by ids where they are proven.",
    ),
]

_DIGITS = 18
"""Digits of an iteration's number at most: those of 64 bits."""


def matching_of(match: str, annotation: str | None = None, iteration: str = BEST) -> Matching:
    """What the options ask for.

    Raises:
        BadParameter: there is no such match or iteration.
    """
    try:
        return Matching(
            match,
            annotation,
            int(iteration) if iteration.isdecimal() and len(iteration) <= _DIGITS else iteration,
        )
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from None
