"""Execution Traces in columns, made by hand: members of an archive, and the archive."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import polars as pl

from tracebraid.model.op_schema import HEADER, RECORDED_TABLES, member_of

SCHEMA = "1.1.1-chakra.0.0.4"
_ROWS: dict[str, list[dict[str, Any]]] = {
    "nodes": [
        {"node_id": 1, "name": "[pytorch|profiler|execution_trace|process]", "parent_id": 1, "tid": 0},
        {"node_id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "parent_id": 1, "tid": 1},
        {"node_id": 4, "name": "aten::add", "parent_id": 2, "tid": 1, "rf_id": 1},
        {"node_id": 8, "name": "record_param_comms", "parent_id": 2, "tid": 1, "rf_id": 2},
    ],
    "values": [{"node_id": 4, "is_output": False, "position": 0, "type": "Int", "value": "7", "shape": "[]"}],
    "tensor_uses": [],
    "attrs": [
        {"node_id": 8, "key": "pg_name", "type": "string", "value": '"0"'},
        {"node_id": 8, "key": "pg_size", "type": "uint64", "value": "2"},
        {"node_id": 8, "key": "dtype", "type": "string", "value": "5"},
        {"node_id": 8, "key": "other", "type": "string", "value": '"x"'},
    ],
}


def members(**others: bytes | None) -> dict[str, bytes]:
    """The members of an archive; those of another content, and without those that are None."""
    made = {HEADER: json.dumps({"schema": SCHEMA, "pid": 5}).encode()}
    for table in RECORDED_TABLES:
        rows = [{column.name: row.get(column.name) for column in table.columns} for row in _ROWS[table.name]]
        made[member_of(table)] = arrow(pl.DataFrame(rows, schema=table.polars_schema()))
    changed = {{"header": HEADER}.get(name, f"{name}.arrow"): content for name, content in others.items()}
    return {name: content for name, content in {**made, **changed}.items() if content is not None}


def arrow(frame: pl.DataFrame) -> bytes:
    """A table as an Arrow file."""
    content = io.BytesIO()
    frame.write_ipc(content)
    return content.getvalue()


def archive(folder: Path, content: dict[str, bytes], name: str = "torch_et_3.arrow.zip") -> Path:
    """An archive of these members."""
    path = folder / name
    with zipfile.ZipFile(path, "w") as made:
        for member, data in content.items():
            made.writestr(member, data)
    return path
