"""What stands beside the files of a folder of tables: `schema.json` for programs, `README.md` for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tracebraid.exporters.tables.exported_table import ExportedTable, columns_data
from tracebraid.model.column_units import unit_of

__all__ = ["FORMAT_VERSION", "write_catalog"]

FORMAT_VERSION = 1
"""Raised when tables are arranged otherwise."""

_README = """# Tables of a run

Written by Tracebraid. `schema.json` says the same for programs: each table, its file, its rows, and of each column
its type, unit and meaning. Times are int64 nanoseconds on the unix clock of the rank, unless the column says else.

- `timeline_*`: the Kineto traces. `rank` and `event_id` join them with each other and with the links.
- `et_*`: the Execution Traces. `rank` and `node_id` join them.
- `links_*`: what linking adds: which node is which op, what launched what, what waits for what.
- `ranks_*`: what joins the ranks. `answers_*`: what the analyses answer.
- `run_*`: the files, their headers, and what was noticed in them.
"""


def write_catalog(
    folder: Path, tables: Sequence[ExportedTable], rows: Mapping[str, int], suffix: str, notes: str = ""
) -> None:
    """Write the catalog of a folder.

    Args:
        folder: has the tables.
        tables: all of them.
        rows: how many rows each has, by its name.
        suffix: of their files.
        notes: what else is to know of the format, in Markdown.
    """
    data = {
        "format": FORMAT_VERSION,
        "tables": [
            {
                "name": table.name,
                "file": f"{table.name}.{suffix}",
                "rows": rows.get(table.name, 0),
                "doc": table.doc,
                "columns": columns_data(table.columns),
            }
            for table in tables
        ],
    }
    text = msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"
    (folder / "schema.json").write_bytes(text)
    parts = [
        _README,
        notes and f"\n{notes}\n",
        *(_section(table, rows.get(table.name, 0)) for table in tables),
    ]
    (folder / "README.md").write_text("".join(parts), encoding="utf-8", newline="\n")


def _section(table: ExportedTable, rows: int) -> str:
    lines = [
        f"\n## {table.name}\n\n{table.doc} Rows: {rows:,}.\n\n| column | unit | meaning |\n|---|---|---|\n"
    ]
    for column in table.columns:
        meaning = column.doc.replace("|", "\\|")
        lines.append(f"| `{column.name}` | {unit_of(column.name)} | {meaning} |\n")
    return "".join(lines)
