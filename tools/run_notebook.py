"""Runs a notebook's code cells and stores what they show: `python tools/run_notebook.py examples/correlate.ipynb`.

Without Jupyter: a cell's output is what it prints, and the value of its last line, as text and as HTML.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Run each notebook that is named, and write it again with its outputs."""
    for name in sys.argv[1:]:
        path = Path(name)
        notebook = json.loads(path.read_text())
        run_notebook(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return 0


def run_notebook(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the code cells one after the other, put their outputs into them, and return the names they made."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, 1):
        cell["execution_count"] = count
        cell["outputs"] = _outputs("".join(cell["source"]), names, count)
    return names


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    body = ast.parse(source).body
    last = body.pop() if body else ast.Pass()
    shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body if shown else [*body, last], []), "cell", "exec"), names)
        value = eval(compile(shown, "cell", "eval"), names) if shown else None
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        outputs.append(
            {"data": _shown(value), "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def _shown(value: Any) -> dict[str, list[str]]:
    shown = {"text/plain": _lines(repr(value))}
    html = getattr(value, "_repr_html_", lambda: None)()
    return {"text/html": _lines(html), **shown} if html else shown


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    sys.exit(main())
