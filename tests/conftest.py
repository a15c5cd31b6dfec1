"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import re
import signal
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from hypothesis import settings

import tracebraid
from tests.waiting import CountedClock
from tracebraid import clock
from tracebraid.errors import CaptureError, OutputError
from tracebraid.native import library
from tracebraid.native.building import missing_compiler

pytest_plugins = ["tests.gate"]

ROOT = Path(__file__).resolve().parents[1]

# No limit of time for an example: a machine that is busy is no fault of the code. Each run tries the same examples:
# to search for others is the work of `make fuzz`.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("gate", settings.get_profile("steady"), max_examples=30)
settings.load_profile("steady")

# What collection makes stays to the end: to look through it again and again costs time.
gc.disable()

# Threads of PyTorch that wait for work leave the processor to the other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# readline, which pytest imports, puts the size of a terminal into the environment of processes, behind Python's back.
for _size in ("COLUMNS", "LINES"):
    os.unsetenv(_size)

# A shell ignores signals in what it starts in the background, and commands that tests interrupt would inherit that.
for _ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, signal.default_int_handler if _ignored == signal.SIGINT else signal.SIG_DFL)


_STARTS_PROCESSES = re.compile(
    r"^\s*(import|from) (subprocess|torch|multiprocessing|ray|tests\.(integration|engines|servers|callbacks|deno))\b",
    re.MULTILINE,
)


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples of each property in the gate."""
    if config.getoption("gate"):
        settings.load_profile("gate")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of modules that import what starts processes, so that the quick loop omits them."""
    starts: dict[Path, bool] = {}
    for item in items:
        if item.path not in starts:
            starts[item.path] = bool(_STARTS_PROCESSES.search(item.path.read_text(encoding="utf-8")))
        if starts[item.path]:
            item.add_marker(pytest.mark.processes)
        since = item.get_closest_marker("since_torch")
        if since is not None and _torch() < _numbers(since.args[0]):
            item.add_marker(pytest.mark.skip(reason=f"needs torch {since.args[0]}"))
        is_native = "native" in re.split(r"[\[\]-]", item.name)[1:]
        if (is_native or item.get_closest_marker("compiler")) and _is_without_recorder():
            item.add_marker(pytest.mark.skip(reason="needs a C++ compiler"))


@cache
def _torch() -> tuple[int, ...]:
    """The version of torch that is installed; its tests skip without."""
    try:
        return _numbers(version("torch"))
    except PackageNotFoundError:
        return ()


@cache
def _is_without_recorder() -> bool:
    """Whether the native recorder was not built before, and no compiler can build it."""
    if not missing_compiler():
        return False
    try:
        from tracebraid.recorders.native.library import library_path
    except ImportError:
        return False
    return not library_path().exists()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.partition("+")[0].split(".")[:2]))


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that was made until now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    gc.enable()


def find_real_traces() -> Path | None:
    """The folder of real traces of other people's jobs, which is not part of this project; None without it."""
    named = os.environ.get("TRACEBRAID_TRACES")
    folder = Path(named) if named else ROOT.parent / "shared" / "traces"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session", autouse=True)
def native_library() -> None:
    """Read and compute with the native library, which the first run compiles, where there is a compiler."""
    with suppress(CaptureError, OutputError):
        library.build()


@pytest.fixture
def counted_clock(monkeypatch: pytest.MonkeyPatch) -> CountedClock:
    """The clock of the package, which goes on only by what it waits."""
    counted = CountedClock()
    monkeypatch.setattr(clock, "now_s", counted.now_s)
    monkeypatch.setattr(clock, "pause", counted.pause)
    return counted


@pytest.fixture(scope="session")
def demo() -> Path:
    """The bundled two-rank DDP traces."""
    return tracebraid.demo_path()


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """The folder of real traces; the test is skipped where it is absent."""
    folder = find_real_traces()
    if folder is None:
        pytest.skip("needs the real traces: set TRACEBRAID_TRACES to their folder")
    return folder
