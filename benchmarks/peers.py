"""Questions about a trace, from a new process to the answer: here, and as other tools answer them, in turn."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import isclose
from pathlib import Path

from benchmarks.inputs import Given
from benchmarks.measure import Measured, Row, Target, row_of, side_by_side, speed_ratio, task, typical
from benchmarks.peer_answers import DIFFERENCES, LIBRARIES, OURS, TOOLS
from benchmarks.peers_page import Answer, write_page

_SAME = 1e-6
_OF_LARGE = "breakdown"


@dataclass(frozen=True)
class _Asked:
    """A question about a file, and the tools that answer it."""

    question: str
    file: str
    rounds: int
    tools: dict[str, Callable[[], Measured]]


def peers(given: Given) -> Iterator[Row]:
    """Ask each question of each tool that answers it; a figure that differs is not equal."""
    answers: list[Answer] = []
    for asked in _questions(given):
        for answer in _answers(asked):
            answers.append(answer)
            yield _row(answer)
    if given.page:
        pythons = {tool: _python(tool, given) for tool in dict.fromkeys(answer.tool for answer in answers)}
        versions = {tool: _version(tool, python) for tool, python in pythons.items()}
        write_page(given.page, answers, versions, platform.python_version(), given.rounds)


def _questions(given: Given) -> Iterator[_Asked]:
    yield from _of_file(given, given.timeline, given.timeline_name, given.only, given.rounds)
    if given.large:
        yield from _of_file(given, given.inputs.large_timeline(), "1.25 GB", [_OF_LARGE], 1)


def _of_file(given: Given, path: Path, name: str, only: list[str] | None, rounds: int) -> Iterator[_Asked]:
    tools_of: dict[str, dict[str, Callable[[], Measured]]] = {}
    for tool in TOOLS if given.peers_python else (OURS,):
        python = _python(tool, given)
        for question in task("peer_answers:questions", tool, python=python).parts:
            if not only or question in only:
                ask = partial(task, "peer_answers:ask", tool, question, path, python=python)
                tools_of.setdefault(question, {})[tool] = ask
    for question, tools in tools_of.items():
        yield _Asked(question, name, rounds, tools)


def _python(tool: str, given: Given) -> str:
    return sys.executable if tool == OURS else given.peers_python or ""


def _version(tool: str, python: str) -> str:
    (version,) = task("peer_answers:version", tool, python=python).parts
    return version


def _answers(asked: _Asked) -> list[Answer]:
    able: dict[str, Callable[[], Measured]] = {}
    runs: dict[str, list[Measured]] = {}
    # The first call finds the tools that fail; it counts where it is the only one.
    for tool, ask in asked.tools.items():
        try:
            runs[tool] = [ask()]
        except RuntimeError as error:
            print(f"  {tool} gives no answer about {asked.question}: {error}", file=sys.stderr)
        else:
            able[tool] = ask
    if asked.rounds > 1:
        runs = side_by_side(able, asked.rounds)
    ours = typical(runs[OURS])
    answers = []
    for tool, measured in runs.items():
        one = typical(measured)
        common = [name for name in one.parts if name in ours.parts and name != LIBRARIES]
        is_equal = all(isclose(one.parts[name], ours.parts[name], rel_tol=_SAME) for name in common)
        answers.append(
            Answer(
                asked.question,
                asked.file,
                tool,
                one,
                1 / speed_ratio(measured, runs[OURS]),
                is_equal if common and tool != OURS else None,
                DIFFERENCES.get((asked.question, tool)),
            )
        )
    return answers


def _row(answer: Answer) -> Row:
    figures = dict(answer.measured.parts)
    target = None
    if answer.tool != OURS:
        figures["times as long"] = answer.times_as_long
        target = Target("slower", answer.times_as_long > 1)
    if answer.is_equal is not None:
        figures["equal"] = float(answer.is_equal)
    return row_of(f"{answer.question} ({answer.file})", answer.tool, answer.measured, figures, target)
