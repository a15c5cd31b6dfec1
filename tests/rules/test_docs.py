"""The documents say what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import tracebraid
import tracebraid.errors

ROOT = Path(__file__).resolve().parents[2]
MACHINE = re.compile("/(?:work|root|tmp/" + "dev)/")  # in two parts: this file is searched as well
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
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "benchmarks/README.md",
    ]
    assert len(documents) > 10
    broken = [
        (document.name, target)
        for document in documents
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert broken == []


def test_no_machine_s_path_is_in_the_project() -> None:
    """In a source distribution too, where there is no git to ask."""
    folders = ["src", "tests", "docs", "examples", "benchmarks", "tools", ".github"]
    suffixes = {".py", ".md", ".toml", ".yml", ".cpp", ".h", ".svg", ".ipynb", ".json"}
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    assert len(paths) > 300
    found = {
        str(path.relative_to(ROOT)) for path in paths if MACHINE.search(path.read_text(errors="replace"))
    }
    assert found == set()


def test_the_site_names_every_document_and_no_other() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    docs = ROOT / "docs"
    assert named == {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}


def test_the_reference_names_every_public_one() -> None:
    text = (ROOT / "docs/reference.md").read_text()
    named = set(re.findall(r"^::: tracebraid\.(?:[\w.]+\.)?(\w+)$", text, re.M))
    public = set(tracebraid.__all__) - {"__version__"} - set(tracebraid.errors.__all__)
    assert public - named == set()


def test_the_architecture_names_files_that_are_there() -> None:
    package = ROOT / "src" / "tracebraid"
    named = re.findall(r"`([\w/]+(?:/|\.py|\.cpp|\.h))`", (ROOT / "docs/architecture.md").read_text())
    folders = {"src/tracebraid/", "tests/unit/", "tests/rules/test_layers.py"}
    assert len(named) > 20
    assert [name for name in named if name not in folders and not (package / name).exists()] == []
    rooms = {path.name for path in package.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert {f"{room}/" for room in rooms - {"demo_traces"}} - set(named) == set()
