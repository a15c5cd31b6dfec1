"""Changes of JSON text that a parser sees and a byte does not: layout, encoding, tokens, documents."""

from __future__ import annotations

import json
import random
import re

from tools.fuzz.losses import objects_of, with_count
from tools.fuzz.model import Files, Mutation
from tools.fuzz.mutations.packed import inside_one_file, packed_as, unpacked
from tools.fuzz.mutations.raw_bytes import cut, flipped, removed, repeated, swapped, zeroed

__all__ = ["JSON_TEXT", "repeated_fragment"]

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
"""How much text of one fragment: what costs the square of its length shows itself at the largest."""


def laid_out(data: bytes, rng: random.Random) -> bytes:
    """The same document in another layout."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b" ", b"")))
    text = json.dumps(
        document,
        indent=rng.choice((None, None, 0, 1, 4, "\t")),
        separators=rng.choice((None, (",", ":"), (" , ", " : "), (",\r\n", ":\t"))),
        sort_keys=rng.random() < 0.2,
        ensure_ascii=rng.random() < 0.5,
    )
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
