"""The fuzzer finds what is planted, and nothing else."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.planted_failures import BYTE, NAME
from tools.fuzz.formats import format_of
from tools.fuzz.found import LIST, write_found
from tools.fuzz.model import FailureKind, Outcome, Seed
from tools.fuzz.mutants import mutant_of, seeds_over
from tools.fuzz.shrinking import smallest
from tools.fuzz.tally import Found
from tools.fuzz.watching import Limits, Watched, write_samples
from tools.fuzz.worker import Task

SEED = Seed(NAME, 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    write_samples(folder, [NAME])
    return folder


@pytest.fixture(scope="module")
def worker(folder: Path) -> Iterator[Watched]:
    with Watched(folder / "worker", Limits(memory_bytes=128 << 20)) as watched:
        yield watched


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ("raises", FailureKind.FOREIGN_EXCEPTION, "KeyError: 'TRACEBRAID_ABSENT'"),
        ("raises in the package", FailureKind.FOREIGN_EXCEPTION, "TypeError: "),
        ("warns", FailureKind.FOREIGN_EXCEPTION, "RuntimeWarning: overflow"),
        ("blames another", FailureKind.UNLOCATED_ERROR, "InputError: "),
        ("eats", FailureKind.MEMORY, ""),
        ("aborts", FailureKind.DIED, "SIGABRT: 'Fatal Python error: Aborted"),
        ("exits", FailureKind.DIED, "exit code 3: ''"),
        ("prints", FailureKind.INVALID_OUTPUT, "printed 'thread panicked at polars'"),
        ("writes no JSON", FailureKind.INVALID_OUTPUT, "no strict JSON: NaN"),
        ("loses", FailureKind.SILENT_LOSS, "50 of 51 events"),
    ],
)
def test_what_is_planted_is_found(worker: Watched, call: str, kind: FailureKind, message: str) -> None:
    (asked,) = worker.ask(Task(SEED, calls=(call,)))
    assert asked.failure is not None
    assert (asked.outcome, asked.failure.kind, asked.failure.call) == (Outcome.FAILED, kind, call)
    assert asked.failure.message.startswith(message)
    assert bool(asked.failure.place) == (call == "raises in the package")


@pytest.mark.parametrize(("call", "place"), [("hangs", r"[a-z/_]+\.py:\d+"), ("computes", "")])
def test_what_hangs_is_ended(folder: Path, call: str, place: str) -> None:
    with Watched(folder / call, Limits(time_s=0.5)) as worker:
        (asked,) = worker.ask(Task(SEED, calls=(call,)))
    assert asked.failure is not None
    assert (asked.failure.kind, asked.failure.message) == (FailureKind.HANG, "no answer after 0.5 s")
    assert re.fullmatch(place, asked.failure.place)


def test_answers_and_errors_of_ours_are_no_failures(worker: Watched) -> None:
    asked = worker.ask(Task(SEED, calls=("answers", "refuses")))
    assert [(one.outcome, one.failure) for one in asked] == [
        (Outcome.ANSWERED, None),
        (Outcome.REFUSED, None),
    ]
    assert asked[1].message


def test_a_seed_gives_the_same_bytes_each_time(tmp_path: Path) -> None:
    samples = {NAME: format_of(NAME).samples(tmp_path)}
    first, second = (mutant_of(SEED, samples) for _ in range(2))
    assert first == second
    assert first.files != mutant_of(Seed(NAME, 8), samples).files
    assert first == mutant_of(SEED, {**samples, "another": samples[NAME]})


def test_the_byte_that_matters_is_found(worker: Watched, folder: Path) -> None:
    (asked,) = worker.ask(Task(SEED, calls=("chokes",)))
    assert asked.failure is not None
    write_found([Found(asked.failure, 1, [SEED])], folder, folder / "found", minimise=True)
    kept = folder / "found" / "foreign-exception-chokes-valueerror"
    files = {
        path.relative_to(kept).as_posix(): path.read_bytes() for path in kept.rglob("*") if path.is_file()
    }
    assert files == {"a.txt": bytes([BYTE])}
    last = (folder / "found" / LIST).read_text().splitlines()[-1]
    assert last == f"| {kept.name} | {SEED} | foreign-exception | chokes |  | ValueError: the byte |"


def test_values_and_what_is_packed_are_made_smaller() -> None:
    trace = {"a": list(range(40)), "events": [{"ts": i, "name": f"event {i}"} for i in range(40)]}
    data = gzip.compress(json.dumps(trace).encode())

    def holds(files: dict[str, bytes]) -> bool:
        try:
            events = json.loads(gzip.decompress(files["t.json.gz"]))["events"]
        except (KeyError, TypeError, ValueError, OSError, EOFError):
            return False
        return isinstance(events, list) and any(
            isinstance(one, dict) and one.get("ts") == 17 for one in events
        )

    found = smallest({"other": b"x" * 100, "t.json.gz": data}, holds)
    assert list(found) == ["t.json.gz"]
    assert gzip.decompress(found["t.json.gz"]) == b'{"events":[{"ts":17}]}'


def test_a_search_that_is_out_of_time_ends() -> None:
    left = iter([True])
    data = bytes(range(256))
    assert smallest({"a": data, "b": data}, lambda _: next(left, False)) == {"b": data}


def test_seeds_are_divided_evenly() -> None:
    assert [str(seed) for seed in seeds_over(["a", "b"], 3, 7)] == ["b:1", "a:2", "b:2", "a:3"]
    assert Seed.of("tests.planted:7") == Seed("tests.planted", 7)
