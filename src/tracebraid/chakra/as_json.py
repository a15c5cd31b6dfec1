"""`.et` files as JSON and back, message by message, so that the same bytes come out."""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.codes import NodeType
from tracebraid.chakra.wire.fields import (
    ATTRIBUTE_FIELDS,
    LENGTH,
    NODE_FIELDS,
    VARINT,
    Fields,
    Slices,
    fields_of,
    numbered_texts,
    packed_varints,
    unexpected,
)
from tracebraid.chakra.wire.messages import messages
from tracebraid.chakra.wire.reading import EXPECTED, Batch, FramedFile, open_frames
from tracebraid.errors import ArgumentError, NotATraceError, WrongTraceError
from tracebraid.files import refuse_inputs, write_whole
from tracebraid.model.finding import Finding
from tracebraid.model.printable import printable_json
from tracebraid.wire_format import length_delimited


def to_json(path: str | Path, out: str | Path, lines: bool = False) -> list[Finding]:
    """Write an `.et` file as protobuf's JSON, in bounded memory.

    The document is `{"metadata": {...}, "nodes": [...]}` with a line for each node. 64-bit integers are strings.
    A message whose JSON does not restore its bytes carries them in `@wire`, as base64.

    Args:
        path: the `.et` file or its URL, plain, gzip or zstd; `-` for standard input.
        out: the new file; gzip if its name ends in `.gz`.
        lines: write a line for the metadata and one for each node instead of a document.

    Returns:
        The findings; a truncated file is converted up to the cut.

    Raises:
        InputError: the file cannot be read.
        NotATraceError: it is not an `.et` file.
        OutputError: `out` exists, or cannot be written.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> tracebraid.chakra.to_json("job.0.et", "job.0.json")
    """
    return _written(chakra_conversion(path, lines), path, out, to_json=True)


def from_json(path: str | Path, out: str | Path) -> list[Finding]:
    """Write an `.et` file from the JSON of `to_json` or of Chakra's jsonizer.

    Args:
        path: the JSON file or its URL, plain, gzip or zstd; `-` for standard input.
        out: the new file; gzip if its name ends in `.gz`.

    Returns:
        The findings.

    Raises:
        InputError: the file cannot be read.
        NotATraceError: it is not such JSON; the message says where.
        OutputError: `out` exists, or cannot be written.
        MissingLibraryError: protobuf is not installed.

    Example:
        >>> tracebraid.chakra.from_json("job.0.json", "again.0.et")
    """
    return _written(chakra_conversion(path), path, out, to_json=False)


def chakra_jsonizer(path: Path, out: Path) -> list[Finding]:
    """Write an `.et` file as Chakra's jsonizer does: JSON messages without separators."""
    refuse_inputs(out, [path])
    conversion = conversion_of(path, JsonForm.JSONIZER)
    write_whole(out, conversion.chunks, overwrite=True)
    return conversion.findings


def chakra_conversion(path: str | Path, lines: bool = False) -> Conversion:
    """Convert a file to the other form; its name or first bytes show which it has."""
    return conversion_of(path, JsonForm.LINES if lines else JsonForm.DOCUMENT)


def _written(conversion: Conversion, path: str | Path, out: str | Path, to_json: bool) -> list[Finding]:
    if conversion.to_json is not to_json:
        found, expected = ("an .et file", "JSON") if conversion.to_json else ("JSON", "an .et file")
        other = "to_json" if conversion.to_json else "from_json"
        raise WrongTraceError(
            str(path),
            f"this is {found}, and no {expected.removeprefix('an ')}",
            f"Use tracebraid.chakra.{other}",
        )
    write_whole(Path(out), conversion.chunks, overwrite=False)
    return conversion.findings


_SPACE = re.compile(r"[\s,]*")
_HEAD = re.compile(r'\s*\{\s*"metadata"\s*:\s*')
_LIST = re.compile(r'\s*,\s*"nodes"\s*:\s*\[')
_TAIL = re.compile(r"\s*\]\s*\}\s*")
_DECODER = json.JSONDecoder()
_AT_MOST_CHARACTERS = 1 << 28
"""Maximum length of an object for a message: messages have at most 64 MiB."""


