"""Writes into docs/sql.md what its queries answer.

Run `python tools/write_sql_recipes.py` after a change of the page or of an answer; `--check` only says whether it is
up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.sql_recipes import PAGE, rendered


def main() -> int:
    """Write the page, or check it."""
    text = rendered()
    if text == PAGE.read_text(encoding="utf-8"):
        return 0
    if "--check" in sys.argv[1:]:
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
