"""Which room may import which. The table is the architecture: change it with the code, and say why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.rules.imports import MODULES, PACKAGE, imports_of, imports_of_text, in_modules, room_of

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    # What is written to without being a file: the command line asks for it before it refuses what is there.
    "output_streams": {"clock", "errors"},
    "files": {"errors", "output_streams"},
    # Waits, retries and refreshes read it; tests put a counted one in its place.
    "clock": set(),
    # It knows signals and Python, and nothing of ours.
    "ctrl_c": set(),
    # Libraries that only some functions need: each extra is declared once.
    "extras": {"errors"},
    # The wire format of protobuf, for timelines of Perfetto and traces of Chakra alike.
    "wire_format": set(),
    "model": {"errors"},
    # Lists and reads files wherever they lie; every room that names files takes paths apart by it.
    # What it finds damaged it says with the codes of findings.
    "filesystem": {"clock", "errors", "extras", "model"},
    # It looks at Ctrl-C while it waits.
    "child_process": {"clock", "ctrl_c"},
    # Compiles, trusts and loads our C++; what libraries do is said by the rooms that call them.
    "native": {"child_process", "clock", "errors", "files"},
    "recorders": {"child_process", "clock", "model", "native", "errors", "files", "version"},
    "validation": {"filesystem", "model", "errors"},
    "importers": {"child_process", "filesystem", "model", "native", "errors"},
    "linking": {"model", "errors"},
    "analysis": {"model", "errors"},
    # Analysis says what an event is (step, family, module) and when steps start, the graph what waits for what.
    "graph": {"analysis", "model", "native", "errors"},
    "simulation": {"analysis", "graph", "model", "native", "errors"},
    "reports": {"extras", "model", "errors", "version"},
    "exporters": {"model", "errors", "files", "wire_format"},
    # It runs work that it is handed, here or in other processes.
    # Nodes of a cluster and the driver compare their versions.
    "engine": {"child_process", "clock", "errors", "extras", "model", "version"},
    # It is handed files of tables and runs queries over them: how a table is made, or where it lies, is not its matter.
    # A query runs in a process of its own, which Ctrl-C ends.
    "queries": {"child_process", "ctrl_c", "errors", "extras", "model"},
    # Tables and facts of the model to files and back: what they are computed by, it does not know.
    "store": {"filesystem", "model", "errors", "files"},
    # All that belongs to `.et` files and their simulators: dependency graphs and ET+ become nodes, and answers text.
    "chakra": {
        *("_lazy", "analysis", "errors", "exporters", "extras", "files", "filesystem", "graph"),
        *("importers", "model", "native", "reports", "version", "wire_format"),
    },
    # It serves bytes: what a report is, and how a timeline is written, it is handed.
    "viewer": {"errors"},
    "api": {
        *("ctrl_c", "model", "errors", "files", "filesystem"),
        *("recorders", "importers", "linking", "analysis", "validation", "reports", "exporters"),
        # A store says which version wrote it: another may link otherwise.
        *("chakra", "engine", "graph", "queries", "simulation", "store", "version", "viewer"),
    },
    # The peers' calls are the stages' own: it composes api, and hands out nouns of the model.
    "compat": {"api", "errors", "exporters", "extras", "model"},
    # A command calls a public function and hands its result to reports; limits of queries, reports of Nsight, diagnoses
    # and ET+ of one rank it takes from their rooms. The peers' options and what they mean stand in compat.
    "cli": {
        *(
            "analyses",
            "api",
            # Options of generated jobs are nouns of Chakra.
            "chakra",
            "clock",
            "compat",
            "ctrl_c",
            "errors",
            "exporters",
            "extras",
            "files",
            "model",
            "output_streams",
            "queries",
            "recorders",
            "reports",
            "validation",
            "version",
        )
    },
    "__main__": {"cli"},
    # The public analyses: it finds the declared ones, and runs them over the ranks of a job.
    "analyses": {"analysis", "api", "model", "errors"},
    # Public names by topic, each from where it is defined.
    "plugins": {"api", "model"},
    "results": {"api", "model"},
    # Names of a stub, loaded when they are first used.
    "_lazy": set(),
    "__init__": {"_lazy"},
}

INNER_ROOMS: dict[str, set[str]] = {
    "linking.alignment": {"linking.nesting"},
    "recorders.native": {"recorders.needs_torch", "recorders.own_process"},
    "importers.json_stream": set(),
}
"""Rooms within a room, and what of the room around them they may import."""

KNOWS_TORCH = {"recorders/needs_torch.py", "recorders/native/build.py"}
"""The modules that import torch; the others of their room take it from the first."""

OPTIONAL_LIBRARIES = {
    "torch",
    "pandas",
    "jinja2",
    "plotly",
    "ray",
    "duckdb",
    "fsspec",
    "obstore",
    "google",
    "hta",
}


def forbidden(room: str, imports: set[str]) -> set[str]:
    """The rooms among the imports that the table does not allow to a room."""
    rooms = {name.split(".")[1] for name in imports if name.startswith("tracebraid.")}
    return {other for other in rooms if other in MAY_IMPORT} - MAY_IMPORT[room] - {room}


def strangers(inner: str, imports: set[str]) -> list[str]:
    """What an inner room imports of the room around it without being allowed to."""
    around = f"tracebraid.{inner.split('.')[0]}."
    allowed = {f"tracebraid.{name}" for name in (inner, *INNER_ROOMS[inner])}
    taken = sorted(name for name in imports if name.startswith(around))
    return [name for name in taken if not any(name == own or name.startswith(f"{own}.") for own in allowed)]


def test_a_room_imports_only_what_the_table_allows() -> None:
    assert in_modules(lambda module: forbidden(room_of(module), imports_of(module))) == {}


@pytest.mark.parametrize("inner", sorted(INNER_ROOMS))
def test_a_room_within_a_room_imports_only_what_the_table_allows(inner: str) -> None:
    modules = sorted((PACKAGE / inner.replace(".", "/")).glob("*.py"))
    assert len(modules) > 1
    assert strangers(inner, {name for module in modules for name in imports_of(module)}) == []


@pytest.mark.parametrize(
    "text",
    [
        "import tracebraid.importers.trace",
        "from tracebraid.importers import trace",
        "from tracebraid import importers",
        "from ..importers.trace import read_trace",
        "from .. import importers",
        "import importlib; importlib.import_module('tracebraid.importers.trace')",
        "from importlib import import_module; import_module('..importers', 'tracebraid.linking')",
        "__import__('tracebraid.importers')",
        "def late():\n    from tracebraid.importers.trace import read_trace",
    ],
)
def test_the_rule_bites_however_the_import_is_written(text: str) -> None:
    assert forbidden("linking", imports_of_text(text, "tracebraid.linking")) == {"importers"}


def test_the_rule_of_inner_rooms_bites() -> None:
    text = "from ..cut_steps import cut\nfrom tracebraid.linking.nesting import same\nfrom .sequences import pair"
    found = strangers("linking.alignment", imports_of_text(text, "tracebraid.linking.alignment"))
    assert found == ["tracebraid.linking.cut_steps", "tracebraid.linking.cut_steps.cut"]


def test_the_table_names_every_room() -> None:
    assert {room_of(module) for module in MODULES} == set(MAY_IMPORT)


def test_no_module_imports_an_optional_library() -> None:
    def optional(module: Path) -> set[str]:
        return {name.split(".")[0] for name in imports_of(module)} & OPTIONAL_LIBRARIES

    assert in_modules(optional) == {
        **{module: {"torch"} for module in KNOWS_TORCH},
        "chakra/wire/messages.py": {"google"},
        "engine/ray_connection.py": {"ray"},
        "engine/ray_node.py": {"ray"},
        "filesystem/remote/fsspec_files.py": {"fsspec"},
        "filesystem/remote/object_stores.py": {"obstore"},
        "reports/page/page.py": {"jinja2"},
        "queries/engine.py": {"duckdb"},
    }


def test_only_the_recorders_take_torch_from_where_it_is_imported() -> None:
    takers = {
        room_of(module) for module in MODULES if "tracebraid.recorders.needs_torch" in imports_of(module)
    }
    assert takers == {"recorders"}


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("tracebraid.cli.commands, tracebraid.recorders.launcher.launch", "torch"),
        # A worker's start is paid for on every large file.
        ("tracebraid.importers.chunk_decoding", "polars"),
        ("tracebraid", "numpy"),
    ],
)
def test_what_starts_often_loads_nothing_heavy(modules: str, absent: str) -> None:
    code = f"import sys, {modules}; print({absent!r} in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
