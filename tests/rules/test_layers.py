"""Which room may import which. The table is the architecture: change it with the code, and say why."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "tracebraid"

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "files": {"errors"},
    "model": {"errors"},
    "recorders": {"model", "errors", "files", "version"},
    "validation": {"model", "errors"},
    "importers": {"model", "errors"},
    "linking": {"model", "errors"},
    "analysis": {"model", "errors"},
    "reports": {"model", "errors"},
    "exporters": {"model", "errors", "files"},
    "api": {
        *("model", "errors", "files"),
        *("recorders", "importers", "linking", "analysis", "validation", "reports", "exporters"),
    },
    # HTA's calls are the stages' own: it composes api, and hands out nouns of the model.
    "compat": {"api", "errors", "model"},
    # The command line hands nouns of the model from api to reports, and names them in its types.
    "cli": {"api", "errors", "model", "reports", "version"},
    "__main__": {"cli"},
    "__init__": {"api", "recorders", "errors", "model", "version"},
}

EXCEPTIONS: set[tuple[str, str]] = set()
"""(module, room) pairs that break the table on purpose."""

INNER_ROOMS: dict[str, set[str]] = {
    "linking.alignment": {"linking.names"},
    "linking.dependencies": {"linking.nesting"},
    "recorders.native": {"recorders.needs_torch"},
    "importers.json_stream": {"importers.reading"},
}
"""Rooms within a room, and what of the room around them they may import."""

KNOWS_TORCH = {"recorders/needs_torch.py"}
"""The one module that imports torch; the others of its room take it from there."""

OPTIONAL_LIBRARIES = {"torch", "pandas", "jinja2", "plotly", "ray", "duckdb", "fsspec", "google", "hta"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(module: Path) -> set[str]:
    """Dotted names of all modules that a module imports, anywhere in it."""
    found: set[str] = set()
    for item in ast.walk(ast.parse(module.read_text())):
        if isinstance(item, ast.Import):
            found |= {alias.name for alias in item.names}
        elif isinstance(item, ast.ImportFrom) and item.module:
            found |= {item.module, *(f"{item.module}.{alias.name}" for alias in item.names)}
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_what_the_table_allows(module: Path) -> None:
    room = room_of(module)
    rooms = {name.split(".")[1] for name in imports_of(module) if name.startswith("tracebraid.")}
    known = {other for other in rooms if other in MAY_IMPORT}
    forbidden = known - MAY_IMPORT[room] - {room}
    assert not {(module.stem, other) for other in forbidden} - EXCEPTIONS


@pytest.mark.parametrize("inner", sorted(INNER_ROOMS))
def test_a_room_within_a_room_imports_only_what_the_table_allows(inner: str) -> None:
    modules = sorted((PACKAGE / inner.replace(".", "/")).glob("*.py"))
    around = f"tracebraid.{inner.split('.')[0]}."
    own, allowed = f"tracebraid.{inner}", {f"tracebraid.{name}" for name in INNER_ROOMS[inner]}
    taken = {name for module in modules for name in imports_of(module) if name.startswith(around)}
    assert len(modules) > 1
    assert [name for name in sorted(taken) if not any(name.startswith(one) for one in {own, *allowed})] == []


def test_the_table_names_every_room() -> None:
    assert {room_of(module) for module in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_imports_an_optional_library(module: Path) -> None:
    allowed = {"torch"} if str(module.relative_to(PACKAGE)) in KNOWS_TORCH else set()
    assert not {name.split(".")[0] for name in imports_of(module)} & OPTIONAL_LIBRARIES - allowed


def test_only_the_recorders_take_torch_from_where_it_is_imported() -> None:
    takers = {
        room_of(module) for module in MODULES if "tracebraid.recorders.needs_torch" in imports_of(module)
    }
    assert takers == {"recorders"}


def test_the_command_line_starts_without_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, tracebraid.cli.main, tracebraid.recorders.launcher.launch; print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_the_worker_process_loads_no_polars() -> None:
    """Its start is paid for on every large file."""
    import subprocess
    import sys

    code = "import sys, tracebraid.importers.kineto.worker; print('polars' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
