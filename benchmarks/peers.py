"""Each question about a trace, from its file to the answer: here, and as other tools answer it, in the same rounds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from math import isclose

from benchmarks.inputs import Given
from benchmarks.measure import Measured, Row, Target, row_of, side_by_side, speed_ratio, task, typical

_OURS = "tracebraid"
_QUESTIONS: dict[str, tuple[str, ...]] = {
    "load": ("HTA", "TraceLens", "pandas", "DuckDB"),
    "breakdown": ("HTA", "TraceLens"),
    "kernels": ("HTA", "TraceLens", "pandas", "DuckDB"),
    "overlap": ("HTA", "TraceLens"),
    "queue length": ("HTA",),
    "ops": ("TraceLens",),
    "critical path": ("HTA",),
    "diff": ("HTA", "TraceLens"),
}
"""Who answers what; see `peer_answers`."""
_SAME = 1e-6


def peers(given: Given) -> Iterator[Row]:
    """Ask each question of each tool; a figure that differs from ours is beside ours."""
    for question, tools in _QUESTIONS.items():
        if given.only and question not in given.only:
            continue
        subjects: dict[str, Callable[[], Measured]] = {}
        for tool in (_OURS, *(tools if given.peers_python else ())):
            python = sys.executable if tool == _OURS else given.peers_python
            asked = partial(
                task, "peer_answers:ask", tool, question, given.timeline, python=python or sys.executable
            )
            try:
                asked()
            except RuntimeError as error:
                print(f"  {tool} gives no answer about {question}: {error}", file=sys.stderr)
                continue
            subjects[tool] = asked
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
