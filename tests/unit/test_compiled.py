"""Loops that run as Python on small arrays, and as machine code on large ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

ADD_UP = """
import sys
import numpy as np
from tracebraid.compiled import compiled_when_large

@compiled_when_large
def add_up(steps, given):
    sums, first = given
    total = 0
    for index in range(len(steps)):
        total += steps[index]
        sums[index] = total
    return total

def check(step, count):
    steps, sums = np.full(count, step), np.zeros(count, dtype=np.int64)
    found = add_up(steps, (sums, 1))
    assert type(found) is int and found == sums[-1], (found, sums[-1])
    assert (sums == np.cumsum(steps)).all()
    return "numba" in sys.modules

print([check(7, 100), check(-7, 1 << 15), *(check(step, count) for step, count in LAST)])
"""


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("last", "loads"),
    [
        ("[(7, 100)]", False),
        ("[(7, (1 << 15) + 1)]", True),
        ("[(2**62, 100)]", True),
        ("[(7, 100)] * 40", True),
    ],
    ids=["small", "large", "beyond 64 bits", "many calls"],
)
def test_a_loop_gives_the_same_as_python_and_as_machine_code(last: str, loads: bool) -> None:
    code = ADD_UP.replace("LAST", last)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, *_, after = done.stdout.strip("[]\n").split(", ")
    assert (before, after) == ("False", str(loads))


@pytest.mark.full
def test_a_job_is_answered_alike_as_python_and_as_machine_code(demo: Path) -> None:
    code = "import sys, {}; sys.argv = ['', 'advise', '--json', {!r}]; from tracebraid.cli.main import run; run()"
    answers = [
        subprocess.run(
            [sys.executable, "-c", code.format(first, str(demo))], capture_output=True, check=True
        ).stdout
        for first in ("json", "numba")
    ]
    assert answers[0]
    assert answers[0] == answers[1]
