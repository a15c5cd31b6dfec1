"""Damage to JSON: odd values in place of values, and changed text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from tools.fuzz.losses import objects_of, with_count
from tools.fuzz.model import Files, Mutation
from tools.fuzz.mutations.raw_bytes import (
    cut,
    flipped,
    inside_one_file,
    packed_as,
    removed,
    repeated,
    swapped,
    unpacked,
    zeroed,
)

_CONSTANTS = ("null", "true", "false", "{}", "[]", '""', "NaN", "Infinity", "-Infinity")
_LIMITS = tuple(
    str(sign * (limit + by))
    for limit in (0, 2**7, 2**15, 2**16, 2**31, 2**32, 2**53, 5 * 10**18, 2**63, 2**64, 10**30)
    for sign in (1, -1)
    for by in (-1, 0, 1)
)
_FLOATS = (
    "-0",
    "-0.0",
    "0.5",
    "1.5",
    "1e3",
    "4e15",
    "1e18",
    "1e19",
    "1e308",
    "1e400",
    "-1e400",
    "1e-320",
    "1.5e-300",
)
_STRINGS = (
    *(
        "0",
        "1",
        "-1",
        "1.5",
        "0x10",
        "1e9",
        "NaN",
        "null",
        "true",
        " ",
        "x",
        "rank 0",
        "[0, 1]",
        "[[",
        "{",
        "stream 7",
    ),
    *(
        r"\u0000",
        r"\ud800",
        r"\udc00\ud800",
        r"\u001b[31m",
        r"\u202eabc",
        r"\u009b1m",
        r"\u007f",
        r"\n\r\t",
        r"\"\\",
    ),
    *(
        "ü€\U0001f600",
        "\ufeff",
        "\u2028",
        "=1+1",
        "@x",
        "<script>x</script>",
        "../../x",
        "/etc/passwd",
        "CON",
    ),
    *(
        "Tensor(float)",
        "GenericList[Tensor(float),Tensor(float)]",
        "ProfilerStep#1",
        "ProfilerStep#99999999999999999999",
    ),
    *(
        "record_param_comms",
        "nccl:all_reduce",
        "## process_group:init ##",
        "Memcpy HtoD",
        "aten::mm",
        "cpu_op",
        "kernel",
    ),
    *("X", "i", "s", "f", "M", "C", "b", "e", "T", "XX"),
    *(r"}, {\"ph\":", r"\"},{\"name\":\"", "a" * 300, "9" * 400),
)
_OBJECTS = (
    *(
        "[null]",
        "[[]]",
        "[1, 2, 3]",
        '["x"]',
        '[0, 0, 0, 0, 0, "cpu"]',
        '[1, 2, 3, 4, 5, "cuda:0", 7]',
        "[{}]",
    ),
    *('{"a": 1}', '{"ph": "X"}', '{"id": 1}', '{"name": "x", "type": "y", "value": 1}', '{"values": []}'),
    *(
        '{"traceEvents": []}',
        '{"nodes": []}',
        '[{"ph": "X", "name": "n", "ts": 1}]',
        '[{"id": 1, "name": "n"}]',
    ),
)
_LARGE = (
    '"' + "ab\\n " * 13_000 + '"',
    "[" * 1000 + "]" * 1000,
    '{"a": ' * 1000 + "1" + "}" * 1000,
    "[" * 200 + "]" * 200,
    "9" * 5000,
    "1." + "0" * 2000 + "1",
    "[" + ", ".join(["1"] * 2000) + "]",
)
ODD_KEYS = (
    "",
    "ph",
    "id",
    "name",
    "ts",
    "args",
    "value",
    "values",
    "External id",
    "\u202e",
    "a" * 100,
    "nodes",
    "traceEvents",
)
"""Names that a member can be given."""


_DEPTHS = (3, 60, 70, 200, 400, 600, 900, *range(920, 1000, 4))
"""Depths of nested values: around the limits of readers, of what writes again, and of what walks through."""


def odd_value(rng: random.Random) -> str:
    """JSON text of a value; not all are strict JSON."""
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(_CONSTANTS)
    if kind < 0.4:
        return rng.choice(_LIMITS)
    if kind < 0.5:
        return rng.choice(_FLOATS)
    if kind < 0.8:
        return f'"{rng.choice(_STRINGS)}"'
    if kind < 0.95:
        return rng.choice(_OBJECTS)
    return rng.choice(_LARGE) if kind < 0.975 else _nested(rng)


def _nested(rng: random.Random) -> str:
    """An odd value deep within lists, objects of odd names, or both in turn."""
    leaf = rng.choice((rng.choice(_CONSTANTS), rng.choice(_LIMITS), rng.choice(_FLOATS)))
    text = rng.choice((leaf, leaf, f'"{rng.choice(_STRINGS)}"'))
    name = rng.choice((*map(json.dumps, ODD_KEYS), f'"{rng.choice(_STRINGS)}"'))
    opening, closing = rng.choice((("[", "]"), (f"{{{name}: ", "}"), (f"[{{{name}: ", "}]")))
    depth = rng.choice(_DEPTHS) // len(closing)
    return opening * depth + text + closing * depth


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
            change(document, rng)
            changed = _written(document, rng)
        except (ValueError, RecursionError):
            return {**files, path: packed_as(files[path], _value_in_text(text, rng))}
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


_TOKENS = (
    *(
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\",
        b'\\"',
        b"null",
        b'}, {"',
        b"}]",
        b"[[[",
        b"{{{",
        b"]]]",
        b"}}}",
    ),
    *(
        b"/* x */",
        b"// x\n",
        b"#",
        b"'",
        b"\x00",
        b"\x1f",
        b"\xff",
        b"\xc2",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\\ud800",
    ),
    *(
        b"\r\n",
        b"\n",
        b"\t",
        b"\x0b",
        b"\xa0",
        b"-",
        b"e",
        b".",
        b"0",
        b"undefined",
        b'{"ph": "X"}',
        b'{"id": 1}',
    ),
    *(b'"ph": "X", ', b'"id": 7, ', b'"name": "', b'"traceEvents": [', b'"nodes": [', b"]}", b"{}", b"[]"),
)
_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "utf-7")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)+"')
_NUMBER = re.compile(rb"-?\d[\d.]+")
_COMMA = re.compile(rb",\s*")
_FRAGMENT_BYTES_AT_MOST = 20
_FRAGMENTS_BYTES = (10_000, 50_000, 200_000)
"""Lengths of text of one fragment: what costs the square of its length shows itself at the largest."""


def laid_out(data: bytes, rng: random.Random) -> bytes:
    """The same document in another layout."""
    try:
        text = json.dumps(
            json.loads(data),
            indent=rng.choice((None, None, 0, 1, 4, "\t")),
            separators=rng.choice((None, (",", ":"), (" , ", " : "), (",\r\n", ":\t"))),
            sort_keys=rng.random() < 0.2,
            ensure_ascii=rng.random() < 0.5,
        )
    except (ValueError, RecursionError):
        return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b" ", b"")))
    text = text.replace("\n", rng.choice(("\n", "\r\n", "\n\n")))
    return rng.choice((text, f"\n \t{text}\r\n\n", text)).encode("utf-8", "surrogatepass")


def encoded(data: bytes, rng: random.Random) -> bytes:
    """The text in another encoding."""
    text = data.decode("utf-8", "replace") + rng.choice(("", " "))
    return text.encode(rng.choice(_ENCODINGS), "replace")


def other_bytes(data: bytes, rng: random.Random) -> bytes:
    """A string with bytes of another encoding."""
    strings = [found for found in _STRING.finditer(data) if found.end() - found.start() > 3]
    if not strings:
        return data
    at = (found := rng.choice(strings)).start() + rng.randrange(1, found.end() - found.start() - 1)
    return (
        data[:at]
        + rng.choice((b"\xe4", b"\xff\xfe", b"\xc3", b"\x80", b"\xed\xb0\x80", b"\x9b31m"))
        + data[at:]
    )


def token_inserted(data: bytes, rng: random.Random) -> bytes:
    """A token or a few where none belong."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_TOKENS) * rng.choice((1, 1, 1, 2, 300)) + data[at:]


