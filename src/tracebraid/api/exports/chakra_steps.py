"""The steps of a Chakra trace, as a user names them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracebraid.errors import ArgumentError
from tracebraid.model.number_ranges import number_ranges
from tracebraid.model.step import some_steps

__all__ = ["steps_of_text"]

_NUMBERS = re.compile(r"[\d\s,.-]*")
_NUMBER_OF_STEP = re.compile(r".*#(\d{1,18})")


def steps_of_text(text: str | None, seen: Sequence[str], annotation: str) -> tuple[str, ...] | None:
    """The names of the chosen steps, in their order; None: all of the traces are wanted.

    Args:
        text: numbers and ranges, such as `3..5,8`, or names with commas between; None: all.
        seen: the names of all steps, in their order.
        annotation: what marks a step.

    Raises:
        ArgumentError: it is no such list, or there is no such step.
    """
    if text is None:
        return None
    have = some_steps(seen) or f"none: no annotation {annotation}"
    if _NUMBERS.fullmatch(text):
        ranges = number_ranges(text.replace("..", "-"), "steps")
        number_of = {name: int(found[1]) for name in seen if (found := _NUMBER_OF_STEP.fullmatch(name))}
        chosen = [
            name for name in seen if name in number_of and any(number_of[name] in each for each in ranges)
        ]
        known = set(number_of.values())
        lacking = [each for each in ranges if not any(number in each for number in known)]
        wrong = f"{lacking[0].start}" if lacking else ""
    else:
        names = [part.strip() for part in text.split(",")]
        chosen = [name for name in seen if name in names]
        wrong = next((name for name in names if name not in seen), "")
    if wrong or not chosen:
        raise ArgumentError(f"there is no step {wrong or text}; there are: {have}")
    return tuple(chosen)
