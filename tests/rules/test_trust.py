"""What a file's content may reach: nothing that runs it, and nothing that sends it anywhere.

Each module that imports something by which it could is in the table, with what it does with it. SECURITY.md says the
same to users.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.rules.imports import PACKAGE, imports_of, in_modules, parsed

RISKY = {
    *("pickle", "marshal", "shelve", "dill", "cloudpickle", "runpy", "code", "codeop", "ctypes"),
    *("subprocess", "multiprocessing", "pty", "webbrowser", "importlib", "sqlite3", "xml", "yaml"),
    *(
        "socket",
        "socketserver",
        "http",
        "urllib",
        "ssl",
        "ftplib",
        "smtplib",
        "asyncio",
        "tarfile",
        "zipfile",
    ),
}
"""Libraries that run, start, load, fetch or send something, or that unpack it."""

NAMED_BY_US = "imports modules of this package by names that stand in it"
OWN_PIPE = "messages between a process and its own child, over a pipe that nobody else has"
IMPORTERS: dict[str, tuple[set[str], str]] = {
    "analysis/catalog.py": ({"importlib"}, NAMED_BY_US),
    "api/exports/export.py": ({"importlib"}, NAMED_BY_US),
    "cli/commands.py": ({"importlib"}, NAMED_BY_US),
    "child_process/entry/main.py": ({"importlib"}, NAMED_BY_US),
    "model/declared.py": ({"importlib"}, NAMED_BY_US),
    "analysis/entry_points.py": ({"importlib"}, "metrics of packages that the user installed"),
    "child_process/start.py": ({"subprocess"}, "starts Python with our own modules alone"),
    "child_process/worker.py": ({"subprocess"}, "talks with its own child"),
    "importers/chunk_decoding.py": ({"ctypes"}, "names the library of the scanners"),
    "engine/pool.py": ({"pickle"}, OWN_PIPE),
    "extras.py": ({"importlib"}, "asks whether libraries are installed"),
    "reports/page/modules.py": ({"urllib"}, "writes modules as data URLs"),
    "engine/pickling.py": (
        {"pickle", "cloudpickle"},
        "questions of the caller's own program, to its workers",
    ),
    "engine/ray_node.py": ({"pickle", "socket"}, "the same, on nodes of the user's Ray cluster"),
    "engine/ray_connection.py": ({"socket"}, "asks whether the cluster that the user names answers"),
    "store/manifest.py": ({"socket"}, "the name of this host"),
    "recorders/session/manifest.py": ({"socket"}, "the name of this host"),
    "importers/execution_trace/arrow.py": (
        {"zipfile"},
        "decodes what may end a process in one of its own; members are read, never unpacked to names of theirs",
    ),
    "filesystem/archives/zip_file.py": ({"zipfile"}, "the same"),
    "recorders/native/columns.py": ({"zipfile"}, "writes"),
    "importers/nsys/tables.py": ({"sqlite3"}, "reads known tables of a database that is opened read-only"),
    "exporters/tables.py": ({"sqlite3"}, "writes"),
    "exporters/op_graphs.py": ({"xml"}, "escapes text"),
    "chakra/graphs.py": ({"xml"}, "escapes text"),
    "filesystem/paths.py": ({"urllib"}, "takes URLs apart"),
    "filesystem/remote/object_stores.py": ({"urllib"}, "takes URLs apart"),
    "filesystem/remote/web.py": ({"http", "socket", "ssl", "urllib"}, "reads the URL that the user names"),
    "viewer.py": ({"http", "socketserver"}, "serves one reader on this machine"),
    "cli/view.py": ({"webbrowser"}, "opens the viewer's own address"),
    "recorders/launcher/first_use.py": ({"multiprocessing"}, "hooks of the program that is captured"),
    "recorders/observer.py": ({"multiprocessing"}, "hooks of the program that is captured"),
    "recorders/launcher/launch.py": ({"subprocess"}, "runs the command that the user names"),
    "recorders/launcher/nsys_command.py": ({"subprocess"}, "runs nsys around it"),
    "recorders/backends/grace_period.py": (
        {"ctypes"},
        "removes the callbacks of PyTorch's session before it ends",
    ),
    "recorders/session/calibration.py": ({"ctypes"}, "asks torch's own library who sees the operators"),
    "recorders/launcher/torch_import.py": ({"importlib"}, "waits until the program imports torch"),
    "recorders/native/build.py": (
        {"ctypes", "importlib"},
        "imports torch's builder, and tries what it built",
    ),
    "recorders/native/library.py": (
        {"ctypes", "importlib"},
        "declares the recorder's functions, and looks for the package that has it ready",
    ),
    "native/building.py": ({"ctypes"}, "loads libraries that it built, see trust.py"),
    "native/library.py": ({"ctypes", "subprocess"}, "runs the compiler of C++, which CXX names"),
    "native/loops.py": ({"ctypes"}, "calls its functions"),
    "importers/execution_trace/scan.py": ({"ctypes"}, "calls the scanner of nodes"),
    "importers/kineto/scan.py": ({"ctypes"}, "calls the scanner of events"),
    "importers/native_scan.py": ({"ctypes"}, "takes what a scanner found"),
    "recorders/native/recorder.py": ({"ctypes"}, "calls it"),
}

RUNS_TEXT = {"eval", "exec", "compile", "__import__", "input"}
"""Functions that run text, or take it from a terminal."""


def risky_imports(module: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(module)} & RISKY


def text_runners(module: Path) -> set[str]:
    return text_runners_of(module.read_text())


def text_runners_of(text: str) -> set[str]:
    """Calls that run text: a builtin, a shell, or the system's own."""
    found: set[str] = set()
    for item in ast.walk(parsed(text)):
        if not isinstance(item, ast.Call):
            continue
        if isinstance(item.func, ast.Name) and item.func.id in RUNS_TEXT:
            found.add(item.func.id)
        if isinstance(item.func, ast.Attribute) and item.func.attr in ("system", "popen", "extractall"):
            found.add(item.func.attr)
        found |= {"shell" for keyword in item.keywords if keyword.arg == "shell"}
    return found


@pytest.mark.full
@pytest.mark.slow
def test_only_these_modules_could_run_or_send_anything() -> None:
    assert in_modules(risky_imports) == {module: libraries for module, (libraries, _) in IMPORTERS.items()}


@pytest.mark.full
@pytest.mark.slow
def test_nothing_runs_text() -> None:
    """The set-up of a captured program runs the `sitecustomize` that it hides, as Python would have."""
    runs = {"recorders/launcher/inject/sitecustomize.py": {"__import__", "compile", "exec"}}
    assert in_modules(text_runners) == runs


@pytest.mark.parametrize(
    "text",
    ["eval(x)", "exec(x)", "import os; os.system(x)", "run(x, shell=True)", "archive.extractall(x)"],
)
def test_the_rule_bites(text: str) -> None:
    assert text_runners_of(text)


def test_no_reader_of_files_loads_pickles() -> None:
    """Rooms into which a file's content comes, but for their pipes to processes of their own."""
    readers = ("importers", "filesystem", "store", "queries", "chakra", "linking", "validation")
    pickling = {
        module
        for module, (libraries, why) in IMPORTERS.items()
        if "pickle" in libraries and why is not OWN_PIPE
    }
    assert {module for module in pickling if module.split("/")[0] in readers} == set()


def test_the_policy_is_told_to_users() -> None:
    text = (PACKAGE.parents[1] / "SECURITY.md").read_text()
    for word in ("trusted", "pickle", "TRACEBRAID_CACHE", "sitecustomize", "https", "SELECT"):
        assert word in text
