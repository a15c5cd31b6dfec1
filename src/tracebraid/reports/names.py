"""Names of a column shortened so that those that differ stay different: what they share is left out first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rich.cells import cell_len
from rich.markup import escape

from tracebraid.model.printable import printable

_GAP = "..."
_ARGUMENTS = re.compile(r"(?<=[\w>\])])\([^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)(?: const)?$")
"""Argument list at the end of a C++ function's name, with up to two nested levels of parentheses."""
_RESULT = re.compile(r"^(?:void|bool|int|float|double|auto) ")
_NAMESPACES = re.compile(r"(?:(?:\b[A-Za-z_]\w*|\(anonymous namespace\))::)+(?=[A-Za-z_~])")
_LONGEST_PARSED = 4_096
"""Maximum characters for regular expressions; longer names are only cut."""
_HEAD_SHARE = 0.3
"""Share of the width for the start of a name whose difference lies further on."""
_BEFORE_DIFFERENCE = 4
"""Characters shown before the first difference."""
_LEAST_NUMBERED = 6
"""Minimum width of a numbered name, in characters."""


def distinct_names(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to a width; different names stay different if the width allows.

    A C++ name first loses its argument list, then its namespaces. A name that is still too long
    loses its middle or, if that makes names equal, the part before their difference.
    Names that are still equal are numbered.
    """
    different = list(dict.fromkeys(names))
    shown = {name: name for name in different if cell_len(name) <= width}
    if len(shown) < len(different):
        _shorten([name for name in different if name not in shown], shown, width)
    return [shown[name] for name in names]


def _shorten(long: Sequence[str], shown: dict[str, str], width: int) -> None:
    """Add the shortened forms of names that are too long."""
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
    """Return the name, its form without arguments, and that without namespaces, without repeats."""
    if len(name) > _LONGEST_PARSED:
        return [name]
    call = _RESULT.sub("", _ARGUMENTS.sub("", name))
    return list(dict.fromkeys([name, call, _NAMESPACES.sub("", call)]))


def _first_differences(forms: Iterable[str]) -> dict[str, int]:
    """Return, for each text, the first position at which it differs from all others."""
    ordered = sorted(set(forms))
    found = dict.fromkeys(ordered, 0)
    for first, second in pairwise(ordered):
        same = _same_begin(first, second)
        found[first], found[second] = max(found[first], same), max(found[second], same)
    return found


def _same_begin(first: str, second: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _without_middle(text: str, width: int) -> str:
    """Cut the middle of the text."""
    room = width - len(_GAP)
    if room < 2:
        return _begin(text, width)
    end = _end(text, room // 2)
    return f"{_begin(text, room - cell_len(end))}{_GAP}{end}"


def _from_difference(text: str, differs: int, width: int) -> str:
    """Keep the start of the text, then a gap, then the part that differs from others."""
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
    """Append a number to the text if another name is equal."""
    if text not in taken or width < _LEAST_NUMBERED:
        return text
    number = 2
    while (numbered := f"{_begin(text, width - len(f'#{number}'))}#{number}") in taken:
        number += 1
    return numbered


def _begin(text: str, width: int) -> str:
    """Return as much of the start as fits."""
    width = max(width, 0)
    cut = text[:width]
    while cell_len(cut) > width:
        cut = cut[:-1]
    return cut


def _end(text: str, width: int) -> str:
    """Return as much of the end as fits."""
    cut = text[-width:] if width > 0 else ""
    while cell_len(cut) > width:
        cut = cut[1:]
    return cut


_NAMES_LISTED = 4
"""Maximum names in a line; of more, the first and the number of the others."""


def cell(text: str) -> str:
    """Make a cell from plain text, without interpreting markup."""
    return escape(printable(text))


def capitalised(text: str) -> str:
    """Capitalise the text as a sentence; code, such as a dotted name, stays unchanged."""
    word = text.partition(" ")[0].rstrip(",:;")
    return text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text


def uncapitalised(text: str) -> str:
    """The title as it stands inside a sentence; abbreviations and code stay as they are."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def shortened(text: str, most: int = 72) -> str:
    """Shorten the text to a width: a C++ name loses arguments, namespaces, types; what is left its middle."""
    form = text if len(text) <= most else _forms(text)[-1]
    if len(form) <= most:
        return form
    name, _, types = form.partition("<")
    without_types = f"{name}<{_GAP}>"
    fits = name and types.endswith(">") and len(without_types) <= most
    return without_types if fits else _without_middle(form, most)


def some_of(names: Sequence[str]) -> str:
    """List names in a line; of many, the first and the number of the others."""
    if len(names) <= _NAMES_LISTED:
        return ", ".join(names)
    first = names[: _NAMES_LISTED - 1]
    return f"{', '.join(first)} and {len(names) - len(first)} others"
