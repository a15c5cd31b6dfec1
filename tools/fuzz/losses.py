"""Compares the losses of a file with its findings; objects are counted here without the readers.

The name of a sample's file says how many objects it holds, such as `trace.n150.json`: damage keeps the name, and what
changes the number on purpose changes the name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from tools.fuzz.model import FailureError, FailureKind
from tools.fuzz.mutations.raw_bytes import unpacked
from tracebraid.model.finding import Finding, Loss

_COUNT = re.compile(r"(?<=\.n)\d+(?=\.)")
_MEMBER = re.compile(rb'"([^"]*)"\s*:')


@dataclass(frozen=True)
class Kind:
    """A kind of objects."""

    array: str  # the name of their array
    member: str  # what each of them has once

    def is_counted(self, value: Any) -> bool:
        """Return whether tables have to hold an element of the array: metadata events go into names alone."""
        return isinstance(value, dict) and not (self.member == "ph" and value.get("ph") == "M")


EVENTS, NODES = Kind("traceEvents", "ph"), Kind("nodes", "id")


def count_in_name(path: str) -> int | None:
    """Return the number of objects in a file, by its name."""
    found = _COUNT.search(PurePath(path).name)
    return int(found[0]) if found else None


def with_count(path: str, count: int) -> str:
    """The name of a file that holds another number of objects; the same where its name has none."""
    name = PurePath(path).name
    return path[: len(path) - len(name)] + _COUNT.sub(str(count), name)


def objects_of(text: bytes, is_strict: bool = True) -> tuple[Kind, list[Any]] | None:
    """The elements of the array of a trace, and their kind; None where the text is no JSON of one array.

    Strict JSON has no `NaN`, no `Infinity` and no half of a surrogate pair.
    """
    try:
        root = json.loads(
            text.decode("utf-8-sig", "strict" if is_strict else "surrogatepass"),
            parse_constant=_refuse if is_strict else None,
            parse_int=_number,
            object_pairs_hook=_members,
        )
    except (ValueError, RecursionError):
        return None
    if isinstance(root, list):
        return EVENTS, root
    found = [
        kind for kind in (EVENTS, NODES) if isinstance(root, dict) and isinstance(root.get(kind.array), list)
    ]
    return (found[0], root[found[0].array]) if len(found) == 1 else None


def judge_losses(path: str, data: bytes, read: int, findings: Iterable[Finding]) -> None:
    """Compare what was read of a file with what its findings say."""
    said = sum((one.loss for one in findings if one.loss is not None), Loss(0, 0, 0))
    text = unpacked(data)
    found = objects_of(text) if text is not None else None
    named = count_in_name(path)
    if found is not None:
        count = sum(map(found[0].is_counted, found[1]))
        at_most: int | None = _elements_in(found[1])
    elif named is not None:
        count = named
        at_most = None if text is None else max(named, _most_frequent_member(text))
    else:
        return
    if said.at_most is not None and count - read > said.at_most:
        message = f"{count - read} of {count} objects are lost, and said are {said}"
        raise FailureError(FailureKind.SILENT_LOSS, message)
    if at_most is not None and said.at_least > max(0, at_most - read):
        message = f"no more than {at_most - read} of {at_most} objects are lost, and said are {said}"
        raise FailureError(FailureKind.SILENT_LOSS, message)


def _elements_in(array: list[Any]) -> int:
    """Count the elements of an array, those of arrays in it among them: damage may put the array into itself."""
    count, arrays = 0, [array]
    while arrays:
        here = arrays.pop()
        inner = [one for one in here if isinstance(one, list)]
        count += len(here) - len(inner)
        arrays += inner
    return count


def _most_frequent_member(text: bytes) -> int:
    """Count the most frequent member of a text: there are no more objects of one kind."""
    return max(Counter(_MEMBER.findall(text)).values(), default=0)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _number(digits: str) -> float:
    return float(digits)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object; refused where one that is judged by comes twice.

    What is metadata by one of two phases may be read as such, or not: it is not asked for.
    """
    keys = [key for key, _ in pairs]
    if any(keys.count(key) > 1 for key in ("id", "traceEvents", "nodes")):
        raise ValueError("a key comes twice")
    return {**dict(pairs), "ph": "M"} if ("ph", "M") in pairs else dict(pairs)
