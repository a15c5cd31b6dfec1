"""What a damaged trace has lost is said by every command that answers from it, whatever the form of its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.every_command import ENDED_BY_OTHERS, forms, named_commands
from tests.hostile.plain_inputs import plain_inputs
from tests.integration.command import run

SAY_LATER = ("pack", "cache", "demo")
"""A store says it with each answer; the others answer nothing from a trace."""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of the timeline of rank 0, of the nodes of a simulator and of ET+, the ends are cut off."""
    found = plain_inputs(tmp_path_factory.mktemp("inputs"))
    for name in ("kineto", "nodes", "plus"):
        content = found[name].read_bytes()
        found[name].write_bytes(content[: len(content) * 7 // 10])
    return found


@pytest.mark.parametrize(
    "command", sorted({*named_commands()} - {*SAY_LATER, *ENDED_BY_OTHERS, "chakra generate"})
)
def test_a_cut_trace_is_said_to_be_cut(command: str, inputs: dict[str, Path], tmp_path: Path) -> None:
    printed = [form for form in forms(command) if form.suffix is None]
    for form in [*printed, *([] if printed else forms(command))]:
        done = run(*form.line(inputs, tmp_path / f"out{form.suffix or ''}"))
        assert "cut off" in done.stderr + done.stdout, form


def test_a_store_of_a_cut_trace_says_it_with_each_answer(inputs: dict[str, Path], tmp_path: Path) -> None:
    store = tmp_path / "job.tbstore"
    run("pack", inputs["job"], "-o", store)
    for question in (["metrics"], ["analyze", "kernels"], ["summary"], ["check"]):
        done = run(*question, store)
        assert "cut off" in done.stderr + done.stdout, question
