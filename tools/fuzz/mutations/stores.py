"""Changes of stores: what their sealed JSON says, their tables, and their files; mostly so that all seals hold."""

from __future__ import annotations

import hashlib
import io
import json
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import parquet as parquet_file

from tools.fuzz.model import Files, Mutation
from tools.fuzz.mutations.table_files import changed_parquet

_HEAD, _BETWEEN, _TAIL = b'{"sha256":"', b'",\n"content":', b"}\n"
_START = len(_HEAD) + 64 + len(_BETWEEN)
_SEALED = 0.9
"""The chance that the seals are made right again."""
_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 10**30, -(2**63), 2**63, 1e308, float("nan"), float("inf"), "", "\x1b[31m", "../../x",
    "/etc/passwd", "\u202e", "a\0b", "\ud800", "x" * 5000, [], {}, [[]], [None], {"": None}, {"$kind": "tuple"},
    {"$kind": "dict", "value": [[[], 1]]}, {"$kind": "ChosenIterations", "value": {}}, {"$kind": "FindingCode"},
)  # fmt: skip
Document = Any


def parquet(files: Files, rng: random.Random) -> Files:
    """A table is another."""
    found = sorted(name for name in files if name.endswith(".parquet"))
    if not found:
        return files
    name = rng.choice(found)
    return _resealed({**files, name: changed_parquet(files[name], rng)}, rng)


def sealed_value(files: Files, rng: random.Random) -> Files:
    """A value of a sealed file is another."""
    return _with_document(files, rng, _replace)


def sealed_member(files: Files, rng: random.Random) -> Files:
    """A member of a sealed file is missing, called otherwise, there twice, or has the value of another."""
    return _with_document(files, rng, _move)


def sealed_text(files: Files, rng: random.Random) -> Files:
    """Put JSON into a sealed file that no store has."""
    name = _sealed_file(files, rng)
    texts = (
        b"[" * 100_000,
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe",
        b'{"format":1}',
        b"9" * 5000,
        b'{"format":"1"}',
    )
    return files if name is None else _resealed({**files, name: _sealed(rng.choice(texts))}, rng)


def other_files(files: Files, rng: random.Random) -> Files:
    """A file is missing, has the content of another, or lies where none should."""
    name, other = rng.choice(sorted(files)), rng.choice(sorted(files))
    way = rng.randrange(4)
    if way == 0:
        return _resealed({path: data for path, data in files.items() if path != name}, rng)
    if way == 1:
        return _resealed({**files, name: files[other]}, rng)
    root = name.split("/")[0]
    if way == 2:
        return {path: data for path, data in files.items() if path != name} | {f"{name}/inside": b"1"}
    places = (".lock", ".store.json.1.whole.part", "ranks/rank_000009.json", "tables/odd/rank_000000.parquet")
    return {
        **files,
        f"{root}/{rng.choice(places)}": rng.choice((b"", b"process 1 on \x1b[31m", files[other])),
    }


STORE_MUTATIONS: tuple[Mutation, ...] = (
    *(parquet,) * 5, *(sealed_value,) * 5, *(sealed_member,) * 2, sealed_text, other_files,
)  # fmt: skip


def _with_document(
    files: Files, rng: random.Random, change: Callable[[list[tuple[Any, Any]], random.Random], None]
) -> Files:
    name = _sealed_file(files, rng)
    document = None if name is None else _document(files[name])
    if name is None or document is None:
        return files
    for _ in range(rng.choice((1, 1, 3))):
        places = list(_places(document))
        if places:
            change(places, rng)
    return _resealed({**files, name: _sealed(_text(document))}, rng)


def _replace(places: list[tuple[Any, Any]], rng: random.Random) -> None:
    holder, key = rng.choice(places)
    old = holder[key]
    near = [old + 1, -old, old * 10**6] if isinstance(old, int) else [[old], str(old)]
    holder[key] = rng.choice((*_ODD, *near))


def _move(places: list[tuple[Any, Any]], rng: random.Random) -> None:
    holder, key = rng.choice(places)
    other, name = rng.choice(places)
    way = rng.randrange(3)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[rng.choice(("", "odd", "../../../etc/passwd", "events", "\x1b[31m"))] = holder.pop(key)
    else:
        holder[key] = json.loads(json.dumps(other[name]))


def _places(document: Document) -> Any:
    """(object or list, key or index) of all values, those of large objects as often as those of small ones."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(items):
        yield document, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _sealed_file(files: Files, rng: random.Random) -> str | None:
    found = sorted(name for name, data in files.items() if data.startswith(_HEAD))
    return rng.choice(found) if found else None


def _document(data: bytes) -> Document | None:
    try:
        document = json.loads(data[_START : -len(_TAIL)])
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict | list) else None


def _text(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _sealed(text: bytes) -> bytes:
    return _HEAD + _sha256(text) + _BETWEEN + text + _TAIL


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _resealed(files: Files, rng: random.Random) -> Files:
    """The files with hashes, sizes and rows that fit: of tables in what describes ranks, of that in the manifest."""
    if rng.random() > _SEALED:
        return files
    files = dict(files)
    hashes: dict[str, str] = {}
    for name in sorted(files, key=lambda path: ("/ranks/" not in path, path)):
        root, _, rest = name.partition("/")
        document = _document(files[name]) if files[name].startswith(_HEAD) else None
        if not isinstance(document, dict):
            continue
        folder, stem = rest.rpartition("/")[::2]
        stem = stem.removesuffix(".json")
        tables = document.get("tables")
        for table, stated in tables.items() if isinstance(tables, dict) else ():
            place = f"joined/{table}" if folder == "answers" else f"{table}/{stem}"
            data = files.get(f"{root}/{'answers' if folder == 'answers' else 'tables'}/{place}.parquet")
            if isinstance(stated, dict) and data is not None:
                stated |= {"size_bytes": len(data), "sha256": _sha256(data).decode()}
                _state_rows(stated, data)
        for key in ("ranks", "descriptions"):
            _name_descriptions(document.get(key), hashes)
        files[name] = _sealed(_text(document))
        hashes[stem] = _sha256(files[name]).decode()
    return files


def _state_rows(stated: dict[str, Any], data: bytes) -> None:
    """Let the rows that are stated be those of a table; of a joined one the first ranks have more or fewer."""
    try:
        count = parquet_file.read_metadata(io.BytesIO(data)).num_rows
    except (pa.ArrowException, OSError):
        return
    rows = stated.get("rows")
    if isinstance(rows, int):
        stated["rows"] = count
    elif isinstance(rows, list) and all(isinstance(of_rank, int) for of_rank in rows):
        more = count - sum(of_rank for of_rank in rows if of_rank > 0)
        for number, of_rank in enumerate(rows):
            if of_rank >= 0:
                rows[number] = max(0, of_rank + more)
                more -= rows[number] - of_rank


def _name_descriptions(entries: Any, hashes: dict[str, str]) -> None:
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        found = hashes.get(f"rank_{number:06d}")
        if found is not None and isinstance(entry, dict):
            entry["sha256"] = found
        elif found is not None and isinstance(entry, str):
            entries[number] = found
