"""A few lines for what a command printed or wrote: its shape and a hash of all of it."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import html
import io
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tracebraid.version import __version__

__all__ = ["digest_of", "file_lines", "first_lines", "is_json", "json_lines", "rows_by_table"]

_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]?\d+)?")
_EXACT_DIGITS = 14
"""Numbers of more digits are rounded to 12: the order of a sum changes their last ones."""
_MEMBERS = 24
"""A part of a JSON document of no more members has a line for each."""
_COLUMNS = 4
"""Names of columns and members that a line lists."""
_OF_WRITING = {"created", "created_at", "written_at", "version", "tracebraid", "tracebraid_version"}
"""Members of JSON that say when, and by which version, it was written."""


def digest_of(stdout: str, stderr: str, code: int) -> str:
    """The shape and a hash of standard output and error, and the exit code if it is not 0."""
    parts = [_shape(stdout)]
    if stderr:
        parts.append(f"stderr {_lines_and_hash(stderr)}")
    if code:
        parts.append(f"exit {code}")
    return ", ".join(parts)


def _shape(text: str) -> str:
    if not is_json(text):
        return _lines_and_hash(text) if text else "nothing"
    value = json.loads(text)
    shape = f"{len(value)} items" if isinstance(value, list) else _listed(value)
    return f"{shape} {_hash_of(value)}"


def _lines_and_hash(text: str) -> str:
    count = text.count("\n")
    return f"{count} line{'s' * (count != 1)} {_hash(_LONG_NUMBER.sub(_rounded, text))}"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return f"{', '.join(every[:_COLUMNS])}{', ...' * (len(every) > _COLUMNS)}"


def first_lines(text: str, lines: int) -> list[str]:
    """The first lines of a text, without empty ones at its end."""
    every = text.rstrip().splitlines() if lines else []
    return every if len(every) <= lines else [*every[:lines], "..."]


def _rounded(number: re.Match[str]) -> str:
    text = number.group()
    digits = re.sub(r"e.*|\D", "", text)
    return f"{float(text):.12g}" if len(digits.lstrip("0")) > _EXACT_DIGITS else text


def _hash(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:10]


def _hash_of(value: Any) -> str:
    return _hash(json.dumps(_canonical(value), ensure_ascii=False, default=str))


def _canonical(value: Any) -> Any:
    """The value with floats of 12 digits, which do not depend on the order of a sum, and nothing about its writing."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: None if key in _OF_WRITING else _canonical(member) for key, member in value.items()}
    return list(map(_canonical, value)) if isinstance(value, list | tuple) else value


# --- Text ------------------------------------------------------------------------------------------


def is_json(text: str) -> bool:
    """Whether a text is one JSON document with members or items."""
    try:
        return text.startswith(("{", "[")) and bool(json.loads(text))
    except ValueError:
        return False


def json_lines(text: str) -> Iterator[str]:
    """A line for each member of a document."""
    yield from _members("", json.loads(text))


def _members(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and 0 < len(value) <= _MEMBERS and name.count(".") < 1:
        for key, member in value.items():
            yield from _members(f"{name}.{key}" if name else key, member)
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        yield f"{name}: {len(value)} of {_listed(value[0])}: {_hash_of(value)}"
    else:
        text = json.dumps(_canonical(value), ensure_ascii=False)
        yield f"{name}: {text if len(text) <= 60 else _hash(text)}"


def rows_by_table(text: str) -> Iterator[str]:
    """Of CSV whose rows are the name of a table, and one of its rows as JSON: a line for each table."""
    tables: dict[str, list[str]] = {}
    csv.field_size_limit(1 << 30)
    for name, row in [*csv.reader(io.StringIO(text))][1:]:
        tables.setdefault(name, []).append(json.dumps(_canonical(json.loads(row)), ensure_ascii=False))
    for name, rows in sorted(tables.items()):
        yield f"{name}: {len(rows)} rows {_hash_of(sorted(rows))}"


# --- Files -----------------------------------------------------------------------------------------


def file_lines(files: Mapping[str, Path | str], members: bool) -> Iterator[str]:
    """Lines for what is in files, whatever compresses them: for each file, or for each folder of many."""
    folders: dict[str, list[str]] = {}
    for name, content in files.items():
        parts = [_shape(content)] if isinstance(content, str) else list(_parts_of_file(content))
        if not members:
            parts = parts if len(parts) == 1 else [f"{len(parts)} parts {_hash(chr(10).join(parts))}"]
        folders.setdefault(name.partition("/")[0], []).extend(f"{name}: {part}" for part in parts)
    for folder, lines in folders.items():
        if members or len(lines) == 1:
            yield from lines
        else:
            yield f"{folder}/: {len(lines)} files {_hash(chr(10).join(lines))}"


def _parts_of_file(path: Path) -> Iterator[str]:
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    suffix = next((suffix for suffix in reversed(path.suffixes) if suffix != ".gz"), "")
    read: dict[str, Callable[[bytes], pl.DataFrame]] = {".parquet": pl.read_parquet, ".arrow": pl.read_ipc}
    if suffix in read:
        frame = read[suffix](data)
        columns = [f"{column} {dtype}" for column, dtype in frame.schema.items()]
        yield f"{frame.height} rows of {_listed(frame.columns)}: {_hash_of([columns, frame.rows()])}"
    elif suffix == ".sqlite":
        yield from _sqlite_parts(path)
    else:
        try:
            text = data.decode().replace(__version__, "VERSION")
        except UnicodeDecodeError:
            yield f"{len(data)} bytes {_hash(data)}"
            return
        if suffix == ".html":
            yield from _page_parts(text)
        else:
            yield _shape(text)


def _sqlite_parts(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(path)) as database:
        names = database.execute("SELECT name, type, sql FROM sqlite_master ORDER BY type, name").fetchall()
        for name, kind, sql in names:
            rows = database.execute(f'SELECT * FROM "{name}"').fetchall() if kind in ("table", "view") else []
            yield f"{kind} {name}: {len(rows)} {_hash_of([sql, rows])}"


def _page_parts(text: str) -> Iterator[str]:
    """Each section by the text that it shows, and each block of data."""
    title, *sections = re.split(r'(?=<section id=")', text.partition("<body>")[2])
    yield f"head: {_hash(_shown(title))}"
    for section in sections:
        yield f"section {section.split(chr(34), 2)[1]}: {_hash(_shown(section))}"
    for name, block in re.findall(r'<script[^>]*\bid="([^"]+)"[^>]*>([^<]*)</script>', text):
        try:
            raw = gzip.decompress(base64.b64decode(block))
        except (ValueError, OSError):
            yield f"data {name}: {_hash(block)}"
        else:
            yield f"data {name}: {_block(raw)}"


def _block(raw: bytes) -> str:
    """A block of a page: a header in JSON, then for each column the lowest bytes of all values, the next ones, and so
    on.
    """
    end = 4 + int.from_bytes(raw[:4], "little")
    header, data = json.loads(raw[4:end]), raw[end:]
    rows, values = header["rows"], []
    for column in header["columns"]:
        if column["type"] == "float":
            planes = np.frombuffer(data, np.uint8, 8 * rows, column["offset"]).reshape(8, rows)
            values.append(np.ascontiguousarray(planes.T).view("<f8").ravel().tolist())
        else:
            width = column["width"]
            values.append(_hash(data[column["offset"] : column["offset"] + width * rows]))
    names = _listed(column["name"] for column in header["columns"])
    return f"{rows} rows of {names}: {_hash_of([header, values])}"


def _shown(markup: str) -> str:
    without = re.sub(r"<(script|style)\b.*?</\1>", "", markup, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", without)).split())
