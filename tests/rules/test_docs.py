"""The documents say what the code does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tracebraid
from tools.site_pages import PAGES, TABLES

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {"--index-url", "--nproc-per-node", "--recurse-submodules"}
"""Options of pip, torchrun and git."""
MACHINE = re.compile("/(?:work|root|tmp/" + "dev)/")  # in two parts: this file is searched as well
README = (ROOT / "README.md").read_text()
PUBLIC = {*tracebraid.__all__, "detectors", "metrics", "py", "sql"}
"""Names and modules of the package, groups of entry points, and the name of a script."""


def test_every_command_is_in_the_documents() -> None:
    from tracebraid.cli.commands import COMMANDS

    page = (ROOT / "docs" / "commands.md").read_text()
    assert [name for name in COMMANDS if f"tracebraid {name}" not in page] == []


def test_options_and_names_in_the_documents_are_in_the_code() -> None:
    code = "".join(
        path.read_text()
        for folder in ("src", "tools", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    )
    wrong = []
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        text = document.read_text()
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - OTHERS
        wrong += [
            (document.name, o) for o in options if o not in code and o[2:].replace("-", "_") not in code
        ]
        names = set(re.findall(r"\btracebraid\.([a-zA-Z]\w*)(?!\w*\.(?:py|md))", text))
        wrong += [
            (document.name, n)
            for n in names
            if n not in PUBLIC and not (ROOT / "src/tracebraid" / n).exists()
        ]
        inner = set(
            re.findall(r"\btracebraid\.(analyses|chakra|errors|plugins|results)\.([a-zA-Z]\w*)", text)
        )
        wrong += [(document.name, f"{m}.{n}") for m, n in inner if n not in getattr(tracebraid, m).__all__]
    assert wrong == []


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


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
    built = {ROOT / "docs" / page for page in PAGES}
    broken = [
        (document.name, target)
        for document in documents
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text())
        if not (document.parent / target).exists()
        and not (
            document.is_relative_to(ROOT / "docs")
            and Path(os.path.normpath(document.parent / target)) in built
        )
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
    written = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    assert written & set(PAGES) == set()
    assert named == written | set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_built_page_has_a_title_and_rows(page: str) -> None:
    text = PAGES[page]()
    assert text.startswith("# ")
    assert text.count("\n| ") > 20 or text.count("\n::: ") > 20


def test_every_table_that_a_page_asks_for_is_known() -> None:
    requested = [
        name
        for path in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r"^\{\{ (\w+) \}\}$", path.read_text(), re.M)
    ]
    assert sorted(requested) == sorted(TABLES)


def test_the_architecture_names_files_that_are_there() -> None:
    package = ROOT / "src" / "tracebraid"
    named = re.findall(r"`([\w/]+(?:/|\.py|\.cpp|\.h))`", (ROOT / "docs/architecture.md").read_text())
    folders = {"src/tracebraid/", "tests/unit/", "tests/rules/test_layers.py"}
    assert len(named) > 20
    assert [name for name in named if name not in folders and not (package / name).exists()] == []
    rooms = {path.name for path in package.iterdir() if path.is_dir() and not path.name.startswith("__")}
    assert {f"{room}/" for room in rooms - {"demo_traces"}} - set(named) == set()
