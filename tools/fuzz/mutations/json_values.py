"""Changes of JSON documents by their structure: values, keys, and the order of objects."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from tools.fuzz.losses import objects_of, with_count
from tools.fuzz.model import Files, Mutation
from tools.fuzz.mutations.odd_values import ODD_KEYS, odd_value
from tools.fuzz.mutations.packed import packed_as, unpacked

__all__ = ["JSON_VALUES", "in_one_document"]

_RAW = "\ue000{}\ue001"
"""JSON text as it is to stand in the file, within a document: a string between two characters of private use."""
_RAW_WRITTEN = re.compile('"\ue000(.*?)\ue001"', re.DOTALL)
_SAME_KEY = "\ue002"
"""Behind a key: written without it, so that an object has the key twice."""
_INDENTS = (None, None, None, 1, 2)
_SEVERAL = 40
"""So many objects are changed at once at most."""
_PLAIN_VALUE = re.compile(rb'(?<=[ \[,:])(-?\d[\d.e+]*|null|true|"[^"\\]{0,40}"|\[[^\[\]{}]{0,30}\]|\{\})')

Document = Any
"""A document as Python's `json` reads it."""


def in_one_document(change: Callable[[Document, random.Random], None]) -> Mutation:
    """A mutation of one file that holds JSON, which is changed in its place; of other text, a value is replaced."""

    def mutate(files: Files, rng: random.Random) -> Files:
        path = rng.choice(sorted(files))
        text = unpacked(files[path])
        if text is None:
            return files
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return {**files, path: packed_as(files[path], _value_in_text(text, rng))}
        change(document, rng)
        changed = _written(document, rng)
        return _renamed(files, path, packed_as(files[path], changed), changed)

    mutate.__name__ = change.__name__
    return mutate


def _renamed(files: Files, path: str, data: bytes, text: bytes) -> Files:
    """The files with a changed one, whose name says how many objects it holds now."""
    found = objects_of(text, is_strict=False)
    new = path if found is None else with_count(path, sum(map(found[0].is_counted, found[1])))
    return {**{name: old for name, old in files.items() if name != path}, new: data}


def _written(document: Document, rng: random.Random) -> bytes:
    text = json.dumps(document, indent=rng.choice(_INDENTS), ensure_ascii=False).replace(_SAME_KEY, "")
    return _RAW_WRITTEN.sub(lambda found: str(json.loads(f'"{found[1]}"')), text).encode(
        "utf-8", "surrogatepass"
    )


def _value_in_text(text: bytes, rng: random.Random) -> bytes:
    """A value replaced in text that is no JSON any more."""
    values = list(_PLAIN_VALUE.finditer(text))
    if not values:
        return text
    value = rng.choice(values)
    return text[: value.start()] + odd_value(rng).encode("utf-8", "replace") + text[value.end() :]


def _raw(text: str) -> str:
    return _RAW.format(text)


