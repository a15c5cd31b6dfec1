"""The fuzzer finds what is planted, and nothing else."""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from tests.hostile.planted_failures import BYTE, NAME
from tools.fuzz import mutants
from tools.fuzz.calls.same_answers import QUESTIONS, answers_differ
from tools.fuzz.formats import QUICK, format_of
from tools.fuzz.losses import judge_losses
from tools.fuzz.model import FailureError, FailureKind, Files, Mutant, Mutation, Outcome
from tools.fuzz.mutants import files_of
from tools.fuzz.mutations.raw_bytes import unpacked
from tools.fuzz.mutations.same_meaning import FIRST, SAME, SAME_MEANING, in_pairs, meaning_of
from tools.fuzz.running import Round, Tally, try_round, write_failures
from tools.fuzz.sample_traces import gpu_rank
from tools.fuzz.watching import Limits, Watched, write_samples
from tracebraid.errors import InputError
from tracebraid.model.finding import Finding, Loss
from tracebraid.model.finding_code import FindingCode

ROOT = Path(__file__).parents[2]


def mutant(*calls: str) -> Mutant:
    names = [call.name for call in format_of(NAME).calls]
    return Mutant(NAME, 0, ((0, 7),), tuple(names.index(call) for call in calls))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    write_samples(folder, [NAME])
    return folder


@pytest.fixture(scope="module")
def worker(folder: Path) -> Iterator[Watched]:
    with Watched(folder / "worker", Limits(memory_bytes=128 << 20)) as watched:
        yield watched


@pytest.mark.full
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
    (asked,) = worker.ask(mutant(call))
    assert asked.failure is not None
    assert (asked.outcome, asked.failure.kind, asked.failure.call) == (Outcome.FAILED, kind, call)
    assert asked.failure.message.startswith(message)
    assert bool(asked.failure.place) == (call == "raises in the package")


@pytest.mark.full
@pytest.mark.parametrize(("call", "place"), [("hangs", r"[a-z/_]+\.py:\d+"), ("computes", "")])
def test_what_hangs_is_ended(folder: Path, call: str, place: str) -> None:
    with Watched(folder / call, Limits(time_s=0.5)) as worker:
        (asked,) = worker.ask(mutant(call))
    assert asked.failure is not None
    assert (asked.failure.kind, asked.failure.message) == (FailureKind.HANG, "no answer after 0.5 s")
    assert re.fullmatch(place, asked.failure.place)


def test_answers_and_errors_of_ours_are_no_failures(worker: Watched) -> None:
    asked = worker.ask(mutant("answers", "refuses"))
    assert [(one.outcome, one.failure) for one in asked] == [
        (Outcome.ANSWERED, None),
        (Outcome.REFUSED, None),
    ]
    assert asked[1].message


def test_a_mutant_gives_the_same_bytes_each_time(tmp_path: Path) -> None:
    samples, made = format_of(NAME).samples(tmp_path), mutant("answers")
    assert files_of(made, samples) == files_of(made, samples)
    assert files_of(made, samples) != files_of(replace(made, changes=((0, 8),)), samples)


@pytest.mark.parametrize("made", [Mutant(NAME, 2, ((17, 255), (3, 1)), (0, 4), 9), Mutant(NAME, 0, (), ())])
def test_the_text_of_a_mutant_makes_it_again(made: Mutant) -> None:
    assert Mutant.of(str(made)) == made