def json_objects(blocks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """The objects, with the metadata of a document first."""
    text = _Text(blocks)
    in_document = text.skip(_HEAD)
    if in_document:
        metadata = text.value()
        if metadata is not None:
            yield metadata
        if not text.skip(_LIST):
            raise text.error('behind the metadata there should be `"nodes": [`')
    while not text.at_end(_TAIL if in_document else None):
        yield text.value()


class _Text:
    """A text that is read on demand.

    Args:
        blocks: the text as UTF-8.
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._buffer, self._at, self._before, self._ended = "", 0, 0, False

    def skip(self, pattern: re.Pattern[str]) -> bool:
        """Consume a prefix of the text; return whether it matched."""
        while True:
            found = pattern.match(self._buffer, self._at)
            if found and (found.end() < len(self._buffer) or self._ended):
                self._at = found.end()
                return True
            if self._ended or len(self._buffer) - self._at > len(pattern.pattern) * 4:
                return bool(found)
            self._read()

    def at_end(self, tail: re.Pattern[str] | None) -> bool:
        """Return whether nothing follows but the tail of a document."""
        self.skip(_SPACE)
        if self._at < len(self._buffer):
            return tail is not None and self.skip(tail) and self.at_end(None)
        if tail is not None:
            raise self.error("the list of nodes has no end: the text was cut off")
        return True

    def value(self) -> Any:
        """The next object, or null."""
        while True:
            try:
                found, end = _DECODER.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                if self._ended or len(self._buffer) - self._at > _AT_MOST_CHARACTERS:
                    raise self.error(f"this is no JSON ({error.msg})", error.pos) from None
                self._read()
                continue
            except RecursionError:
                raise self.error("values are nested too deeply") from None
            except ValueError:
                raise self.error("a number has more digits than any member of a node") from None
            if found is not None and not isinstance(found, dict):
                raise self.error("this is no object")
            self._at = end
            return found

    def error(self, problem: str, at: int | None = None) -> ArgumentError:
        """A problem and its position."""
        return ArgumentError(f"character {self._before + (self._at if at is None else at):,}: {problem}")

    def _read(self) -> None:
        """Read at least as much as exists already, so that a long object is not tried again and again."""
        read = [self._buffer[self._at :]]
        self._before += self._at
        self._at = 0
        wanted = max(1, len(read[0]))
        while wanted > 0 and not self._ended:
            block = next(self._blocks, b"")
            self._ended = not block
            try:
                read.append(self._decode.decode(block, final=self._ended))
            except UnicodeDecodeError:
                raise self.error("this is no UTF-8") from None
            wanted -= len(read[-1])
        self._buffer = "".join(read)


WIRE = "@wire"
"""The key of a message's bytes in base64, where its JSON does not give them: it holds unknown fields, is written in
another way than protobuf writes it, or is damaged."""
METADATA_MEMBERS = {"version", "attr", WIRE}
"""Keys of the first object of a file if it is metadata, not a node."""


def members_of(kind: Any, content: bytes) -> dict[str, Any]:
    """A message as an object of JSON: names, texts for integers of 64 bits, and all else as protobuf has it."""
    try:
        message = kind.FromString(content)
    except messages().error:
        return {WIRE: base64.b64encode(content).decode()}
    members: dict[str, Any] = messages().to_json(message)
    if messages().of_json(members, kind()).SerializeToString() != content:
        members[WIRE] = base64.b64encode(content).decode()
    return members


def json_of(kind: Any, content: bytes) -> bytes:
    """The text of `members_of`, on one line."""
    return msgspec.json.encode(members_of(kind, content))


def bytes_of(kind: Any, members: dict[str, Any]) -> bytes:
    """The bytes of a message."""
    wire = members.pop(WIRE, None)
    try:
        message = messages().of_json(members, kind())
        content: bytes = message.SerializeToString()
        if wire is None:
            return content
        kept = base64.b64decode(wire, validate=True)
        said = members_of(kind, kept)
    # A double that is no number of its own overflows where an integer is meant.
    except (messages().json_error, ArithmeticError, ValueError, TypeError, AttributeError) as error:
        # The next lines of protobuf's error list all members that there are.
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ArgumentError(f"it is not a Chakra message: {reason}") from None
    said.pop(WIRE, None)
    if said != messages().to_json(message):
        raise ArgumentError(f"its members contradict its {WIRE!r}: delete that to use the members")
    return kept


_NUMBERS = {"id": "id", "startTimeMicros": "start_time_micros", "durationMicros": "duration_micros"}
_LISTS = {"ctrlDeps": "ctrl_deps", "dataDeps": "data_deps"}
_VALUES = {
    "int32Val": ("int32_val", int),
    "int64Val": ("int64_val", str),
    "uint32Val": ("uint32_val", int),
    "uint64Val": ("uint64_val", str),
    "boolVal": ("bool_val", bool),
    "stringVal": ("string_val", str),
}
"""Members of attributes, in JSON and in the schema, and the type that their values have in JSON."""


def plain_bytes(members: dict[str, Any]) -> bytes | None:
    """The bytes of a node; None if protobuf has to look at it."""
    try:
        content: bytes = messages().node(**_node(members)).SerializeToString()
    except (_NotPlainError, TypeError, ValueError, KeyError, AttributeError):
        return None
    return content


class _NotPlainError(Exception):
    """A member is unknown, or its value has another type."""


def _node(members: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in members.items():
        if name in _NUMBERS:
            found[_NUMBERS[name]] = _number(value)
        elif name in _LISTS and type(value) is list:
            found[_LISTS[name]] = [_number(item) for item in value]
        elif name == "attr" and type(value) is list:
            found[name] = [_attribute(item) for item in value]
        elif name == "type":
            found[name] = NodeType[value].value
        elif name == "name" and type(value) is str:
            found[name] = value
        elif name in ("inputs", "outputs"):
            if not all(type(text) is str for text in value.values()):
                raise _NotPlainError
            found[name] = messages().io_info(**value)
        else:
            raise _NotPlainError
    return found


def _attribute(members: dict[str, Any]) -> Any:
    if len(members) != 2:
        raise _NotPlainError
    (first, name), (member, value) = members.items()
    if first != "name" or type(name) is not str:
        raise _NotPlainError
    held, kind = _VALUES[member]
    if type(value) is not kind:
        raise _NotPlainError
    if kind is str and held != "string_val":
        value = _number(value)
    return messages().attribute(name=name, **{held: value})


def _number(text: Any) -> int:
    """An integer from its text; other texts that Python takes for integers are left to protobuf."""
    number = int(text) if type(text) is str else None
    if number is None or str(number) != text:
        raise _NotPlainError
    return number


_EXPECTED = "Expected JSON as `tracebraid chakra json` or Chakra's jsonizer writes it: correct this place"
_CHUNK_BYTES = 1 << 20


def frames_of_json(path: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of the `.et` file, some thousand nodes at a time."""
    done, pending = 0, bytearray()
    try:
        for members in json_objects(blocks):
            is_metadata = done == 0 and members.keys() <= METADATA_MEMBERS
            pending += length_delimited(_content(members, is_metadata))
            done += 1
            if len(pending) > _CHUNK_BYTES:
                yield bytes(pending)
                pending.clear()
    except ArgumentError as error:
        raise NotATraceError(path, str(error), _EXPECTED, f"object {done + 1:,}") from None
    yield bytes(pending)


def _content(members: dict[str, Any], is_metadata: bool) -> bytes:
    if is_metadata:
        return bytes_of(messages().metadata, members)
    content = plain_bytes(members)
    return bytes_of(messages().node, members) if content is None else content


_NAME = 1
_INT32 = 7
_INT64 = 9
_UINT32 = 11
_UINT64 = 13
_BOOL = 27
_STRING = 29
_MOST = {_INT32: (-(2**31), 2**31), _UINT32: (0, 2**32), _BOOL: (0, 2)}
"""Ranges of values, from and below; the others take all of 64 bits."""


def plain_attributes(data: bytes, attributes: Slices) -> list[str | None]:
    """The JSON of each attribute that has a name and a usual value alone; None of the others."""
    fields = fields_of(data, attributes)
    plain = ~unexpected(fields, ATTRIBUTE_FIELDS)
    plain[fields.row[~fields.minimal]] = False
    names, values = np.flatnonzero(fields.number == _NAME), np.flatnonzero(fields.number > _NAME)
    for rows in (names, values):
        plain &= np.bincount(fields.row[rows], minlength=len(attributes)) == 1
    plain[fields.row[names[fields.value[names] == fields.stop[names]]]] = False
    found: list[str | None] = [None] * len(attributes)
    rows = np.flatnonzero(plain)
    if len(rows) == 0:
        return found
    name = np.zeros(len(attributes), dtype=np.int64)
    value = np.zeros(len(attributes), dtype=np.int64)
    name[fields.row[names]], value[fields.row[values]] = names, values
    # The name stands before the value.
    rows = rows[name[rows] < value[rows]]
    for row, text in zip(rows.tolist(), _texts(data, fields, name[rows], value[rows]), strict=True):
        found[row] = text
    return found


def _texts(
    data: bytes, fields: Fields, name: NDArray[np.int64], value: NDArray[np.int64]
) -> list[str | None]:
    number, unique = numbered_texts(data, fields.slices(name))
    heads = [_head(text) for text in unique]
    kinds, bits = fields.number[value].tolist(), fields.value[value].tolist()
    stops = fields.stop[value].tolist()
    found: list[str | None] = []
    for index, kind, bit, stop in zip(number.tolist(), kinds, bits, stops, strict=True):
        head = heads[index]
        if head is None:
            found.append(None)
        elif kind == _INT64:
            found.append(f'{head}"int64Val":"{bit}"}}')
        elif kind == _STRING:
            text = _as_json(data[bit:stop])
            found.append(None if text is None else f'{head}"stringVal":{text}}}')
        elif kind == _UINT64:
            found.append(f'{head}"uint64Val":"{bit % 2**64}"}}')
        else:
            found.append(_rare(head, kind, bit))
    return found


def _rare(head: str, kind: int, bits: int) -> str | None:
    least, below = _MOST.get(kind, (-(2**63), 2**63))
    if not least <= bits < below:
        return None
    if kind == _BOOL:
        return f'{head}"boolVal":{"true" if bits else "false"}}}'
    if kind == _INT32:
        return f'{head}"int32Val":{bits}}}'
    return f'{head}"uint32Val":{bits}}}' if kind == _UINT32 else None


def _head(name: bytes) -> str | None:
    text = _as_json(name)
    return None if text is None else f'{{"name":{text},'


def _as_json(text: bytes) -> str | None:
    """A text as JSON; None if it is no UTF-8."""
    try:
        return msgspec.json.encode(text.decode()).decode()
    except UnicodeDecodeError:
        return None


_Ints = NDArray[np.int64]
_ID, _PLAIN_NODES_NAME, _TYPE, _CTRL_DEPS, _DATA_DEPS, _START, _DURATION, _INPUTS, _OUTPUTS, _ATTRIBUTES = (
    range(1, 11)
)
_TYPES = ["", *(f',"type":"{kind.name}"' for kind in NodeType if kind)]


def plain_nodes(data: bytes, nodes: Slices) -> list[str | None]:
    """The JSON of each node; None of those that protobuf has to look at."""
    fields = fields_of(data, nodes)
    plain = ~(unexpected(fields, NODE_FIELDS) | _out_of_order(fields, len(nodes)))
    members = [
        _numbers(fields, _ID, "id", len(nodes)),
        _names(data, fields, len(nodes), plain),
        _types(fields, len(nodes), plain),
        _deps(data, fields, _CTRL_DEPS, "ctrlDeps", plain),
        _deps(data, fields, _DATA_DEPS, "dataDeps", plain),
        _numbers(fields, _START, "startTimeMicros", len(nodes)),
        _numbers(fields, _DURATION, "durationMicros", len(nodes)),
        _parts(data, fields, _INPUTS, "inputs", plain),
        _parts(data, fields, _OUTPUTS, "outputs", plain),
        _attributes(data, fields, plain),
    ]
    texts = ["".join(node)[1:] for node in zip(*members, strict=True)]
    return [f"{{{text}}}" if good else None for text, good in zip(texts, plain.tolist(), strict=True)]


def _out_of_order(fields: Fields, count: int) -> NDArray[np.bool_]:
    """Return whether a node's fields are written in another way than protobuf writes them."""
    wrong = ~fields.minimal
    follows = np.zeros(len(wrong), dtype=np.bool_)
    follows[1:] = fields.row[1:] == fields.row[:-1]
    step = np.diff(fields.number, prepend=0)
    wrong |= follows & ((step < 0) | ((step == 0) & (fields.number != _ATTRIBUTES)))
    wrong |= (fields.wire_type == VARINT) & (fields.value == 0)
    is_part = fields.number >= _INPUTS
    wrong |= (fields.wire_type == LENGTH) & ~is_part & (fields.value == fields.stop)
    wrong |= (fields.wire_type == VARINT) & ((fields.number == _CTRL_DEPS) | (fields.number == _DATA_DEPS))
    found = np.zeros(count, dtype=np.bool_)
    found[fields.row[wrong]] = True
    return found


def _numbers(fields: Fields, member: int, name: str, count: int) -> list[str]:
    texts = [""] * count
    rows = fields.of(member)
    values = fields.value[rows].view(np.uint64).tolist()
    for row, value in zip(fields.row[rows].tolist(), values, strict=True):
        texts[row] = f',"{name}":"{value}"'
    return texts


def _names(data: bytes, fields: Fields, count: int, plain: NDArray[np.bool_]) -> list[str]:
    texts = [""] * count
    rows = fields.of(_PLAIN_NODES_NAME)
    number, unique = numbered_texts(data, fields.slices(rows))
    known = [_as_json(text) for text in unique]
    for row, index in zip(fields.row[rows].tolist(), number.tolist(), strict=True):
        text = known[index]
        if text is None:
            plain[row] = False
        else:
            texts[row] = f',"name":{text}'
    return texts


def _types(fields: Fields, count: int, plain: NDArray[np.bool_]) -> list[str]:
    rows = fields.of(_TYPE)
    types = np.zeros(count, dtype=np.int64)
    types[fields.row[rows]] = fields.value[rows]
    unknown = (types < 0) | (types >= len(_TYPES))
    plain[unknown] = False
    types[unknown] = 0
    return [_TYPES[kind] for kind in types.tolist()]


def _deps(data: bytes, fields: Fields, member: int, name: str, plain: NDArray[np.bool_]) -> list[str]:
    texts = [""] * len(plain)
    rows = fields.of(member)
    rows = rows[fields.wire_type[rows] == LENGTH]
    packed = packed_varints(data, fields.slices(rows))
    plain[fields.row[rows[~(packed.readable & packed.minimal)]]] = False
    ends = np.cumsum(np.bincount(packed.row, minlength=len(rows))).tolist()
    values = packed.value.view(np.uint64).tolist()
    first = 0
    for row, end in zip(fields.row[rows].tolist(), ends, strict=True):
        texts[row] = f',"{name}":["' + '","'.join(map(str, values[first:end])) + '"]'
        first = end
    return texts


def _parts(data: bytes, fields: Fields, member: int, name: str, plain: NDArray[np.bool_]) -> list[str]:
    """`inputs` or `outputs`: equal ones are looked at once."""
    texts = [""] * len(plain)
    rows = fields.of(member)
    number, unique = numbered_texts(data, fields.slices(rows))
    known = [_by_protobuf(messages().io_info, content) for content in unique]
    for row, index in zip(fields.row[rows].tolist(), number.tolist(), strict=True):
        text = known[index]
        if text is None:
            plain[row] = False
        else:
            texts[row] = f',"{name}":{text}'
    return texts


def _attributes(data: bytes, fields: Fields, plain: NDArray[np.bool_]) -> list[str]:
    """`attr`: equal ones are looked at once."""
    rows = fields.of(_ATTRIBUTES)
    slices = fields.slices(rows)
    number, unique = numbered_texts(data, slices)
    first = np.unique(number, return_index=True)[1]
    known = [
        _by_protobuf(messages().attribute, content) if text is None else text
        for text, content in zip(plain_attributes(data, slices[first]), unique, strict=True)
    ]
    lost = np.array([text is None for text in known], dtype=np.bool_)
    plain[fields.row[rows[lost[number]]]] = False
    found = [known[index] or "" for index in number.tolist()]
    texts = [""] * len(plain)
    ends = np.cumsum(np.bincount(fields.row[rows], minlength=len(plain))).tolist()
    begin = 0
    for row, end in enumerate(ends):
        if end > begin:
            texts[row] = ',"attr":[' + ",".join(found[begin:end]) + "]"
            begin = end
    return texts


def _by_protobuf(kind: Any, content: bytes) -> str | None:
    """The JSON of a part of a node; None if it loses something."""
    members = members_of(kind, content)
    return None if WIRE in members else msgspec.json.encode(members).decode()


_INDENT = 2
"""Spaces for a level, as protobuf's `MessageToJson` has it."""


class JsonForm(Enum):
    """JSON layout of a file's messages."""

    DOCUMENT = "document"
    """One object: `metadata`, and the list `nodes`, a line for each."""
    LINES = "lines"
    """A line for the metadata, then one for each node."""
    JSONIZER = "jsonizer"
    """Layout of Chakra's jsonizer: several lines for each message, no separators, no `@wire`."""


def chunks_of(file: FramedFile, form: JsonForm) -> Iterator[bytes]:
    """The text, some thousand nodes at a time; what steers a terminal stands in it as an escape."""
    return map(printable_json, _raw_chunks(file, form))


def _raw_chunks(file: FramedFile, form: JsonForm) -> Iterator[bytes]:
    is_begun, any_node = False, False
    for batch in file.batches():
        texts = _json_texts(batch)
        if batch.first == 0:
            head = _json_head(file, batch)
            yield _begin(form, head)
            is_begun = True
            texts = texts if head is None else texts[1:]
        if not texts:
            continue
        if form is JsonForm.LINES:
            yield ("\n".join(texts) + "\n").encode()
        elif form is JsonForm.JSONIZER:
            yield b"".join(map(_indented, texts))
        else:
            yield ((",\n" if any_node else "\n") + ",\n".join(texts)).encode()
        any_node = True
    if not is_begun:
        raise NotATraceError(file.path, "it contains no complete message", EXPECTED)
    if form is JsonForm.DOCUMENT:
        yield b"\n]}\n"


def _json_texts(batch: Batch) -> list[str]:
    starts, stops = batch.messages.start.tolist(), batch.messages.stop.tolist()
    return [
        json_of(messages().node, batch.data[start:stop]).decode() if text is None else text
        for text, start, stop in zip(plain_nodes(batch.data, batch.messages), starts, stops, strict=True)
    ]


def _json_head(file: FramedFile, batch: Batch) -> bytes | None:
    """The metadata; None if the file begins with a node."""
    content = batch.data[batch.messages.start[0] : batch.messages.stop[0]]
    metadata = members_of(messages().metadata, content)
    if WIRE not in metadata:
        return msgspec.json.encode(metadata)
    node = members_of(messages().node, content)
    if WIRE not in node:
        # What could be taken for metadata stands there as bytes alone.
        return msgspec.json.encode(metadata) if node.keys() <= METADATA_MEMBERS else None
    if len(metadata) == 1:
        raise NotATraceError(file.path, "its first message is not a Chakra message", EXPECTED, batch.where(0))
    return msgspec.json.encode(metadata)


def _begin(form: JsonForm, head: bytes | None) -> bytes:
    if form is JsonForm.DOCUMENT:
        return b'{"metadata": ' + (head or b"null") + b',\n"nodes": ['
    if head is None:
        return b""
    return head + b"\n" if form is JsonForm.LINES else _indented(head)


def _indented(text: str | bytes) -> bytes:
    """Format a message like protobuf's `MessageToJson`; nothing for a damaged message."""
    members = msgspec.json.decode(text)
    if list(members) == [WIRE]:
        return b""
    members.pop(WIRE, None)
    return json.dumps(members, indent=_INDENT).encode()


_ET_NAME = re.compile(r"\.et(\.gz|\.zst)?$", re.I)
_JSON_NAME = re.compile(r"\.(json|jsonl|ndjson)(\.gz|\.zst)?$", re.I)
_JSON_HEAD = re.compile(rb'\s*\{\s*["}]')


class Conversion(Struct, frozen=True, eq=False):
    """A file in its other form.

    Args:
        to_json: whether it becomes JSON, and is no JSON that becomes an `.et` file.
        chunks: its bytes, which can be consumed once.
        file: the file that is read.
    """

    to_json: bool
    chunks: Iterator[bytes]
    file: FramedFile

    @property
    def findings(self) -> list[Finding]:
        """Findings; complete after all chunks are consumed."""
        return self.file.findings


def conversion_of(path: str | Path, form: JsonForm) -> Conversion:
    """The way that a file's name tells, or else its first bytes."""
    file = open_frames(path)
    if _holds_json(file):
        return Conversion(False, frames_of_json(file.path, file.blocks()), file)
    return Conversion(True, chunks_of(file, form), file)


def _holds_json(file: FramedFile) -> bool:
    if _ET_NAME.search(file.path) or _JSON_NAME.search(file.path):
        return _ET_NAME.search(file.path) is None
    head = next(FramedFile(file.file, file.compression).blocks(), b"")
    return _JSON_HEAD.match(head) is not None