def token_replaced(data: bytes, rng: random.Random) -> bytes:
    """A string or a number is a token."""
    tokens = list(rng.choice((_STRING, _NUMBER, _COMMA)).finditer(data))
    if not tokens:
        return data
    found = rng.choice(tokens)
    return data[: found.start()] + rng.choice(_TOKENS) + data[found.end() :]


def cut_inside(data: bytes, rng: random.Random) -> bytes:
    """The end is missing, from the middle of a string or number on."""
    tokens = list(rng.choice((_STRING, _NUMBER)).finditer(data))
    return data[: rng.randrange(*rng.choice(tokens).span()) + 1] if tokens else data


def commas_changed(data: bytes, rng: random.Random) -> bytes:
    """Commas too many, or missing."""
    commas = list(_COMMA.finditer(data))
    for found in sorted(
        rng.sample(commas, min(len(commas), rng.choice((1, 1, 3)))), key=lambda one: -one.start()
    ):
        data = data[: found.start()] + rng.choice((b"", b" ", b",,", b", ,")) + data[found.end() :]
    return data


def trailing_comma(data: bytes, rng: random.Random) -> bytes:
    """A comma before the end of an object or a list."""
    ends = [found.start() for found in re.finditer(rb"[\]}]", data)]
    for at in sorted(rng.sample(ends, min(len(ends), rng.choice((1, 1, 50)))), reverse=True):
        data = data[:at] + b"," + data[at:]
    return data


