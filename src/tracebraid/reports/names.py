"""Names of a column shortened so that those that differ stay different: what they share is left out first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.cells import cell_len

__all__ = ["distinct_names"]

_GAP = "..."
_ARGUMENTS = re.compile(r"(?<=[\w>\])])\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)(?: const)?$")
"""The argument list of a function at the end of its C++ name, with up to two levels of parentheses in it."""
_RESULT = re.compile(r"^(?:void|bool|int|float|double|auto) ")
_NAMESPACES = re.compile(r"(?:(?:\b[A-Za-z_]\w*|\(anonymous namespace\))::)+(?=[A-Za-z_~])")
_LONGEST_PARSED = 4_096
"""Characters; longer names are only cut: expressions would take long on them."""
_HEAD_SHARE = 0.3
"""Of the width, for the begin of a name whose difference lies further behind."""
_BEFORE_DIFFERENCE = 4
"""Characters that are shown before the first that differs."""
_LEAST_NUMBERED = 6
"""Characters: a narrower name is not numbered."""


def distinct_names(names: Sequence[str], width: int) -> list[str]:
    """The names in so many characters at most; different names stay different, if the width allows it.

    Of a C++ name that is too long its argument list is left out first, then its namespaces. What is still too long
    loses its middle, or, where the names would be alike then, what lies before the part in which they differ.
    Names that even so are alike are numbered.

    Args:
        names: what one column shows; the same name can stand in it several times.
        width: cells of a terminal in a line.
    """
    different = list(dict.fromkeys(names))
    shown = {name: name for name in different if cell_len(name) <= width}
    if len(shown) < len(different):
        _shorten([name for name in different if name not in shown], shown, width)
    return [shown[name] for name in names]


def _shorten(long: Sequence[str], shown: dict[str, str], width: int) -> None:
    """Add what is shown of the names that are too long."""
    forms = {name: _forms(name) for name in long}
    owners = Counter([*shown, *(form for own in forms.values() for form in own)])
    alone = {name: [form for form in own if owners[form] == 1] for name, own in forms.items()}
    rest: dict[str, str] = {}
    for name, own in alone.items():
        fitting = next((form for form in own if cell_len(form) <= width), None)
        if fitting is not None:
            shown[name] = fitting
        else:
            rest[name] = own[-1] if own else name
    taken = set(shown.values())
    differs = _first_differences(rest.values())
    middles = Counter(_without_middle(form, width) for form in rest.values())
    for name, form in rest.items():
        middle = _without_middle(form, width)
        cut = middle if middles[middle] == 1 else _from_difference(form, differs[form], width)
        shown[name] = _numbered(cut, taken, width)
        taken.add(shown[name])


def _forms(name: str) -> list[str]:
    """The name, then without its arguments, then without its namespaces; each once."""
    if len(name) > _LONGEST_PARSED:
        return [name]
    call = _RESULT.sub("", _ARGUMENTS.sub("", name))
    return list(dict.fromkeys([name, call, _NAMESPACES.sub("", call)]))


def _first_differences(forms: Iterable[str]) -> dict[str, int]:
    """Of each text the first character by which it differs from all others."""
    ordered = sorted(set(forms))
    found = dict.fromkeys(ordered, 0)
    for first, second in pairwise(ordered):
        same = _same_begin(first, second)
        found[first], found[second] = max(found[first], same), max(found[second], same)
    return found


def _same_begin(first: str, second: str) -> int:
    """How many characters two texts have in common at their begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _without_middle(text: str, width: int) -> str:
    """The text with its begin and its end."""
    room = width - len(_GAP)
    if room < 2:
        return _begin(text, width)
    end = _end(text, room // 2)
    return f"{_begin(text, room - cell_len(end))}{_GAP}{end}"


def _from_difference(text: str, differs: int, width: int) -> str:
    """The text's begin, and behind a gap the part from where it differs from others."""
    head = _begin(text, int(width * _HEAD_SHARE))
    start = differs - _BEFORE_DIFFERENCE
    if start <= len(head) + len(_GAP):
        return f"{_begin(text, width - len(_GAP))}{_GAP}" if width > len(_GAP) else _begin(text, width)
    room = width - cell_len(head) - len(_GAP)
    if room < len(_GAP):
        return _begin(text, width)
    part = text[start:]
    if cell_len(part) <= room:
        return f"{head}{_GAP}{_end(text, room)}"
    return f"{head}{_GAP}{_begin(part, room - len(_GAP))}{_GAP}"


def _numbered(text: str, taken: set[str], width: int) -> str:
    """The text; with a number at its end, if another name has it already."""
    if text not in taken or width < _LEAST_NUMBERED:
        return text
    number = 2
    while (numbered := f"{_begin(text, width - len(f'#{number}'))}#{number}") in taken:
        number += 1
    return numbered


def _begin(text: str, width: int) -> str:
    """As much of the begin as fits."""
    width = max(width, 0)
    cut = text[:width]
    while cell_len(cut) > width:
        cut = cut[:-1]
    return cut


def _end(text: str, width: int) -> str:
    """As much of the end as fits."""
    cut = text[-width:] if width > 0 else ""
    while cell_len(cut) > width:
        cut = cut[1:]
    return cut
