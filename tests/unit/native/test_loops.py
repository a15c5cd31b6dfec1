"""Loops of the native library give what their twins in Python give, to the last bit."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.integration.command import run
from tests.planted import write_ranks
from tests.planted.scenes import clean
from tracebraid.errors import CaptureError, OutputError
from tracebraid.native import FLAGS, SOURCES, library, loops

PACKAGE = ROOT / "src" / "tracebraid"
USERS = [path for path in sorted(PACKAGE.rglob("*.py")) if "\n@native_loop\n" in path.read_text()]
"""The modules with loops."""


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """The library of all tests."""
    try:
        library.build()
    except (CaptureError, OutputError) as error:
        pytest.skip(str(error))


def twins() -> dict[str, Callable[..., Any]]:
    """The Python of each loop, by its name in the library."""
    found = {}
    for path in USERS:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts))
        for name in path.read_text().split("\n@native_loop\ndef ")[1:]:
            function = getattr(module, name.partition("(")[0])
            found[f"tracebraid_loop_{parts[-1]}_{function.__name__.lstrip('_')}"] = function.__wrapped__
    return found


def copied(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return argument.copy()
    if isinstance(argument, tuple):
        items = map(copied, argument)
        return type(argument)(*items) if hasattr(argument, "_fields") else tuple(items)
    return argument


def bits(value: Any) -> list[Any]:
    """The items of all arrays in a value, with their types and shapes."""
    return [
        (each.dtype, each.shape, each.tobytes()) if isinstance(each, np.ndarray) else each
        for each in loops._flat((value,))
    ]


class Twice:
    """Runs each loop in both ways, and compares what they return and write; counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.twins, self.calls = twins(), Counter[str]()
        self._native = loops._called
        monkeypatch.setattr(loops, "_called", self.called)

    def called(self, loaded: Any, name: str, arguments: tuple[Any, ...]) -> Any:
        given = copied(arguments)
        found = self._native(loaded, name, arguments)
        with np.errstate(over="ignore"):
            expected = self.twins[name](*given)
        assert bits(found) == bits(expected), name
        assert bits(arguments) == bits(given), name
        self.calls[name] += 1
        return found


ANSWERS = [
    ("critical-path", []),
    ("what-if", ["--sweep"]),
    ("what-if", ["--change", "merge 1MB"]),
    ("advise", []),
]
CHAKRA = [
    ("check", []),
    ("run", ["--network", "ring,50GB/s,500ns"]),
    ("stats", []),
]


CHECKED = """
import ctypes, random, sys
from pathlib import Path
from tests.integration.command import run
from tracebraid.native import FLAGS, SOURCES, library, loops

loaded = ctypes.CDLL(sys.argv[1])
library._declare(loaded)
loops.native_library = lambda _: loaded
job, out = Path(sys.argv[2]), Path(sys.argv[3])
for command, *options in {answers!r}:
    run(command, job, *options, "--json")
assert run("export", job, "--to", "chakra", "-o", out).returncode == 0
path, numbers = next(out.glob("*.0.et")), random.Random(1)
whole = path.read_bytes()
for _ in range({mutants}):
    text = bytearray(whole)
    for _ in range(numbers.randint(1, 8)):
        text[numbers.randrange(len(text))] = numbers.randrange(256)
    path.write_bytes(text[: numbers.randint(1, len(text))])
    run("chakra", "check", out)
print("whole")
"""
MUTANTS = 300


