"""The tensors in the inputs and outputs of nodes, as columns: those that stand alone and those inside lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import polars as pl

from tracebraid.importers.columns import int_column
from tracebraid.model.column import INT64_NULL
from tracebraid.model.et_arrow import RECORDED_TENSOR_USES
from tracebraid.model.expressions import as_text

__all__ = ["devices_of_values", "tensor_uses"]

_TUPLE = tuple[int, int, int, int, int, str]
"""tensor_id, storage_id, storage_offset (elements), numel, itemsize (bytes), device."""

_TUPLES = msgspec.json.Decoder(list[_TUPLE])
_INNER_TYPE = re.compile(r"Tensor\(((?:[^()]|\([^()]*\))*)\)")
_ALONE = r"^Tensor\("
_IN_LIST = r"^.+Tensor\("
_NUMBERS = ("tensor_id", "storage_id", "storage_offset", "numel", "itemsize_bytes")


def tensor_uses(values: pl.DataFrame) -> pl.DataFrame:
    """One row per tensor in the table `values`, with the members of its tuple: `RECORDED_TENSOR_USES`."""
    rows = values.with_row_index("row").with_columns(pl.col("type").cast(pl.String))
    text = pl.col("type")
    alone = _alone(rows.filter(text.str.contains(_ALONE)))
    inside = _inside_lists(
        rows.filter(text.str.contains(_IN_LIST) & ~text.str.contains(_ALONE)).with_columns(
            pl.col("value", "shape").cast(pl.String)
        )
    )
    both = pl.concat([alone, inside]) if inside.height else alone
    return both.sort("row", "item", nulls_last=False).select(list(RECORDED_TENSOR_USES.polars_schema()))


def devices_of_values(values: pl.DataFrame) -> frozenset[str]:
    """The devices of `tensor_uses`: each distinct value is parsed once, and nothing is made of it."""
    kind = as_text("type")
    tensors = values.filter(kind.str.contains(_ALONE) | kind.str.contains(_IN_LIST))
    distinct = tensors.select("value", kind.str.contains(_ALONE).alias("alone")).drop_nulls().unique()
    texts, alone = distinct.get_column("value").cast(pl.String).to_list(), distinct.get_column("alone")
    found = {
        members[-1]
        for members in _parsed([text for text, is_alone in zip(texts, alone, strict=True) if is_alone])
        if members is not None
    }
    for text in (text for text, is_alone in zip(texts, alone, strict=True) if not is_alone):
        found.update(members[-1] for members, _, _ in _inside(text, None, []))
    return frozenset(found)


def _alone(rows: pl.DataFrame) -> pl.DataFrame:
    """The values that are one tensor each; each distinct value is parsed once."""
    texts = rows.get_column("value").unique().drop_nulls()
    parsed = _parsed(texts.cast(pl.String).to_list())
    members = {"value": texts, **_members(parsed)}
    known = pl.DataFrame(members).filter(pl.Series([found is not None for found in parsed], dtype=pl.Boolean))
    dtype = pl.col("type").str.slice(len("Tensor(")).str.head(-1)
    schema = {"row": rows.schema["row"], **RECORDED_TENSOR_USES.polars_schema()}
    return (
        rows.join(known, on="value", how="inner", maintain_order="left")
        .with_columns(dtype.alias("dtype"), pl.lit(None, pl.Int64).alias("item"))
        .select(list(schema))
        .cast(schema)  # type: ignore[arg-type]
    )


def _parsed(texts: list[str]) -> list[_TUPLE | None]:
    """The tuple of each text; None where it is none."""
    try:
        return [*_TUPLES.decode(f"[{','.join(texts)}]")]
    except (msgspec.MsgspecError, UnicodeError):
        return [_parsed_alone(text) for text in texts]


def _parsed_alone(text: str) -> _TUPLE | None:
    try:
        found = _TUPLES.decode(f"[{text}]")
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return found[0] if len(found) == 1 else None


def _members(tuples: list[_TUPLE | None]) -> dict[str, pl.Series]:
    """The members of tuples as columns."""
    empty: tuple[Any, ...] = (None,) * (len(_NUMBERS) + 1)
    members = list(zip(*(found or empty for found in tuples), strict=True)) if tuples else [()] * len(empty)
    columns = {
        name: _integers(name, list(column)) for name, column in zip(_NUMBERS, members[:-1], strict=True)
    }
    return {**columns, "device": pl.Series(members[-1], dtype=pl.Categorical)}


def _inside_lists(rows: pl.DataFrame) -> pl.DataFrame:
    """The tensors inside the values that are lists or tuples of tensors."""
    names = ("row", "node_id", "is_output", "position", "type", "value", "shape")
    found: list[tuple[Any, ...]] = []
    for row, node, is_output, position, kind, text, shape in rows.select(names).iter_rows():
        dtypes = _INNER_TYPE.findall(kind)
        found += [
            (row, node, is_output, position, item, *members, dtype, its_shape)
            for item, (members, dtype, its_shape) in enumerate(_inside(text, shape, dtypes))
        ]
    schema = {"row": rows.schema["row"], **RECORDED_TENSOR_USES.polars_schema()}
    columns = list(zip(*found, strict=True)) if found else [()] * len(schema)
    numbers = {"node_id", "position", "item", *_NUMBERS}
    series = [
        _integers(name, list(column)) if name in numbers else pl.Series(name, column, dtype=dtype)
        for (name, dtype), column in zip(schema.items(), columns, strict=True)
    ]
    return pl.DataFrame(series)


def _inside(text: Any, shape: Any, dtypes: list[str]) -> Iterator[tuple[_TUPLE, str, str]]:
    """The tensors inside a list or tuple, at any depth, in order: members, type and shape of each."""
    try:
        value = msgspec.json.decode(text)
        shapes = msgspec.json.decode(shape) if shape else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return
    types = iter(dtypes)
    stack: list[tuple[Any, Any]] = [(value, shapes)]
    while stack:
        item, its_shape = stack.pop()
        if not isinstance(item, list):
            continue
        members = _as_tuple(item)
        if members is not None:
            yield members, next(types, ""), msgspec.json.encode(its_shape).decode()
            continue
        inner = (
            its_shape if isinstance(its_shape, list) and len(its_shape) == len(item) else [None] * len(item)
        )
        stack += reversed(list(zip(item, inner, strict=True)))


def _as_tuple(item: list[Any]) -> _TUPLE | None:
    if len(item) == 6 and isinstance(item[5], str) and all(type(part) is int for part in item[:5]):
        return (item[0], item[1], item[2], item[3], item[4], item[5])
    return None


def _integers(name: str, values: list[int | None]) -> pl.Series:
    """Integers; null where int64 cannot hold one."""
    column = pl.Series(name, int_column(values))
    return column.set(column == INT64_NULL, None)
