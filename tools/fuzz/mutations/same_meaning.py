"""Changes that keep what a trace means: its text, the order of its events and nodes, its files.

They change the files below `same/` and leave those below `first/` as they are, so that a call can compare both.
What they keep: the order of the events of a thread or stream that start together, that of metadata events, which of
two equal keys is the last, and integers that a float64 does not hold.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import zstandard

from tools.fuzz.model import Files, Mutation
from tools.fuzz.mutations.raw_bytes import packed_as, unpacked

FIRST, SAME = "first", "same"
"""Folders of the files as they are, and of those with another form."""

_EXACT = 1 << 53
"""Up to here each integer is a float64; beyond it RFC 8259, section 6, promises nothing of other forms."""
_SHORT = {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\b": "\\b",
    "\f": "\\f",
    "/": "\\/",
}
_SUFFIXES = (".gz", ".zst")


class _Number(str):
    """A number of JSON, as it stands in the text."""


@dataclass(frozen=True)
class _Pairs:
    """An object of JSON: its members in their order, also those whose key comes twice."""

    pairs: list[tuple[str, Any]]

    def __getitem__(self, key: str) -> Any:
        return dict(self.pairs).get(key)


@dataclass(frozen=True)
class _Form:
    """The style of a document."""

    rng: random.Random  # chooses among what means the same
    spaces: tuple[str, ...] = ("",)  # white space between tokens
    shuffled: bool = False  # whether the members of objects change places
    numbers: float = 0.0  # the share of numbers in another form
    escapes: float = 0.0  # the share of characters that are written as escapes

    def text(self, value: Any) -> str:
        """The document, or a part of it."""
        parts: list[str] = []
        self._write(value, parts)
        return "".join(parts)

    def _write(self, value: Any, parts: list[str]) -> None:
        match value:
            case _Number():
                parts.append(self._number(value))
            case str():
                parts.append(self._string(value))
            case list():
                self._sequence("[]", [(None, item) for item in value], parts)
            case _Pairs():
                self._sequence("{}", self._members(value.pairs), parts)
            case _:
                parts.append(json.dumps(value))

    def _sequence(self, ends: str, items: list[tuple[str | None, Any]], parts: list[str]) -> None:
        parts.append(ends[0])
        for number, (key, item) in enumerate(items):
            parts.append("," if number else "")
            parts.append(self._space())
            if key is not None:
                parts += (self._string(key), self._space(), ":", self._space())
            self._write(item, parts)
            parts.append(self._space())
        parts.append((self._space() if not items else "") + ends[1])

    def _members(self, pairs: list[tuple[str, Any]]) -> list[tuple[str | None, Any]]:
        members: list[tuple[str | None, Any]] = [*pairs]
        if self.shuffled and len(dict(pairs)) == len(pairs):
            self.rng.shuffle(members)
        return members

    def _space(self) -> str:
        return self.rng.choice(self.spaces)

    def _number(self, text: str) -> str:
        if not self.numbers or self.rng.random() >= self.numbers:
            return text
        return self.rng.choice(_forms_of(text))

    def _string(self, text: str) -> str:
        if not self.escapes:
            return json.dumps(text, ensure_ascii=False)
        return '"' + "".join(map(self._character, text)) + '"'

    def _character(self, character: str) -> str:
        if self.rng.random() < self.escapes:
            units = character.encode("utf-16-be", "surrogatepass")
            form = self.rng.choice(("04x", "04X"))
            return "".join(
                f"\\u{int.from_bytes(units[at : at + 2], 'big'):{form}}" for at in range(0, len(units), 2)
            )
        if character in _SHORT and (character != "/" or self.rng.random() < 0.5):
            return _SHORT[character]
        return f"\\u{ord(character):04x}" if character < " " else character


def _forms_of(text: str) -> list[str]:
    """A number in all forms that are known here."""
    value = Decimal(text)
    if value == 0 or (abs(value) > _EXACT and value == value.to_integral_value()):
        return [text]
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a number of JSON is finite"
    minus, whole = "-" * sign, "".join(map(str, digits)).lstrip("0")
    plain = f"{value:f}"
    return [
        f"{plain}0" if "." in plain else f"{plain}.0",
        f"{plain}000" if "." in plain else f"{plain}.000",
        f"{minus}{whole}e{exponent}",
        f"{minus}{whole}000E{exponent - 3}",
        f"{minus}{whole[0]}.{whole[1:] or '0'}e{exponent + len(whole) - 1:+}",
    ]


def _parsed(text: bytes) -> Any:
    """A document with its numbers as texts; ValueError where it is none."""
    return json.loads(
        text.decode("utf-8", "surrogatepass"),
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_refused,
        object_pairs_hook=_Pairs,
    )


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _in_documents(change: Callable[[Any, random.Random], str]) -> Mutation:
    """Writes each document below `same/` anew."""

    def mutate(files: Files, rng: random.Random) -> Files:
        changed = dict(files)
        for path, data in sorted(files.items()):
            text = unpacked(data) if path.startswith(f"{SAME}/") else None
            if text is None:
                continue
            try:
                document = _parsed(text)
            except (ValueError, RecursionError):
                continue
            changed[path] = packed_as(data, change(document, rng).encode("utf-8", "surrogatepass"))
        return changed

    mutate.__name__ = change.__name__
    return mutate


def members_reordered(document: Any, rng: random.Random) -> str:
    """The members of objects stand in another order."""
    return _Form(rng, shuffled=True).text(document)


def laid_out_anew(document: Any, rng: random.Random) -> str:
    """Other white space, or none, between any two tokens."""
    spaces = rng.choice((("",), (" ",), ("\n",), ("", " ", "\n", "\t", "\r\n", "  \n\n\t"), ("", "", "\r")))
    return (
        rng.choice(("", "\n", " \t")) + _Form(rng, spaces).text(document) + rng.choice(("", "\n", "\r\n \t"))
    )


def numbers_rewritten(document: Any, rng: random.Random) -> str:
    """Numbers in other forms: 1000, 1000.0, 1e3, 1.000E+3."""
    return _Form(rng, numbers=rng.choice((0.02, 0.5, 1.0))).text(document)


def texts_escaped(document: Any, rng: random.Random) -> str:
    r"""Keys and texts with escapes in place of characters: `ph`, `\u0070h`."""
    return _Form(rng, escapes=rng.choice((0.0, 0.02, 0.5, 1.0))).text(document)


def all_forms(document: Any, rng: random.Random) -> str:
    """All of these at once."""
    return _Form(rng, ("", " ", "\n"), True, 0.3, 0.1).text(document)


def elements_reordered(document: Any, rng: random.Random) -> str:
    """Nodes stand in another order, where their order says nothing. `event_id` is the place of an event in its file."""
    array = document["nodes"] if isinstance(document, _Pairs) else None
    if isinstance(array, list):
        array[:] = _reordered(array, rng)
    return _Form(rng).text(document)


def _reordered(array: list[Any], rng: random.Random) -> list[Any]:
    """Another order, in which what is of one track and moment keeps its order."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for number, item in enumerate(array):
        groups[_track_and_moment(item, number)].append(item)
    tracks = defaultdict(list)
    for key in groups:
        tracks[key[0]].append(key)
    if rng.random() < 0.5:
        # Threads one after the other, or mixed, each in its own order.
        waiting = [track[::-1] for track in tracks.values()]
        rng.shuffle(waiting)
        mixed, keys = rng.random() < 0.5, []
        while waiting:
            at = rng.randrange(len(waiting)) if mixed else 0
            keys.append(waiting[at].pop())
            if not waiting[at]:
                del waiting[at]
    else:
        keys = list(groups)
        rng.shuffle(keys)
    return [item for key in keys for item in groups[key]]