@pytest.mark.full
def test_no_loop_reads_or_writes_outside_of_its_arrays(tmp_path: Path) -> None:
    """With assertions, and of Chakra traces that are damaged."""
    (tmp_path / "job").mkdir()
    job = write_ranks(tmp_path / "job", [clean(2, rank, 2) for rank in (0, 1)])
    flags = [flag for flag in FLAGS if flag != "-DNDEBUG"]
    sources = [str(PACKAGE / "native" / source) for source in SOURCES]
    command = ["c++", *flags, "-O1", "-D_GLIBCXX_ASSERTIONS", "-o", str(tmp_path / "checked.so"), *sources]
    subprocess.run(command, check=True)
    code = CHECKED.format(answers=[(command, *options) for command, options in ANSWERS], mutants=MUTANTS)
    arguments = [str(tmp_path / "checked.so"), str(job), str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr[-4000:]


def test_each_loop_is_in_the_library() -> None:
    loaded = library.native_library(is_worth_building=False)
    assert loaded is not None
    assert len(twins()) > 40
    for name in twins():
        assert loops._function(loaded, name)


def test_both_give_the_same_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job").mkdir()
    job = write_ranks(tmp_path / "job", [clean(2, rank, 2) for rank in (0, 1)])
    twice = Twice(monkeypatch)
    for command, options in ANSWERS:
        run(command, job, *options, "--json")
    for number, options in enumerate(
        (["--detail", "device"], ["--detail", "merged"], ["--steps", "2", "--repeat", "2"])
    ):
        out = tmp_path / str(number)
        assert run("export", job, "--to", "chakra", *options, "-o", out).returncode == 0
        for command, options in CHAKRA:
            assert run("chakra", command, out, *options).returncode == 0
    assert set(twice.twins) - set(twice.calls) == set()


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(("command", "options"), ANSWERS[::-1], ids=lambda value: str(value)[:20])
def test_a_job_is_answered_alike_without_the_library(
    command: str, options: list[str], demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = run(command, demo, *options, "--json").stdout
    monkeypatch.setattr(loops, "native_library", lambda _: None)
    assert run(command, demo, *options, "--json").stdout == native != ""


@loops.native_loop
def dependencies_only() -> None:
    """There is none of this name."""


def test_what_is_no_loop_of_the_library_is_refused() -> None:
    with pytest.raises(AttributeError):
        dependencies_only()


ARRAY = np.array([0, 1], dtype=np.int64)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (ARRAY, ARRAY),
        (ARRAY, ARRAY, ARRAY, ARRAY),
        (ARRAY, ARRAY, ARRAY.astype(np.int32)),
        (ARRAY, ARRAY.astype(np.int8), ARRAY),
        (ARRAY, ARRAY.astype(np.float32), ARRAY),
        (ARRAY, ARRAY.astype(">i8"), ARRAY),
        (ARRAY, 5, ARRAY),
        (ARRAY, ARRAY, 0.5),
    ],
    ids=["none", "too few", "too many", "written", "narrow", "unknown", "other bytes", "a number", "a float"],
)
def test_arguments_of_other_types_are_refused(arguments: tuple[Any, ...]) -> None:
    loaded = library.native_library(is_worth_building=False)
    with pytest.raises(TypeError, match="is not a function of"):
        loops._called(loaded, "tracebraid_loop_dependencies_ordered", arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint32])
def test_whole_numbers_that_are_read_may_be_of_other_types(dtype: type[np.integer[Any]]) -> None:
    from tracebraid.chakra.dependencies import _ordered
    from tracebraid.chakra.exporting.merged import _latest

    child = np.array([1], dtype=dtype)
    assert _ordered(np.array([0, 1, 1], dtype=dtype), child, ARRAY.copy()).tolist() == [0, 1]
    # The library has 32 bits for these.
    deps = (np.array([0, 0, 1], dtype=dtype), np.array([0], dtype=dtype))
    assert _latest(np.array([0, 1], dtype=dtype), deps, np.array([7, 5])).tolist() == [7, 7]


def test_whole_numbers_that_do_not_fit_are_refused() -> None:
    from tracebraid.chakra.exporting.merged import _latest

    with pytest.raises(TypeError, match="is not a function of"):
        _latest(ARRAY << 40, (ARRAY, ARRAY), ARRAY)  # type: ignore[arg-type]


def test_what_is_written_into_may_not_be_read_only() -> None:
    loaded = library.native_library(is_worth_building=False)
    waits = np.zeros(1, dtype=np.int64)
    waits.flags.writeable = False
    with pytest.raises(TypeError, match="is not a function of"):
        loops._called(loaded, "tracebraid_loop_dependencies_ordered", (ARRAY, ARRAY[:0], waits))  # type: ignore[arg-type]


def test_an_array_with_gaps_is_read_and_written() -> None:
    from tracebraid.chakra.dependencies import _ordered

    wide = np.array([[0, 9], [1, 9]], dtype=np.int64)
    order = _ordered(np.array([0, 1, 1], dtype=np.int64), np.array([1], dtype=np.int64), wide[:, 0])
    assert order.tolist() == [0, 1]
    assert wide.tolist() == [[0, 9], [0, 9]]
