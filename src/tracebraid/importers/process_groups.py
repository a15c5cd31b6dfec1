"""Process groups, from Kineto's distributedInfo or from an Execution Trace's `process_group:init` node."""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl

from tracebraid.model.schema import PROCESS_GROUPS

__all__ = ["groups_of_kineto", "groups_of_text", "process_groups"]


def groups_of_kineto(header: dict[str, object]) -> pl.DataFrame:
    """The groups that a Kineto trace's header lists."""
    info = header.get("distributedInfo")
    return process_groups(info.get("pg_config") if isinstance(info, dict) else None)


def groups_of_text(text: str) -> pl.DataFrame:
    """The groups of a `process_group:init` node, whose one input is JSON text."""
    try:
        groups = msgspec.json.decode(text)
        return process_groups(msgspec.json.decode(groups) if isinstance(groups, str) else groups)
    except (msgspec.MsgspecError, RecursionError):
        return PROCESS_GROUPS.empty()


def process_groups(groups: object) -> pl.DataFrame:
    """A frame of `PROCESS_GROUPS` from a list of objects; anything else gives no rows."""
    rows = [_row(group) for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
    return pl.DataFrame(rows, schema=PROCESS_GROUPS.polars_schema(), orient="row")


def _row(group: dict[str, Any]) -> tuple[Any, ...]:
    ranks = group.get("ranks")
    size = group.get("pg_size", group.get("group_size"))
    return (
        _text(group.get("pg_name")),
        _text(group.get("pg_desc")),
        _text(group.get("backend_config")),
        _ranks(ranks.encode() if isinstance(ranks, str) else msgspec.json.encode(ranks)),
        size if _is_int64(size) else None,
    )


def _ranks(text: bytes) -> list[int] | None:
    """A list of ranks; null where the text is not such a list or was truncated, as an empty list means all ranks."""
    try:
        ranks = msgspec.json.decode(text, type=list[int])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return ranks if all(_is_int64(rank) for rank in ranks) else None


def _is_int64(value: object) -> bool:
    return isinstance(value, int) and -(2**63) <= value < 2**63


def _text(value: object) -> str | None:
    return None if value is None else str(value)