@pytest.fixture
def answers_and_chokes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only these two calls are drawn."""
    planted = format_of(NAME)
    monkeypatch.setattr(
        mutants, "format_of", lambda _: replace(planted, calls=planted.calls[:1], chosen=planted.calls[1:2])
    )


@pytest.mark.full
@pytest.mark.usefixtures("answers_and_chokes")
def test_a_failure_is_found_shrunk_and_written(worker: Watched, folder: Path) -> None:
    tally = Tally()
    try_round(Round(NAME, 1, 20), worker, tally)
    identity = FailureKind.FOREIGN_EXCEPTION, "chokes ValueError"
    made, failure = tally.found[identity]
    assert failure.message == "ValueError: the byte"
    assert (len(made.changes), made.calls, made.seed) == (1, mutant("answers", "chokes").calls, 0)
    write_failures(tally, folder, folder / "found")
    kept = folder / "found" / "foreign-exception-chokes-valueerror"
    assert (kept / "a.txt").read_bytes().count(BYTE) == 1
    assert f"--again {made}" in (folder / "found" / "README.md").read_text()
    again = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", "--again", str(made), "--files", str(kept)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert again.returncode == 1
    assert "ValueError: the byte" in again.stdout


@pytest.mark.full
@pytest.mark.usefixtures("answers_and_chokes")
def test_a_known_failure_is_counted_and_not_shrunk(worker: Watched) -> None:
    tally, again = Tally(), Tally()
    try_round(Round(NAME, 3, 20), worker, tally)
    again.found = dict(tally.found)
    try_round(Round(NAME, 3, 20), worker, again)
    assert again.found == tally.found
    assert 0 < again.failures.total() <= again.mutants.total() == 20


# --- 185 mutants of all formats of which one takes some milliseconds: none fails. `make fuzz` --------


SLOW = ("arrow_zip", "capture_folder", "job", "same_meaning", "store")
"""Slow formats are tried less; two whose samples alone take seconds are left to `make fuzz`."""
ROUNDS = [
    *((name, 15, 0, False) for name in QUICK),
    *((name, 10, 1, True) for name in QUICK),
    *((name, 6, 2, False) for name in SLOW),
    *((name, 1, 3, True) for name in SLOW),
]
"""Formats, numbers of mutants, seeds, and whether drawn calls are made beside those made on every mutant."""


@pytest.fixture(scope="session")
def any_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("fuzz")
    write_samples(folder, sorted({*QUICK, *SLOW}))
    with Watched(folder / "worker", Limits()) as watched:
        yield watched


@pytest.mark.parametrize(("name", "examples", "seed", "with_chosen"), ROUNDS)
def test_no_mutant_fails(any_worker: Watched, name: str, examples: int, seed: int, with_chosen: bool) -> None:
    tally = Tally()
    try_round(Round(name, seed, examples, with_chosen), any_worker, tally)
    assert tally.mutants.total() > 0
    assert not tally.found, "\n".join(tally.lines())


# --- The fuzzer's judge of losses refuses too few and too many, and counts what damage repeats  ------


EVENT = '{"ph":"X","name":"a","ts":1}'
WHOLE = f'{{"traceEvents":[{EVENT},{EVENT},{EVENT}]}}'
CUT = WHOLE[:-20]
FRAGMENTS = '{"bp":"e"},' * 9
NODE = '{"id":1,"name":"a"}'

SOUND: dict[str, tuple[str, int, Loss | None]] = {
    "nothing is lost": (WHOLE, 3, None),
    "one is lost, and said": (WHOLE, 2, Loss(1, 1)),
    "one is lost, and nobody knows how many": (WHOLE, 2, Loss()),
    "the end is cut off": (CUT, 2, Loss(0, None)),
    "fragments of an event are said": (
        f'{{"traceEvents":[{EVENT},{EVENT},{FRAGMENTS}{EVENT}',
        3,
        Loss(6, None),
    ),
    "the array stands in itself, too": (f'{{"nodes":[{NODE},{NODE},[{NODE},{NODE}]]}}', 3, Loss(1, 1)),
}
REFUSED: dict[str, tuple[str, int, Loss | None]] = {
    "one is lost, and nothing is said": (WHOLE, 2, None),
    "two are lost, and one is said": (WHOLE, 1, Loss(1, 1)),
    "none is lost, and one is said": (WHOLE, 3, Loss(1, 1)),
    "of a cut file one is lost, and nothing is said": (CUT, 2, None),
    "of a cut file more are said than there are": (CUT, 2, Loss(7, None)),
    "of a nested array more are said than there are": (f'{{"nodes":[{NODE},[{NODE}]]}}', 2, Loss(1, 1)),
}


def judged(case: tuple[str, int, Loss | None]) -> None:
    text, read, loss = case
    judge_losses("t.n3.json", text.encode(), read, [Finding(FindingCode.TEXT_BETWEEN, loss=loss)])


@pytest.mark.parametrize("name", SOUND)
def test_what_is_said_rightly_is_sound(name: str) -> None:
    judged(SOUND[name])


@pytest.mark.parametrize("name", REFUSED)
def test_too_little_and_too_much_are_refused(name: str) -> None:
    with pytest.raises(FailureError) as caught:
        judged(REFUSED[name])
    assert caught.value.kind is FailureKind.SILENT_LOSS


def test_all_frames_of_a_file_count() -> None:
    frame = zstandard.ZstdCompressor().compress
    path, data = "t.n3.json.zst", frame(WHOLE[:40].encode()) + frame(WHOLE[40:].encode())
    judge_losses(path, data, 3, [])
    with pytest.raises(FailureError):
        judge_losses(path, data, 2, [])


# --- The changes of the fuzzer that keep the meaning do so, and a reader that loses something b ------


CHANGES = {getattr(change, "__name__", ""): change for change in SAME_MEANING}
TRIES = 4


def sample() -> Files:
    made = gpu_rank(0, 1)
    return in_pairs({"kineto_trace_0.json": made.kineto, "torch_et_0.json": made.et})


def text_of(path: Path) -> bytes:
    """The text of the Kineto trace of a folder, however it is compressed."""
    (found,) = [file for file in path.iterdir() if "kineto" in file.name]
    text = unpacked(found.read_bytes())
    assert text is not None
    return text


def events_of(path: Path) -> list[dict[str, object]]:
    events: list[dict[str, object]] = json.loads(text_of(path))["traceEvents"]
    return events


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "expects a layout": ("laid_out_anew", lambda path: text_of(path).count(b'"ph": "X"')),
    "expects no escapes": ("texts_escaped", lambda path: text_of(path).count(b"aten::mm")),
    "expects integers": (
        "numbers_rewritten",
        lambda path: [event for event in events_of(path) if isinstance(event.get("tid"), int)].__len__(),
    ),
    "expects an order of members": ("members_reordered", lambda path: text_of(path).index(b'"traceEvents"')),
    "expects a compression": ("repacked", lambda path: sorted(file.suffix for file in path.iterdir())),
    "expects a folder": ("archived", lambda path: path.is_dir()),
}


def laid_out(folder: Path, files: Files) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def differs(folder: Path, change: Mutation, read: Callable[[Path], object], seed: int) -> bool:
    """Whether the judge finds that a reader answers a changed sample otherwise."""
    rng = random.Random(seed)
    laid_out(folder, change(sample(), rng))
    try:
        answers_differ(lambda path, _, __: iter([("answer", read(path))]), folder, rng)
    except FailureError as error:
        return error.kind is FailureKind.OTHER_MEANING
    return False


@pytest.mark.parametrize("name", READERS)
def test_a_reader_that_loses_by_meaning_is_caught(tmp_path: Path, name: str) -> None:
    change, read = READERS[name]
    assert any(differs(tmp_path / str(seed), CHANGES[change], read, seed) for seed in range(TRIES))


@pytest.mark.parametrize("change", sorted(CHANGES.keys() - {"archived"}))
def test_a_reader_by_meaning_is_not_accused(tmp_path: Path, change: str) -> None:
    def read(path: Path) -> object:
        return sorted((str(event["name"]), float(str(event["ts"]))) for event in events_of(path))

    assert not any(differs(tmp_path / str(seed), CHANGES[change], read, seed) for seed in range(TRIES))


def test_an_answer_to_one_form_alone_is_a_failure(tmp_path: Path) -> None:
    def ask(path: Path, _: Path, __: random.Random) -> Iterator[tuple[str, object]]:
        if path.name == SAME:
            raise InputError(str(path), "it is no trace", "Name one")
        yield "answer", 1

    with pytest.raises(FailureError, match="InputError"):
        answers_differ(ask, laid_out(tmp_path, sample()), random.Random(0))


@pytest.mark.parametrize("change", sorted(CHANGES.keys() - {"archived"}))
def test_changes_keep_the_meaning(change: str) -> None:
    for seed in range(TRIES):
        files = CHANGES[change](sample(), random.Random(seed))
        plain = {path.removesuffix(".gz").removesuffix(".zst"): data for path, data in files.items()}
        for name in ("kineto_trace_0.json", "torch_et_0.json"):
            assert plain[f"{FIRST}/{name}"] == sample()[f"{FIRST}/{name}"]
            assert meaning_of(plain[f"{SAME}/{name}"]) == meaning_of(plain[f"{FIRST}/{name}"])


def test_another_meaning_is_another() -> None:
    trace = {"traceEvents": [{"ph": "X", "pid": 1, "tid": 1, "ts": 1, "name": name} for name in "ab"]}
    swapped = {"traceEvents": trace["traceEvents"][::-1]}
    assert meaning_of(json.dumps(trace).encode()) != meaning_of(gzip.compress(json.dumps(swapped).encode()))


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("asked", QUESTIONS)
def test_every_call_answers_traces_as_they_are(tmp_path: Path, asked: str) -> None:
    """A call that is refused compares nothing."""
    made = {sample.name: sample.files for sample in format_of("same_meaning").samples(tmp_path)}["nccl"]
    folder = laid_out(tmp_path / "job", dict(made))
    (tmp_path / "out").mkdir()
    names = [name for name, _ in QUESTIONS[asked](folder / FIRST, tmp_path / "out", random.Random(1))]
    assert names
