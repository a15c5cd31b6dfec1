"""No clock decides whether a test passes: waits end on what happened, and what measures time is a benchmark."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules.imports import PACKAGE, in_modules, parsed

TESTS = Path(__file__).resolve().parents[1]
MAY = {
    TESTS / "waiting.py": "the one place that waits",
    TESTS / "growth.py": "ratios of processor time, for tests of the full suite alone",
    TESTS / "golden" / "outputs" / "__main__.py": "tells who writes golden files how long it took",
}
PROGRAMS = TESTS / "integration" / "scripts"
"""Programs that tests capture: they sleep as users' programs do."""
CLOCKS = {
    *("sleep", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
    *("process_time", "process_time_ns", "thread_time", "thread_time_ns"),
}
SHORTEST_S = 60
"""A limit below this judges how fast the machine is; that of a hang is `HANG_S`."""

WAITS = {
    *("ctrl_c.py", "clock.py"),  # a handler of signals sends one again; the clock itself
    *(
        "recorders/session/calibration.py",
        "recorders/session/process_facts.py",
    ),  # they measure what recording costs
    *("recorders/session/recording.py", "cli/build_recorder.py"),  # they tell how long something took
    "recorders/backends/grace_period.py",  # counts polls, since a program may replace the clock
    *("recorders/launcher/launch.py", "store/cache.py"),  # the age of files
}
"""Modules of the package that take a clock from `time`; all others wait by `tracebraid.clock`."""


def clocks_in(text: str) -> list[int]:
    """The lines that read a clock of `time`, sleep, or set a limit of a few seconds."""
    return sorted({line for item in ast.walk(parsed(text)) for line in _clocks(item)})


def _clocks(item: ast.AST) -> Iterator[int]:
    if isinstance(item, ast.ImportFrom) and item.module == "time":
        yield from (item.lineno for alias in item.names if alias.name in CLOCKS)
    elif isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "time":
        yield from [item.lineno] if item.attr in CLOCKS else []
    elif isinstance(item, ast.keyword) and (item.arg or "").removesuffix("_s") == "timeout":
        yield from [item.value.lineno] if _is_short(item.value) else []
    elif isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute):
        limits = item.args if item.func.attr in ("wait", "join", "settimeout") else []
        yield from (limit.lineno for limit in limits if _is_short(limit))


def _is_short(limit: ast.expr) -> bool:
    value = limit.value if isinstance(limit, ast.Constant) else None
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < SHORTEST_S


@pytest.mark.parametrize(
    "text",
    [
        "time.sleep(1)",
        "from time import perf_counter",
        "assert time.monotonic() - began < 5",
        "subprocess.run(words, timeout=5)",
        "thread.join(2)",
        "event.wait(0.5)",
    ],
)
def test_the_rule_sees_a_clock(text: str) -> None:
    assert clocks_in(text)


@pytest.mark.parametrize(
    "text", ["subprocess.run(words, timeout=HANG_S)", "event.wait()", "', '.join(names)", "frame.time('x')"]
)
def test_the_rule_lets_other_things_be(text: str) -> None:
    assert not clocks_in(text)


@pytest.mark.full
def test_no_test_reads_a_clock() -> None:
    modules = [
        path for path in sorted(TESTS.rglob("*.py")) if path not in MAY and PROGRAMS not in path.parents
    ]
    found = {str(path.relative_to(TESTS)): clocks_in(path.read_text("utf-8")) for path in modules}
    assert {path: lines for path, lines in found.items() if lines} == {}


def takes_a_clock(module: Path) -> list[int]:
    text = module.read_text("utf-8")
    return [
        line
        for item in ast.walk(parsed(text))
        if isinstance(item, ast.ImportFrom | ast.Attribute)
        for line in _clocks(item)
    ]


@pytest.mark.full
def test_the_package_waits_by_one_clock() -> None:
    assert set(in_modules(takes_a_clock)) == WAITS
    assert PACKAGE / "clock.py" in PACKAGE.iterdir()