def _track_and_moment(item: Any, number: int) -> tuple[Any, Any]:
    if not isinstance(item, _Pairs):
        return number, 0
    if item["id"] is not None and item["ph"] is None:
        # A node: its id is its place, and of two with one id the first counts.
        return "node", _key(item["id"])
    if item["ph"] == "M" or not isinstance(item["ts"], _Number):
        return "metadata", 0
    return (_key(item["pid"]), _key(item["tid"])), _key(item["ts"])


def _key(value: Any) -> Any:
    return str(Decimal(value).normalize()) if isinstance(value, _Number) else json.dumps(value, default=str)


def repacked(files: Files, rng: random.Random) -> Files:
    """Each file in another compression, whole or in frames, with the name that goes with it."""
    changed = {}
    for path, data in files.items():
        text = unpacked(data) if path.startswith(f"{SAME}/") else None
        if text is None or not path.removesuffix(".gz").removesuffix(".zst").endswith(".json"):
            changed[path] = data
            continue
        plain = path.removesuffix(".gz").removesuffix(".zst")
        if "manifest" in PurePath(plain).name:
            changed[path] = data
            continue
        suffix = rng.choice(("", *_SUFFIXES))
        changed[plain + suffix] = _packed(text, suffix, rng)
    return changed


def _packed(text: bytes, suffix: str, rng: random.Random) -> bytes:
    if not suffix:
        return text
    cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
    parts = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    level = rng.choice((1, 6, 9))
    if suffix == ".gz":
        return b"".join(gzip.compress(part, level, mtime=0) for part in parts)
    return b"".join(zstandard.ZstdCompressor(level).compress(part) for part in parts)