def interleaved(data: bytes, rng: random.Random) -> bytes:
    """Two writers at once: blocks of the text, each twice."""
    size = rng.choice((512, 4096))
    blocks = [data[begin : begin + size] for begin in range(0, len(data), size)]
    return b"".join(block + block for block in blocks)


def repeated_fragment(data: bytes, rng: random.Random) -> bytes:
    """A few bytes of the text, repeated thousands of times."""
    at, length = rng.randrange(len(data) + 1), rng.randint(1, _FRAGMENT_BYTES_AT_MOST)
    fragment = rng.choice(
        (data[at : at + length], rng.choice(_TOKENS), rng.choice(_TOKENS) + rng.choice(_TOKENS))
    )
    return data[:at] + fragment * (rng.choice(_FRAGMENTS_BYTES) // max(1, len(fragment))) + data[at:]


def documents_concatenated(files: Files, rng: random.Random) -> Files:
    """A document stands behind another; the name says how many objects both hold."""
    path, other = rng.choice(sorted(files)), rng.choice(sorted(files))
    texts = [unpacked(files[path]), unpacked(files[other])]
    if texts[0] is None or texts[1] is None:
        return files
    joined = rng.choice((b"", b"\n", b",")).join((texts[0], texts[1]))
    found = [objects_of(text) for text in texts if text is not None]
    total = sum(sum(map(one[0].is_counted, one[1])) for one in found if one is not None)
    new = with_count(path, total) if None not in found else path
    rest = {name: data for name, data in files.items() if name != path}
    return {**rest, new: packed_as(files[path], joined)}


JSON_TEXT: tuple[Mutation, ...] = (
    *map(inside_one_file, (cut, zeroed, removed, flipped, swapped, repeated)),
    *map(inside_one_file, (laid_out, encoded, other_bytes, token_inserted, token_replaced, cut_inside)),
    *map(inside_one_file, (commas_changed, trailing_comma, interleaved, repeated_fragment)),
    documents_concatenated,
)
