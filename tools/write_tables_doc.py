"""Writes `docs/tables.md` from the schema: run `python tools/write_tables_doc.py` after a change of it."""

from __future__ import annotations

import sys
from pathlib import Path

from tracebraid.model import answers, schema
from tracebraid.model.column import Table

TARGET = Path(__file__).resolve().parents[1] / "docs" / "tables.md"

HEAD = """# Tables

Made from `src/tracebraid/model/schema` and `model/answers/` by `tools/write_tables_doc.py`.
Times are int64 nanoseconds on the unix clock; sizes are bytes. The type in brackets is the polars dtype.
Columns of JSON text hold the text of the file, on one line.
"""

PARTS = (
    ("Kineto trace: `Timeline`", schema.kineto),
    ("Execution Trace: `ExecutionTrace`", schema.execution_trace),
    ("Links: `LinkedTrace`", schema.links),
    ("Answers", answers),
)


def main() -> int:
    """Write the file; with `--check`, say instead whether it is up to date."""
    text = render()
    if "--check" in sys.argv[1:]:
        return 0 if TARGET.read_text() == text else 1
    TARGET.write_text(text)
    return 0


def render() -> str:
    """The whole document."""
    parts = [HEAD]
    for title, module in PARTS:
        tables = [value for name in module.__all__ if isinstance(value := getattr(module, name), Table)]
        parts += [f"\n## {title}\n", *(_table(table) for table in tables)]
    return "".join(parts)


def _table(table: Table) -> str:
    dtypes = table.polars_schema()
    lines = [f"\n### `{table.name}`\n\n{table.doc}\n\n| column | meaning | in the file |\n|---|---|---|\n"]
    for column in table.columns:
        keys = ", ".join(f"`{key}`" for key in column.keys)
        meaning = column.doc.replace("|", "\\|")
        lines.append(f"| `{column.name}` ({_short(str(dtypes[column.name]))}) | {meaning} | {keys} |\n")
    return "".join(lines)


def _short(dtype: str) -> str:
    return dtype.split("(")[0] if dtype.startswith("Categorical") else dtype


if __name__ == "__main__":
    sys.exit(main())
