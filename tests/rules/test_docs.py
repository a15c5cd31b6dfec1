"""The documents say what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_tables_document_is_made_from_the_schema() -> None:
    result = subprocess.run([sys.executable, "tools/write_tables_doc.py", "--check"], cwd=ROOT)
    assert result.returncode == 0, "run python tools/write_tables_doc.py"


def test_every_command_is_in_the_readme() -> None:
    from tracebraid.cli.commands import COMMANDS

    assert [name for name in COMMANDS if f"tracebraid {name}" not in README] == []


def test_the_readme_s_python_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    """The Python block that has a text block behind it."""
    found = re.search(r"```python\n((?:(?!```).)*)```\s*```text\n(.*?)```", README, re.S)
    assert found, "the README shows six lines of Python and their output"
    code, shown = found.groups()
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout == shown


def test_documents_link_only_to_files_that_are_there() -> None:
    documents = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").glob("*.md"),
        ROOT / "benchmarks/README.md",
    ]
    broken = [
        (document.name, target)
        for document in documents
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert broken == []


def test_no_machine_s_path_is_in_the_project() -> None:
    text = subprocess.run(
        ["git", "grep", "-nE", r"/(work|root|tmp/dev)/"], cwd=ROOT, capture_output=True, text=True
    )
    lines = [line for line in text.stdout.splitlines() if not line.startswith("tests/rules/test_docs.py")]
    assert lines == []
