"""Which activities of a dependency graph a change means."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from enum import Enum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.graph.change import Where
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.kernel_family_rules import KernelFamily
from tracebraid.model.number_ranges import number_ranges
from tracebraid.simulation.changes.nesting import with_nested

__all__ = ["selected"]

_Bools = NDArray[np.bool_]

_NUMBERS = ("rank", "stream")
_CODES: dict[str, type[Enum]] = {"kind": ActivityKind, "family": KernelFamily}
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_STEP_NUMBER = r"#(\d+)$"
_SHOWN = 5
"""Names that an error lists at most."""
_LIKENESS = 0.4
"""How alike a name is to be listed first, from 0 to 1, as `difflib` counts it."""


def selected(graph: DependencyGraph, where: Where) -> _Bools:
    """Whether each activity is meant; of collectives that are meant, the members too.

    Args:
        graph: the graph.
        where: which activities; nothing given means all.

    Raises:
        ArgumentError: a value makes no sense, or nothing fits.
    """
    found = np.ones(graph.activities.height, dtype=np.bool_)
    for key, text in where.given.items():
        of_key = _of_key(graph, key, text)
        if not of_key.any():
            raise ArgumentError(
                f"{key}={text} fits nothing in this trace. {_what_there_is(graph, key, text)}"
            )
        found &= of_key
    if not found.any():
        raise ArgumentError(
            f"nothing in this trace fits all of {' '.join(f'{k}={v}' for k, v in where.given.items())}, "
            "though each alone fits something"
        )
    return _with_members(graph, found)


def _of_key(graph: DependencyGraph, key: str, text: str) -> _Bools:
    if key in _NUMBERS:
        return _of_numbers(graph.activities.get_column(key), key, text)
    if key == "step":
        return _of_steps(graph.activities.get_column("step"), text)
    if key == "within":
        is_host = graph.activities.get_column("stream").is_null().to_numpy()
        return with_nested(graph, _of_names(graph.activities.get_column("name"), text) & is_host)
    if key in _CODES:
        _check_codes(key, text)
    return _of_names(graph.activities.get_column(key), text)


def _of_names(names: pl.Series, text: str) -> _Bools:
    """Whether each name fits; each distinct name is looked at once."""
    distinct = names.unique().drop_nulls()
    fits = _fitting(text)
    keep = distinct.filter(pl.Series([fits(name) for name in distinct.cast(pl.String)], dtype=pl.Boolean))
    return names.is_in(keep.implode()).fill_null(value=False).to_numpy()


def _of_numbers(numbers: pl.Series, key: str, text: str) -> _Bools:
    found = np.zeros(len(numbers), dtype=np.bool_)
    for asked in number_ranges(text, f"numbers for {key}="):
        found |= numbers.is_between(asked.start, asked.stop - 1).fill_null(value=False).to_numpy()
    return found


def _of_steps(steps: pl.Series, text: str) -> _Bools:
    """Steps by the number in their name, or by patterns of it."""
    if all(_RANGE.fullmatch(part.strip()) for part in text.split(",")):
        distinct = steps.unique().drop_nulls()
        number = distinct.cast(pl.String).str.extract(_STEP_NUMBER).cast(pl.Int64)
        keep = distinct.filter(pl.Series(_of_numbers(number, "step", text)))
        return steps.is_in(keep.implode()).fill_null(value=False).to_numpy()
    return _of_names(steps, text)


def _check_codes(key: str, text: str) -> None:
    known = [code.value for code in _CODES[key]]
    for part in _parts(text):
        fits = _fitting(part)
        if not any(fits(value) for value in known):
            raise ArgumentError(f"{key}={part}: there is no such {key}; there are {', '.join(known)}")


def _fitting(text: str) -> Callable[[str], bool]:
    """Whether a name fits a list of patterns, or a regular expression between slashes."""
    if len(text) > 1 and text.startswith("/") and text.endswith("/"):
        try:
            return _searched(re.compile(text[1:-1]))
        except re.error as error:
            raise ArgumentError(f"{text} is no regular expression: {error}") from error
    wild = {"*": ".*", "?": "."}
    parts = ["".join(wild.get(letter, re.escape(letter)) for letter in part) for part in _parts(text)]
    pattern = re.compile("|".join(f"(?:{part})" for part in parts), re.DOTALL)
    return lambda name: pattern.fullmatch(name) is not None


def _searched(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda name: pattern.search(name) is not None


def _parts(text: str) -> list[str]:
    """The parts of a list; commas within brackets belong to the name, such as those of a template."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _with_members(graph: DependencyGraph, found: _Bools) -> _Bools:
    """With the members of collectives that are meant."""
    kinds = graph.activities.get_column("kind").cast(pl.String)
    whole = found & (kinds == ActivityKind.COLLECTIVE.value).to_numpy()
    if not whole.any():
        return found
    number = graph.activities.get_column("collective")
    own = number.filter(pl.Series(whole)).unique().drop_nulls()
    of_own: _Bools = number.is_in(own.implode()).fill_null(value=False).to_numpy()
    return found | of_own


def _what_there_is(graph: DependencyGraph, key: str, text: str) -> str:
    """What a key could be given: the most alike first."""
    column = graph.activities.get_column("name" if key == "within" else key).drop_nulls()
    values = column.value_counts(sort=True).get_column(column.name)
    if values.is_empty():
        return f"Nothing in it has a {key}"
    names: Sequence[str] = values.cast(pl.String).to_list()
    bare = re.sub(r"[*?/]", "", text)
    inside = [name for name in names if bare.lower() in name.lower()] if bare else []
    near = [*inside, *get_close_matches(bare, names, _SHOWN, _LIKENESS)]
    shown = list(dict.fromkeys([*near, *names]))[:_SHOWN]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"There is {', '.join(shown)}{more}"
