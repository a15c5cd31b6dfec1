"""The rules of the gate, a plugin of pytest: `make test` runs with `--gate`, and `make test-all` with `--once-more`.

- What fails is run once more, alone and in a fresh process, after the rest. Only what fails twice is red; what passes
  is printed as flaky with its first error, and more than `MOST_FLAKY` flaky tests are red as well.
- The gate starts at most `MOST_STARTS` processes: a command is tested in this process, and what needs one of its own
  in the full suite, but for one run of each thing that users rely on.
- The last lines say how many tests were skipped, and why.
- Beside busy processes, for which `make test` starts more processes of its own, these are scheduled in short slices:
  tests hand thousands of small queries to Polars' thread, and each would wait for a whole slice of the others. On a
  quiet machine short slices cost a tenth of the time.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

MOST_FLAKY = 3
MOST_RUN_AGAIN = 12
"""Above this many failures the code is wrong, and nothing is run again."""
MOST_STARTS = 60
QUICK = {"unit", "rules"}
"""Folders of tests whose failure is seen first."""
_KEY = "processes_started"
QUIET_WORKERS = 2
"""Processes of a run for each processor, where nothing else is busy."""
_SLICE_NS = 100_000
"""The shortest slice that Linux has."""
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
"""Numbers of the system call, which the C library has no function for, by machine."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gate")
    group.addoption("--once-more", action="store_true", help="run what fails once more, alone")
    group.addoption(
        "--gate",
        action="store_true",
        help=f"the same, without what is marked `full`; fail above {MOST_STARTS} starts of processes",
    )


def pytest_configure(config: pytest.Config) -> None:
    starts = Starts()
    starts.watch(subprocess.Popen, "__init__")
    starts.watch(os, "fork")
    config.pluginmanager.register(starts, "process-starts")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Gate(config, starts), "gate")
        if config.getoption("gate"):
            _take_short_slices(config.getoption("numprocesses", None) or 0)


def _take_short_slices(workers: int) -> None:
    """On a busy machine, schedule this process and all that it starts in short slices, which Linux has since 6.12.

    Args:
        workers: processes of this run; more than on a quiet machine tell a busy one.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return
    if workers > QUIET_WORKERS * len(os.sched_getaffinity(0)):
        # struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, os.nice(0), 0, _SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, attributes, 0)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to the full suite what is marked `full`, but for the cases that the mark keeps; quick ones first."""
    if not config.getoption("gate"):
        return
    left: set[pytest.Item] = set()
    cases: dict[tuple[object, str], list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker("full")
        if mark is not None:
            cases.setdefault((item.parent, getattr(item, "originalname", item.name)), []).append(item)
    for of_function in cases.values():
        mark = of_function[0].get_closest_marker("full")
        keep = mark.kwargs.get("keep", 0) if mark else 0
        chosen = {index * len(of_function) // keep for index in range(keep)}
        left.update(item for index, item in enumerate(of_function) if index not in chosen)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    kept = [item for item in items if item not in left]
    quick = [item for item in kept if QUICK & set(item.path.relative_to(config.rootpath).parts)]
    others = [item for item in kept if not QUICK & set(item.path.relative_to(config.rootpath).parts)]
    # Each process of xdist begins with an equal part of the list.
    count = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = [item for nth in range(count) for part in (quick, others) for item in _part(part, nth, count)]


def _part(items: list[pytest.Item], nth: int, count: int) -> list[pytest.Item]:
    return items[len(items) * nth // count : len(items) * (nth + 1) // count]


class Starts:
    """Counts the processes that the tests of this process start; what they start in turn is not seen."""

    def __init__(self) -> None:
        self.by_test: Counter[str] = Counter()
        self._test = ""

    def watch(self, owner: Any, name: str) -> None:
        """Count the calls of a function that starts a process; an audit hook would be called for each file, too."""
        plain = getattr(owner, name)

        @functools.wraps(plain)
        def counted(*arguments: Any, **options: Any) -> Any:
            self.by_test[self._test] += bool(self._test)
            return plain(*arguments, **options)

        setattr(owner, name, counted)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._test = item.nodeid
        try:
            return (yield)
        finally:
            self._test = ""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = dict(self.by_test)


class Gate:
    """Judges a run where the results of all its processes meet."""

    def __init__(self, config: pytest.Config, here: Starts) -> None:
        self.config = config
        self.starts = here.by_test
        self.flaky: list[tuple[str, str]] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.starts.update(getattr(node, "workeroutput", {}).get(_KEY, {}))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        gate = self.config.getoption("gate")
        again = gate or self.config.getoption("once_more")
        if exitstatus == pytest.ExitCode.TESTS_FAILED and again and self._run_again(self._stats()):
            session.exitstatus = pytest.ExitCode.OK
        if gate and self.starts.total() > MOST_STARTS and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _run_again(self, stats: dict[str, list[Any]]) -> bool:
        """Run each failed test in a process of its own; take those that pass from the failures, and say if all did."""
        reports = [*stats.get("failed", []), *stats.get("error", [])]
        names = list(dict.fromkeys(report.nodeid for report in reports))
        if len(names) > MOST_RUN_AGAIN or any(isinstance(one, pytest.CollectReport) for one in reports):
            return False
        for name in names:
            print(f"\nonce more, alone: {name}", flush=True)
            settings = [part for each in self.config.getoption("override_ini") or [] for part in ("-o", each)]
            again = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", *settings, name]
            if subprocess.run(again, cwd=self.config.rootpath, check=False).returncode == 0:
                of_name = [report for report in reports if report.nodeid == name]
                self.flaky.append((name, of_name[0].longreprtext))
                for kind in ("failed", "error"):
                    stats[kind] = [report for report in stats.get(kind, []) if report.nodeid != name]
                stats.setdefault("flaky", []).append(of_name[0])
        return len(self.flaky) == len(names) <= MOST_FLAKY

    def _stats(self) -> dict[str, list[Any]]:
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        return terminal.stats if isinstance(terminal, TerminalReporter) else {}

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print what is flaky, what is skipped and why, and how many processes were started."""
        write = terminalreporter.write_line
        for name, error in self.flaky:
            terminalreporter.section(f"flaky: {name}", sep="_")
            write(error)
        skipped = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
        terminalreporter.section("what the run says of itself", sep="-")
        for reason, count in skipped.most_common():
            write(f"skipped {count}: {reason}")
        for name, _ in self.flaky:
            write(f"flaky: {name}")
        if len(self.flaky) > MOST_FLAKY:
            write(f"red: {len(self.flaky)} tests are flaky, at most {MOST_FLAKY} may be")
        limit = f", at most {MOST_STARTS}" if self.config.getoption("gate") else ""
        write(f"processes started by tests: {self.starts.total()}{limit}")
        if limit and self.starts.total() > MOST_STARTS:
            write("red: run the command in the process of the test, or mark the test `full`")
            for name, count in self.starts.most_common():
                write(f"  {count} {name}")


def _reason(report: Any) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ").splitlines()[0]
