"""The code in docs/howto.md runs, block after block, and its commands print what it shows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto.md"
EMPTY_ON_A_CPU = {"Which op launched each kernel, and how long did the kernel wait?"}


def blocks() -> list[tuple[str, str]]:
    """(heading, code) of each block; the first stands before all headings."""
    title, found = "", []
    for heading, code in re.findall(r"^## ([^\n]+)$|```python\n(.*?)```", PAGE.read_text(), re.S | re.M):
        if code:
            found.append((title, code))
        title = heading or title
    return found


def run(code: str, names: dict[str, object]) -> object:
    """Run the block; the value of its last line, if that is an expression."""
    body = ast.parse(code)
    end = body.body[-1]
    last = end.value if isinstance(end, ast.Expr) else None
    if last:
        body.body.pop()
    exec(compile(body, PAGE.name, "exec"), names)
    return eval(compile(ast.Expression(last), PAGE.name, "eval"), names) if last else None


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    made: dict[str, object] = {}
    run(blocks()[0][1], made)
    return made


def test_there_are_ten_questions_at_least() -> None:
    assert len({title for title, _ in blocks()}) > 10


@pytest.mark.parametrize(("title", "code"), blocks()[1:], ids=lambda text: text[:40])
def test_the_code_runs_and_answers(
    title: str, code: str, names: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = run(code, names)
    if isinstance(answer, pl.DataFrame):
        assert answer.is_empty() == (title in EMPTY_ON_A_CPU)
    else:
        assert list(tmp_path.iterdir())


def test_the_walk_asks_for_causes_blame_efficiency_and_memory() -> None:
    asked = set(re.findall(r"^\$ tracebraid analyze (\w+)", PAGE.read_text(), re.M))
    assert {"idle_causes", "idle_blame", "roofline", "memory_at_peak"} <= asked


@pytest.mark.full
def test_commands_print_what_the_page_shows() -> None:
    tool = ROOT / "tools" / "write_howto_output.py"
    done = subprocess.run([sys.executable, tool, "--check"], check=False)
    assert done.returncode == 0, "run python tools/write_howto_output.py"