def _places(document: Document, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """(object or list, key or index) of values, each reached by a walk from the root, most within the long array."""
    while True:
        here: Any = document
        lists = (
            [value for value in document.values() if isinstance(value, list)]
            if isinstance(document, dict)
            else []
        )
        if lists and rng.random() < 0.7:
            here = max(lists, key=len)
        place: tuple[Any, Any] | None = None
        while isinstance(here, dict | list) and here and (place is None or rng.random() < 0.85):
            key = rng.choice(list(here)) if isinstance(here, dict) else rng.randrange(len(here))
            place, here = (here, key), here[key]
        if place is None:
            return
        yield place


def _objects(document: Document) -> list[Any]:
    """The elements of the long array."""
    if isinstance(document, list):
        return document
    lists = (
        [value for value in document.values() if isinstance(value, list)]
        if isinstance(document, dict)
        else []
    )
    return max(lists, key=len, default=[])


def _members(document: Document, rng: random.Random) -> tuple[str, list[dict[str, Any]]]:
    """A key, and objects of the document that have it, all at one depth: events, their arguments, attributes."""
    objects = [one for one in _objects(document) if isinstance(one, dict)]
    inner = [value for one in objects for value in one.values() if isinstance(value, dict)]
    attrs = [item for one in objects for value in one.values() if isinstance(value, list) for item in value]
    level = rng.choice(
        [known for known in (objects, inner, [a for a in attrs if isinstance(a, dict)]) if known] or [[]]
    )
    keys = sorted({key for one in level for key in one})
    if not keys:
        return "", []
    key = rng.choice(keys)
    return key, [one for one in level if key in one]


def value_replaced(document: Document, rng: random.Random) -> None:
    """A value is another."""
    for holder, key in _places(document, rng):
        holder[key] = _raw(odd_value(rng))
        return


def values_replaced(document: Document, rng: random.Random) -> None:
    """A member of many objects has the same odd value, or each one of its own."""
    key, holders = _members(document, rng)
    same = _raw(odd_value(rng)) if rng.random() < 0.6 else None
    for holder in holders if rng.random() < 0.3 else rng.sample(holders, min(len(holders), _SEVERAL)):
        holder[key] = same if same is not None else _raw(odd_value(rng))


def values_equal(document: Document, rng: random.Random) -> None:
    """A member of several objects has the value that it has in one of them."""
    key, holders = _members(document, rng)
    for holder in rng.sample(holders, min(len(holders), rng.choice((2, 3, 10, _SEVERAL)))):
        holder[key] = holders[0][key]


def values_swapped(document: Document, rng: random.Random) -> None:
    """Objects have each other's values of a member."""
    key, holders = _members(document, rng)
    for _ in range(rng.choice((1, 1, 5, 50)) if len(holders) > 1 else 0):
        one, other = rng.sample(holders, 2)
        one[key], other[key] = other[key], one[key]


def numbers_shifted(document: Document, rng: random.Random) -> None:
    """The numbers of a member are scaled or shifted, in all objects or from one on."""
    key, holders = _members(document, rng)
    factor = rng.choice((0, -1, 1, 1, 1, 1e-3, 1e3, 1e6, 0.5))
    added = rng.choice((0, 1, -1, 1000, -1000, 2**31, 2**53, -(2**53), 10**12))
    for holder in holders[rng.choice((0, 0, rng.randrange(len(holders) + 1))) :]:
        value = holder[key]
        if isinstance(value, int | float) and not isinstance(value, bool):
            holder[key] = value * factor + added if factor != 1 else value + added


def key_dropped(document: Document, rng: random.Random) -> None:
    """A member is missing, in one object or in many."""
    if rng.random() < 0.5:
        for holder, key in _places(document, rng):
            del holder[key]
            return
    key, holders = _members(document, rng)
    for holder in rng.sample(holders, min(len(holders), rng.choice((1, 5, _SEVERAL)))):
        del holder[key]


def key_repeated(document: Document, rng: random.Random) -> None:
    """An object has a member twice, with the same value or another."""
    for holder, key in _places(document, rng):
        if isinstance(holder, dict):
            holder[f"{key}{_SAME_KEY}"] = holder[key] if rng.random() < 0.3 else _raw(odd_value(rng))
        else:
            holder.insert(key, holder[key])
        return


def key_renamed(document: Document, rng: random.Random) -> None:
    """A member has another name."""
    key, holders = _members(document, rng)
    others = sorted({other for holder in holders for other in holder})
    new = rng.choice([*others, *ODD_KEYS])
    for holder in rng.sample(holders, min(len(holders), rng.choice((1, 1, 5, _SEVERAL)))):
        holder[new] = holder.pop(key)


def keys_reordered(document: Document, rng: random.Random) -> None:
    """The members of objects stand in another order."""
    holders = [one for one in [document, *_objects(document)] if isinstance(one, dict)]
    for holder in rng.sample(holders, min(len(holders), rng.choice((1, 3, len(holders))))):
        members = list(holder.items())
        rng.shuffle(members)
        holder.clear()
        holder.update(members)


def member_added(document: Document, rng: random.Random) -> None:
    """An object has a member that is not known."""
    for holder, _ in _places(document, rng):
        if isinstance(holder, dict):
            holder[rng.choice(ODD_KEYS)] = _raw(odd_value(rng))
        else:
            holder.insert(rng.randrange(len(holder) + 1), _raw(odd_value(rng)))
        return


def objects_shuffled(document: Document, rng: random.Random) -> None:
    """The objects stand in another order."""
    objects = _objects(document)
    if rng.random() < 0.5:
        rng.shuffle(objects)
    else:
        objects.reverse()


def objects_repeated(document: Document, rng: random.Random) -> None:
    """Objects stand there twice or more."""
    objects = _objects(document)
    for one in rng.sample(objects, min(len(objects), rng.choice((1, 1, 5)))):
        at = rng.randrange(len(objects) + 1)
        objects[at:at] = [one] * rng.choice((1, 1, 3))


def objects_dropped(document: Document, rng: random.Random) -> None:
    """Objects are missing, or all but a few."""
    objects = _objects(document)
    kept = rng.choice((0, 1, 2, len(objects) // 2, max(0, len(objects) - 1)))
    objects[:] = [objects[i] for i in sorted(rng.sample(range(len(objects)), min(kept, len(objects))))]


def object_moved(document: Document, rng: random.Random) -> None:
    """A value stands in another's place too."""
    places = _places(document, rng)
    first, second = next(places, None), next(places, None)
    if first is not None and second is not None:
        first[0][first[1]] = json.loads(json.dumps(second[0][second[1]]))


JSON_VALUES: tuple[Mutation, ...] = tuple(
    in_one_document(change)
    for change in (
        *(value_replaced, value_replaced, value_replaced, values_replaced, values_replaced, values_equal),
        *(
            values_swapped,
            numbers_shifted,
            key_dropped,
            key_repeated,
            key_renamed,
            keys_reordered,
            member_added,
        ),
        *(objects_shuffled, objects_repeated, objects_dropped, object_moved),
    )
)
