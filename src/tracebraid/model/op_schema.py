"""The arguments of an operator by its schema, and which of them it writes.

A schema is text such as `aten::add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tracebraid.model.column import Column, Kind, Table
from tracebraid.model.schema import ET_NODES, ET_TENSOR_USES, ET_TENSORS, ET_VALUES

_CHANGED = re.compile(r"\(\w+!(?:\s*->\s*[\w*|]+)?\)")


@lru_cache(maxsize=4096)
def written_positions(schema: str) -> tuple[frozenset[int], frozenset[int]]:
    """(inputs, outputs) that the operator changes, by position. A schema that does not parse changes nothing."""
    begin = schema.find("(")
    end = _closing(schema, begin)
    returns = schema[end + 1 :].strip()
    if begin < 0 or end < 0 or not returns.startswith("->"):
        return frozenset(), frozenset()
    inputs = _inputs(schema)
    text = returns.removeprefix("->").strip()
    outputs = _split(text[1:-1]) if text.startswith("(") and text.endswith(")") else [text]
    return _changed(inputs), _changed(outputs)


@lru_cache(maxsize=4096)
def argument_names(schema: str) -> tuple[str, ...]:
    """The names of the inputs, by position. A schema that does not parse has none."""
    names = [text.partition("=")[0].split()[-1:] for text in _inputs(schema)]
    return tuple(name for found in names for name in found or [""])


def _inputs(schema: str) -> list[str]:
    begin = schema.find("(")
    end = _closing(schema, begin)
    return [text for text in _split(schema[begin + 1 : end]) if text != "*"] if 0 <= begin < end else []


def _closing(text: str, begin: int) -> int:
    """Return the position at which the bracket opened at `begin` closes; -1 if nowhere."""
    depth = 0
    for index in range(max(begin, 0), len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return -1


def _changed(texts: list[str]) -> frozenset[int]:
    return frozenset(i for i, text in enumerate(texts) if _CHANGED.search(text))


def _split(text: str) -> list[str]:
    """Split at the commas outside all brackets."""
    parts, depth, begin = [], 0, 0
    for index, letter in enumerate(text):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:index].strip())
            begin = index + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts


SUFFIX = ".arrow.zip"
HEADER = "execution_trace.json"
"""The member of the archive that holds the members of the JSON form beside its nodes."""

RECORDED_TENSOR_USES = Table(
    "tensor_uses",
    "Uses of tensors as recorded, each with the members of the tensor's tuple.",
    (*ET_TENSOR_USES.columns[:-1], *ET_TENSORS.columns[1:-1]),
)
_ATTRS = Table(
    "attrs",
    "One row per attribute of a node that `nodes` has no column for.",
    (
        ET_NODES.column("node_id"),
        Column("key", Kind.NAME, "its name"),
        Column("type", Kind.NAME, "its type, as the trace has it"),
        Column("value", Kind.JSON, "its value, as JSON text"),
    ),
)
RECORDED_TABLES = (
    Table(ET_NODES.name, ET_NODES.doc, ET_NODES.columns[:-1]),
    ET_VALUES,
    RECORDED_TENSOR_USES,
    _ATTRS,
)
"""The tables of the archive."""


def is_arrow(name: str) -> bool:
    """Return whether a file of this name is such an archive."""
    return name.lower().endswith(SUFFIX)


def member_of(table: Table) -> str:
    """The member of the archive that holds a table."""
    return f"{table.name}.arrow"
