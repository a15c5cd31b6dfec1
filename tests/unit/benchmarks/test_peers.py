"""Questions that are asked of several tools: ours answers each, and figures of one name are of the same thing."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import pytest

from benchmarks.measure import Measured
from benchmarks.peer_answers import DIFFERENCES, LIBRARIES, TOOLS, ask
from benchmarks.peers_page import Answer, write_page
from tests.planted import write_ranks
from tests.planted.patterns import PATTERNS


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = write_ranks(tmp_path_factory.mktemp("peers"), PATTERNS["hidable-communication"].scenes[:1])
    (path,) = folder.rglob("*.json*")
    return str(path)


def figures_of(tool: str, question: str, trace: str) -> dict[str, float]:
    parts = ask(tool, question, trace).parts
    assert parts.pop(LIBRARIES) >= 0
    return parts


@pytest.mark.parametrize("question", TOOLS["tracebraid"]())
def test_each_question_has_our_answer(trace: str, question: str) -> None:
    figures = figures_of("tracebraid", question, trace)
    assert bool(figures) == (question not in {"load", "critical path"})
    assert all(map(isfinite, figures.values()))


@pytest.mark.parametrize("tool", ["pandas", "DuckDB"])
def test_what_a_table_of_events_says_is_what_we_say(trace: str, tool: str) -> None:
    pytest.importorskip(tool.lower())
    for question in TOOLS[tool]():
        assert figures_of(tool, question, trace) == pytest.approx(figures_of("tracebraid", question, trace))


def test_the_page_has_all_answers_and_why_some_differ(tmp_path: Path) -> None:
    def answer(question: str, tool: str, seconds: float, is_equal: bool | None) -> Answer:
        measured = Measured(seconds, seconds, 100_000_000, {LIBRARIES: 0.25})
        return Answer(
            question, "54 MB", tool, measured, seconds / 0.5, is_equal, DIFFERENCES.get((question, tool))
        )

    answers = [
        answer("breakdown", "tracebraid", 0.5, None),
        answer("breakdown", "HTA", 4.0, False),
        answer("breakdown", "TraceLens", 12.0, True),
        answer("ops", "tracebraid", 0.5, None),
        answer("ops", "TraceLens", 5.0, True),
    ]
    page = tmp_path / "speed.md"
    write_page(page, answers, dict.fromkeys(("tracebraid", "HTA", "TraceLens"), "1.0"), "3.11.7", 3)
    text = page.read_text()
    assert (
        "| breakdown, 54 MB | **0.50 s, 100 MB** | 4.00 s, 100 MB, 8.0 x (1) | 12 s, 100 MB, 24.0 x |" in text
    )
    assert "| ops, 54 MB | **0.50 s, 100 MB** |  | 5.00 s, 100 MB, 10.0 x |" in text
    assert f"1. {DIFFERENCES['breakdown', 'HTA']}.\n" in text
    assert "\n2. " not in text
    chart = (tmp_path / "images" / "speed.svg").read_text()
    assert chart.count("<rect") == 3 + len(answers)
    assert "12 s, 24.0 x" in chart
