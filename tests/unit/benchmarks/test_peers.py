"""Questions that are asked of several tools: ours answers each, and figures of one name are of the same thing."""

from __future__ import annotations

from math import isfinite

import pytest

from benchmarks.peer_answers import TOOLS, ask
from tests.planted import write_ranks
from tests.planted.patterns import PATTERNS


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = write_ranks(tmp_path_factory.mktemp("peers"), PATTERNS["hidable-communication"].scenes[:1])
    (path,) = folder.rglob("*.json*")
    return str(path)


@pytest.mark.parametrize("question", TOOLS["tracebraid"]())
def test_each_question_has_our_answer(trace: str, question: str) -> None:
    figures = ask("tracebraid", question, trace).parts
    assert bool(figures) == (question != "load")
    assert all(map(isfinite, figures.values()))


@pytest.mark.parametrize("tool", ["pandas", "DuckDB"])
def test_what_a_table_of_events_says_is_what_we_say(trace: str, tool: str) -> None:
    pytest.importorskip(tool.lower())
    for question in TOOLS[tool]():
        assert ask(tool, question, trace).parts == pytest.approx(ask("tracebraid", question, trace).parts)