def archived(files: Files, rng: random.Random) -> Files:
    """The files below `same/` in one archive, in any order."""
    own = [
        (path.removeprefix(f"{SAME}/"), data) for path, data in files.items() if path.startswith(f"{SAME}/")
    ]
    if len(own) < 2:
        return files
    rng.shuffle(own)
    kept = {path: data for path, data in files.items() if not path.startswith(f"{SAME}/")}
    made = io.BytesIO()
    name = rng.choice(("job.zip", "job.tar", "job.tar.gz", "job.tar.zst"))
    if name == "job.zip":
        method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        with zipfile.ZipFile(made, "w") as archive:
            for path, data in own:
                archive.writestr(zipfile.ZipInfo(path), data, method)
        return {**kept, f"{SAME}/{name}": made.getvalue()}
    with tarfile.open(fileobj=made, mode="w") as tar:
        for path, data in own:
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    suffix = PurePath(name).suffix
    return {**kept, f"{SAME}/{name}": _packed(made.getvalue(), suffix if suffix in _SUFFIXES else "", rng)}


def in_pairs(files: Files) -> Files:
    """The files twice: as they are, and to be changed."""
    return {f"{folder}/{path}": data for folder in (FIRST, SAME) for path, data in files.items()}


def meaning_of(data: bytes) -> Any:
    """The meaning of a file of JSON, equal for files that mean the same. Numbers are exact, objects have no order."""
    text = unpacked(data)
    assert text is not None, "a sample is not damaged"
    document = _parsed(text)
    array = document
    if isinstance(document, _Pairs):
        array = document["traceEvents"] or document["nodes"]
    if isinstance(array, list):
        groups = defaultdict(list)
        for number, item in enumerate(array):
            groups[_track_and_moment(item, number)].append(item)
        array[:] = [_Number("0"), *(item for key in sorted(groups, key=repr) for item in groups[key])]
    return _comparable(document)


def _comparable(value: Any) -> Any:
    match value:
        case _Number():
            return Decimal(value)
        case _Pairs():
            return {key: _comparable(item) for key, item in value.pairs}
        case list():
            return [_comparable(item) for item in value]
    return value


SAME_MEANING: tuple[Mutation, ...] = (
    *map(_in_documents, (members_reordered, laid_out_anew, numbers_rewritten, texts_escaped, all_forms)),
    _in_documents(elements_reordered),
    _in_documents(elements_reordered),
    repacked,
    archived,
)
