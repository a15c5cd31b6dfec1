"""Every command answers from a store as from the traces, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracebraid
from tests.integration.command import run

COMMANDS = [
    ("summary", "--json"),
    ("summary",),
    ("analyze", "ops", "--json"),
    ("analyze", "kernels"),
    ("analyze", "idle_causes", "--per-step"),
    ("analyze", "stragglers", "--csv"),
    ("analyze", "roofline", "--peak-flops", "1e12", "--peak-bandwidth", "1e11", "--json"),
    ("advise", "--json"),
    ("metrics", "--json"),
    ("critical-path", "--json"),
    ("report", "--json"),
    ("link", "--json"),
    ("check", "--json"),
    ("info", "--json"),
    ("info",),
    ("check",),
    ("what-if", "bandwidth 2", "--json"),
    ("analyze", "kernels", "--rank", "7"),
]


@pytest.fixture(scope="module")
def store(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "demo.tbstore"
    tracebraid.pack(demo, path)
    return path


def arguments(command: tuple[str, ...], path: Path) -> list[object]:
    """The command line; the path follows the name of what is asked."""
    at = 2 if command[0] == "analyze" else 1
    return [*command[:at], path, *command[at:]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_prints_of_a_store_what_it_prints_of_the_traces(
    demo: Path, store: Path, command: tuple[str, ...]
) -> None:
    of_traces, of_store = (run(*arguments(command, path)) for path in (demo, store))
    assert of_store == of_traces
    assert of_traces.stdout or of_traces.stderr


def test_a_comparison_with_a_store_is_that_with_the_traces(demo: Path, store: Path) -> None:
    assert run("diff", store, demo, "--json") == run("diff", demo, demo, "--json")


def test_tables_of_a_store_are_exported_as_those_of_the_traces(
    demo: Path, store: Path, tmp_path: Path
) -> None:
    for name, path in (("traces", demo), ("store", store)):
        assert run("export", path, "--to", "csv", "-o", tmp_path / name).returncode == 0
    written = {
        name: {
            file.relative_to(tmp_path / name): file.read_bytes() for file in (tmp_path / name).rglob("*.*")
        }
        for name in ("traces", "store")
    }
    assert len(written["traces"]) > 5
    assert written["store"] == written["traces"]
