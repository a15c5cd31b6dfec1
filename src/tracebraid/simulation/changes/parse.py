"""Changes from text: `scale 0.5 family=gemm`."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from enum import Enum

from tracebraid.errors import ArgumentError
from tracebraid.model.amounts import BYTE_UNITS, NUMBER_AND_UNIT, TIME_UNITS_NS
from tracebraid.model.graph.change import Change, Verb, Where

__all__ = ["Value", "change_of", "checked"]


class Value(Enum):
    """What a verb takes as its value, with an example."""

    NONE = "nothing"
    FACTOR = "a factor, such as 0.5 or 50%"
    TIME = "a duration, such as 10us or 1.5ms"
    BYTES = "a size, such as 25MB"
    COUNT = "a count, such as 2"
    STREAM = "the number of a stream, such as 7"


_VALUES = {
    Verb.SCALE: Value.FACTOR,
    Verb.SET: Value.TIME,
    Verb.SPLIT: Value.COUNT,
    Verb.MOVE: Value.STREAM,
    Verb.BANDWIDTH: Value.FACTOR,
    Verb.LATENCY: Value.FACTOR,
    Verb.MERGE: Value.BYTES,
    Verb.OFFLOAD: Value.COUNT,
    Verb.FUSE: Value.COUNT,
    Verb.RANKS: Value.COUNT,
}
"""What verbs take that take something."""

_DEFAULTS = {Verb.OFFLOAD: 1.0}
"""Values of verbs that can do without one: a DataLoader that is one batch ahead."""

_FROM_ZERO = (Verb.SCALE, Verb.SET, Verb.MOVE, Verb.LATENCY)
"""Verbs whose value may be 0; all others need more."""

_MOST_COUNT = 2**31 - 1
"""Far more than there are streams, ranks or kernels, and few enough for every kind of integer."""

_UNITS = {
    Value.FACTOR: {"": 1.0, "%": 0.01, "x": 1.0},
    Value.TIME: TIME_UNITS_NS,
    Value.BYTES: BYTE_UNITS,
    Value.COUNT: {"": 1.0},
    Value.STREAM: {"": 1.0},
}

_KEY = re.compile(r"([a-z]+)=(.*)", re.DOTALL)
_KEYS = [key.name for key in fields(Where)]


def change_of(text: str) -> Change:
    """A change from its text: a verb, its value, and keys of `Where`.

    Args:
        text: such as `scale 0.5 family=gemm`, `set 10us name=aten::item`, `fuse 4 factor=0.6 op=aten::add`.

    Raises:
        ArgumentError: it is not of this form.
    """
    try:
        words = _words(text)
    except ValueError as error:
        raise ArgumentError(f"{text}: {error}") from error
    if not words:
        raise ArgumentError(f"a change is empty; give a verb, such as {Verb.SCALE.value} 0.5 family=gemm")
    verb = _verb(words[0])
    given = [match for match in map(_KEY.fullmatch, words[1:]) if match is not None]
    values = [word for word in words[1:] if _KEY.fullmatch(word) is None]
    keys: dict[str, str] = {}
    for match in given:
        if match[1] in keys:
            raise ArgumentError(f"{text}: {match[1]}= is given twice; give a list: {match[1]}=A,B")
        keys[match[1]] = match[2]
    factor = keys.pop("factor", None)
    unknown = [key for key in keys if key not in _KEYS]
    if unknown:
        raise ArgumentError(f"{text}: there is no key {unknown[0]}; there are {', '.join(_KEYS)}")
    share = None if factor is None else _number(text, factor, Value.FACTOR)
    return checked(Change(verb, _value(text, verb, values), Where(**keys), share))


def checked(change: Change) -> Change:
    """The change, with the default where it has no value.

    Raises:
        ArgumentError: its value makes no sense.
    """
    takes = _VALUES.get(change.verb, Value.NONE)
    value = _DEFAULTS.get(change.verb) if change.value is None else change.value
    if (value is None) != (takes is Value.NONE):
        raise ArgumentError(f"{change.verb.value} takes {takes.value}")
    if change.factor is not None and change.verb is not Verb.FUSE:
        raise ArgumentError(f"{change.verb.value} takes no factor=; {Verb.FUSE.value} does")
    for number in (value, change.factor):
        low_enough = change.verb in _FROM_ZERO or number is change.factor
        if number is not None and not (0 < number < float("inf") or (number == 0 and low_enough)):
            raise ArgumentError(
                f"{change.text}: {number:g} makes no sense; {change.verb.value} takes {takes.value}"
            )
    if takes in (Value.COUNT, Value.STREAM) and value is not None and not _is_count(value):
        raise ArgumentError(f"{change.text}: {change.verb.value} takes a whole number up to {_MOST_COUNT:,}")
    return Change(change.verb, value, change.where, change.factor)


def _is_count(value: float) -> bool:
    return value <= _MOST_COUNT and value == int(value)


def _words(text: str) -> list[str]:
    """The words of a text; quotes hold those with blanks together, backslashes belong to regular expressions."""
    reader = shlex.shlex(text, posix=True)
    reader.whitespace_split, reader.escape, reader.commenters = True, "", ""
    return list(reader)


def _verb(word: str) -> Verb:
    try:
        return Verb(word)
    except ValueError as error:
        verbs = ", ".join(verb.value for verb in Verb)
        raise ArgumentError(f"there is no change {word}; there are {verbs}") from error


def _value(text: str, verb: Verb, words: list[str]) -> float | None:
    takes = _VALUES.get(verb, Value.NONE)
    if len(words) > 1 or (words and takes is Value.NONE):
        raise ArgumentError(
            f"{text}: {verb.value} takes {takes.value}, then keys such as name=...; not {words[-1]}"
        )
    return _number(text, words[0], takes) if words else None


def _number(text: str, word: str, takes: Value) -> float:
    match = NUMBER_AND_UNIT.fullmatch(word)
    if match is None or match[2] not in _UNITS[takes]:
        raise ArgumentError(f"{text}: {word} is not {takes.value}")
    return float(match[1]) * _UNITS[takes][match[2]]
