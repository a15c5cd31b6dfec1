"""Each question about a trace, from its file to the answer: here, and as other tools answer it, in the same rounds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from math import isclose

from benchmarks.inputs import Given
from benchmarks.measure import Measured, Row, Target, row_of, side_by_side, speed_ratio, task, typical
from benchmarks.peer_answers import TOOLS

_OURS = "tracebraid"
_SAME = 1e-6


def peers(given: Given) -> Iterator[Row]:
    """Ask each question of each tool that answers it, once before the rounds; a figure that differs is not equal."""
    asked_of: dict[str, dict[str, Callable[[], Measured]]] = {}
    for tool in TOOLS if given.peers_python else (_OURS,):
        python = sys.executable if tool == _OURS else given.peers_python or ""
        for question in task("peer_answers:questions", tool, python=python).parts:
            if given.only and question not in given.only:
                continue
            asked = partial(task, "peer_answers:ask", tool, question, given.timeline, python=python)
            try:
                asked()
            except RuntimeError as error:
                print(f"  {tool} gives no answer about {question}: {error}", file=sys.stderr)
            else:
                asked_of.setdefault(question, {})[tool] = asked
    for question, subjects in asked_of.items():
        runs = side_by_side(subjects, given.rounds)
        ours = typical(runs[_OURS])
        for tool, measured in runs.items():
            one = typical(measured)
            figures = dict(one.parts)
            target = None
            if tool == _OURS:
                others = [typical(other).seconds for name, other in runs.items() if name != _OURS]
                target = Target("faster than any", all(one.seconds < other for other in others))
            else:
                figures["times as long"] = 1 / speed_ratio(measured, runs[_OURS])
                same = [isclose(value, ours.parts[name], rel_tol=_SAME) for name, value in one.parts.items()]
                if same:
                    figures["equal"] = float(all(same))
            yield row_of(f"{question} ({given.timeline_name})", tool, one, figures, target)
