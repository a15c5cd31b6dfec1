"""Stores that are damaged, newer, written by two at once, on a full disk: one clear error, and nothing is lost."""

from __future__ import annotations

import io
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import polars as pl
import pytest

import tracebraid
from tests.integration.command import run, write_pair
from tests.stores import content_of, differences
from tests.waiting import HANG_S
from tracebraid.api.packing import stored_questions
from tracebraid.errors import InputError, OutputError
from tracebraid.model.finding_code import FindingCode
from tracebraid.store.answers.joined import INDEX, Index, joined_file
from tracebraid.store.answers.stored_answers import schemas
from tracebraid.store.manifest import (
    ANSWERS,
    FORMAT_VERSION,
    Manifest,
    RankContent,
    locked,
    read_sealed,
    sealed,
    sha256_of,
)
from tracebraid.store.parquet import frame_of

RANKS = 3


def write_traces(folder: Path) -> Path:
    for rank in range(RANKS):
        _, kineto = write_pair(folder, rank)
        kineto.write_text(kineto.read_text().replace("gemm", f"gemm_{rank}"))
    return folder


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces that no test changes."""
    return write_traces(tmp_path_factory.mktemp("hostile") / "traces")


@pytest.fixture(scope="module")
def packed(traces: Path) -> Path:
    """Their store, which no test changes."""
    return Path(tracebraid.pack(traces, traces.parent / "packed.tbstore").path)


@pytest.fixture
def store(packed: Path, tmp_path: Path) -> Path:
    """Their store, which a test may damage."""
    return Path(shutil.copytree(packed, tmp_path / "job.tbstore"))


@pytest.fixture
def own_traces(tmp_path: Path) -> Path:
    """Traces that a test may change."""
    return write_traces(tmp_path / "traces")


@pytest.fixture
def own_store(own_traces: Path, tmp_path: Path) -> Path:
    """The store of these."""
    return Path(tracebraid.pack(own_traces, tmp_path / "own.tbstore").path)


def events(store: Path, rank: int = 1) -> Path:
    return store / "tables/events" / f"rank_{rank:06d}.parquet"


def description(store: Path, rank: int = 1) -> Path:
    return store / "ranks" / f"rank_{rank:06d}.json"


def link_outside(path: Path) -> None:
    outside = path.parents[3] / f"moved_{path.name}"
    shutil.move(path, outside)
    path.symlink_to(outside)


def link_folder(path: Path) -> None:
    link_outside(path.parent)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.full
@pytest.mark.parametrize("harm", [link_outside, link_folder, pipe])
@pytest.mark.parametrize("file", ["tables/events/rank_000001.parquet", "ranks/rank_000001.json"])
def test_what_is_no_file_of_the_store_is_refused(
    store: Path, traces: Path, harm: Callable[[Path], None], file: str
) -> None:
    """Neither a link nor a pipe is read; nothing is written through a link."""
    harm(store / file)
    outside = sorted(store.parent.rglob("moved*"))
    asked = (
        ("check", store),
        ("info", store),
        ("sql", store, "select count(name) from events"),
    )
    for line in asked:
        done = run(*line)
        assert done.returncode == 1, (line, done)
        assert "link" in done.stdout + done.stderr, (line, done)
    if harm is link_folder:
        assert "this folder of the store is a link" in run("pack", traces, "-o", store).stderr
    assert sorted(store.parent.rglob("moved*")) == outside


def flip(path: Path, at: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 0x20
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a table is missing": (lambda store: events(store).unlink(), "is missing"),
    "a table is cut": (lambda store: cut(events(store)), "damaged"),
    "a table is changed": (lambda store: flip(events(store)), "damaged"),
    "a table is another rank's": (lambda store: shutil.copy(events(store, 2), events(store)), "another one"),
    "a table is a folder": (lambda store: make_folder(events(store)), "cannot be read"),
    "a description is missing": (lambda store: description(store).unlink(), "is missing"),
    "a description is cut": (lambda store: cut(description(store)), "damaged"),
    "a description is changed": (lambda store: flip(description(store)), "damaged"),
    "a description is empty": (lambda store: description(store).write_bytes(b""), "damaged"),
    "a description is another rank's": (
        lambda store: shutil.copy(description(store, 2), description(store)),
        "rank 2",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_an_error_of_that_rank_alone(store: Path, traces: Path, case: str) -> None:
    damage, said = DAMAGE[case]
    damage(store)
    job = tracebraid.open(store)
    with pytest.raises(InputError, match=said) as caught:
        _ = job[1].timeline.events
    assert "Pack" in caught.value.advice or "Check" in caught.value.advice
    assert job[0].timeline.events.height == job[2].timeline.events.height == 6
    done = run("analyze", "op_costs", store)
    assert done.returncode == 1
    assert said in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "case", [case for case in DAMAGE if "changed" not in case and "another rank's" not in case]
)
def test_packing_again_mends_what_is_missing_or_cut(store: Path, traces: Path, case: str) -> None:
    whole = content_of(store)
    DAMAGE[case][0](store)
    if events(store).is_dir():
        events(store).rmdir()
    assert tracebraid.pack(traces, store).packed == (1,)
    assert content_of(store) == whole


def test_check_names_each_file_that_is_not_whole(store: Path, traces: Path) -> None:
    assert run("check", store, "--json") == run("check", traces, "--json")
    flip(events(store, 0))
    description(store, 1).unlink()
    (store / "tables/lanes/rank_000002.parquet").unlink()
    checked = tracebraid.check(store)
    assert not checked.links
    damaged = [
        found.finding for found in checked.diagnoses if found.finding.code is FindingCode.STORE_DAMAGED
    ]
    assert [Path(finding.path).relative_to(store).as_posix() for finding in damaged] == [
        "tables/events/rank_000000.parquet",
        "ranks/rank_000001.json",
        "tables/lanes/rank_000002.parquet",
    ]


@pytest.mark.full
def test_a_damaged_manifest_is_an_error_and_nothing_is_lost(store: Path, traces: Path) -> None:
    flip(store / "store.json")
    before = content_of(store)
    with pytest.raises(InputError, match="damaged"):
        tracebraid.open(store)
    with pytest.raises(OutputError, match="from-scratch"):
        tracebraid.pack(traces, store)
    assert content_of(store) == before
    tracebraid.pack(traces, store, from_scratch=True)
    assert len(tracebraid.open(store)) == RANKS


OTHER_FORMATS = [-1, 0, FORMAT_VERSION + 1]


@pytest.mark.parametrize("version", OTHER_FORMATS)
def test_a_store_of_another_format_is_refused_and_left_alone(store: Path, traces: Path, version: int) -> None:
    manifest, _ = read_sealed(store / "store.json", Manifest)
    (store / "store.json").write_bytes(sealed(msgspec.structs.replace(manifest, format=version)))
    before = content_of(store)
    with pytest.raises(InputError, match=f"format {version}") as caught:
        tracebraid.open(store)
    assert ("newer" in caught.value.advice) is (version > FORMAT_VERSION)
    with pytest.raises(OutputError, match=f"format {version}"):
        tracebraid.pack(traces, store)
    assert content_of(store) == before
    assert run("info", store).returncode == 1


@pytest.mark.parametrize("version", OTHER_FORMATS)
def test_a_rank_of_another_format_is_refused(store: Path, version: int) -> None:
    content, _ = read_sealed(description(store), RankContent)
    description(store).write_bytes(sealed(msgspec.structs.replace(content, format=version)))
    with pytest.raises(InputError, match=f"format {version}"):
        _ = tracebraid.open(store)[1].timeline.events


def test_a_folder_without_manifest_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "job.tbstore").mkdir()
    with pytest.raises(InputError, match="no store"):
        tracebraid.open(tmp_path / "job.tbstore")


def test_two_cannot_write_a_store_at_once(store: Path, traces: Path) -> None:
    with locked(store), pytest.raises(OutputError, match=f"process {os.getpid()} on .* is writing"):
        tracebraid.pack(traces, store)
    assert tracebraid.pack(traces, store).kept == tuple(range(RANKS))


@pytest.mark.full
def test_the_lock_of_a_killed_process_is_taken_over(store: Path, traces: Path) -> None:
    code = (
        "import os, pathlib, signal, sys; from tracebraid.store.manifest import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, store], check=False).returncode < 0
    assert (store / ".lock").exists()
    assert tracebraid.pack(traces, store).kept == tuple(range(RANKS))
    assert not (store / ".lock").exists()


@pytest.mark.full
def test_a_full_disk_is_one_error_and_what_is_packed_stays(traces: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for a disk that is full in the middle of a table."""
    code = (
        "import resource, signal, sys, tracebraid\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "tracebraid.pack(sys.argv[1], sys.argv[2])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))\n"
        "try: tracebraid.pack(sys.argv[1], sys.argv[2], from_scratch=True)\n"
        "except tracebraid.errors.OutputError as error: print(error)"
    )
    out = tmp_path / "job.tbstore"
    done = subprocess.run(
        [sys.executable, "-c", code, traces, out], capture_output=True, text=True, check=True
    )
    assert "cannot be written" in done.stdout
    assert not list(out.rglob("*.part"))
    assert tracebraid.pack(traces, out).failed == ()
    assert tracebraid.open(out)[2].timeline.events.height == 6
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_store_that_cannot_be_written_answers(store: Path, demo: Path) -> None:
    before = content_of(store)
    for path in [store, *store.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    assert run("summary", store, "--json").returncode == 0
    assert content_of(store) == before


def test_what_a_killed_pack_was_writing_is_deleted(store: Path, traces: Path) -> None:
    before = content_of(store)
    inside = store / "answers/.tables.1.whole.part"
    inside.mkdir()
    for part in (store / ".store.json.1.whole.part", events(store).with_name(".x.part"), inside / ".y.part"):
        part.write_bytes(b"half")
    tracebraid.pack(traces, store)
    assert content_of(store) == before
    assert not inside.exists()


def test_what_is_no_store_is_not_written_into(traces: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    (tmp_path / "file.tbstore").write_text("mine")
    for target in ("mine", "file.tbstore"):
        with pytest.raises(OutputError, match="is not a store"):
            tracebraid.pack(traces, tmp_path / target)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


@pytest.mark.full
def test_a_store_is_not_put_among_the_traces(traces: Path, packed: Path) -> None:
    with pytest.raises(OutputError, match="folder of the traces"):
        tracebraid.pack(traces, traces / "job.tbstore")
    with pytest.raises(InputError, match="already a store"):
        tracebraid.pack(
            tracebraid.pack(traces, traces.parent / "a.tbstore").path, traces.parent / "b.tbstore"
        )


def test_the_store_of_another_job_or_of_other_options_is_not_written_over(
    store: Path, traces: Path, tmp_path: Path
) -> None:
    write_pair(tmp_path / "others")
    before = content_of(store)
    with pytest.raises(OutputError, match="this is the store of"):
        tracebraid.pack(tmp_path / "others", store)
    with pytest.raises(OutputError, match="other options"):
        tracebraid.pack(traces, store, matching="exact")
    assert content_of(store) == before


@pytest.mark.full
def test_a_rank_that_cannot_be_read_is_left_out_and_tried_again(own_traces: Path, tmp_path: Path) -> None:
    good = (own_traces / "kineto_trace_1.json").read_bytes()
    (own_traces / "kineto_trace_1.json").write_text("[]")
    out = tmp_path / "job.tbstore"
    done = run("pack", own_traces, "-o", out)
    assert done.returncode == 1
    assert "kineto_trace_1.json: rank 1 is skipped" in done.stderr
    assert "2 ranks packed, 1 unreadable" in done.stderr
    assert run("summary", out, "--json") == run("summary", own_traces, "--json")
    with pytest.raises(InputError, match="kineto_trace_1"):
        _ = tracebraid.open(out)[1]
    (own_traces / "kineto_trace_1.json").write_bytes(good)
    assert tracebraid.pack(own_traces, out).packed == (1,)
    assert differences(tracebraid.open(own_traces)[1], tracebraid.open(out)[1]) == []


@pytest.mark.full
def test_a_rank_whose_execution_trace_cannot_be_read_answers_as_its_traces(
    own_traces: Path, tmp_path: Path
) -> None:
    (own_traces / "torch_et_1.json").write_text("{}")
    packed = tracebraid.pack(own_traces, tmp_path / "job.tbstore")
    assert [finding.code for finding in packed.findings] == [FindingCode.STORE_UNLINKED]
    one, other = tracebraid.open(own_traces), tracebraid.open(tmp_path / "job.tbstore")
    assert differences(one[1], other[1]) == []
    with pytest.raises(InputError, match="torch_et_1"):
        _ = other[1].coverage
    assert run("link", tmp_path / "job.tbstore") == run("link", own_traces)


@pytest.mark.full
def test_only_what_is_new_or_changed_is_packed(own_store: Path, own_traces: Path) -> None:
    write_pair(own_traces, RANKS)
    assert tracebraid.pack(own_traces, own_store).packed == (RANKS,)
    kineto = own_traces / "kineto_trace_0.json"
    os.utime(kineto, ns=(1, 1))
    assert tracebraid.pack(own_traces, own_store).packed == ()
    kineto.write_text(kineto.read_text().replace("aten::mm", "aten::MM"))
    assert tracebraid.pack(own_traces, own_store).packed == (0,)
    (own_traces / "torch_et_2.json").unlink()
    assert tracebraid.pack(own_traces, own_store).packed == (2,)
    assert not tracebraid.open(own_store)[2].has_et


@pytest.mark.full
def test_ranks_whose_traces_are_gone_stay_in_the_store(own_store: Path, own_traces: Path) -> None:
    for path in own_traces.glob("*_0.json"):
        path.unlink()
    packed = tracebraid.pack(own_traces, own_store)
    assert (packed.packed, packed.kept) == ((), (0, 1, 2))
    assert tracebraid.open(own_store)[0].timeline.events.height == 6
    tracebraid.pack(own_traces, own_store, from_scratch=True)
    assert tracebraid.open(own_store).ranks == [1, 2]


def test_an_unfinished_store_says_what_is_missing(store: Path) -> None:
    manifest, _ = read_sealed(store / "store.json", Manifest)
    values = {name: getattr(manifest, name) for name in manifest.__struct_fields__}
    (store / "store.json").write_bytes(sealed(Manifest(**{**values, "complete": False})))
    description(store).unlink()
    job = tracebraid.open(store)
    assert job.ranks == [0, 2]
    [finding] = job.findings
    assert (finding.code, finding.count) == (FindingCode.STORE_INCOMPLETE, 1)
    assert finding.details == {"ranks": RANKS, "missing": "1"}


# --- A pack killed at any moment leaves a store that opens, says what is missing, and resumes t ------


KILLS = 6
KILLER = """
import os, signal, sys
from pathlib import Path
from tracebraid.api.packing import pack

def packed_in(out, kill_at=None):
    child = os.fork()
    if child == 0:
        touched = 0
        def count(event, arguments):
            nonlocal touched
            if arguments and str(arguments[0]).startswith(out):
                touched += 1
                if touched == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        pack(sys.argv[1], out)
        Path(sys.argv[2], "touched").write_text(str(touched))
        os._exit(0)
    os.waitpid(child, 0)

packed_in(sys.argv[2] + "/whole.tbstore")
whole = int(Path(sys.argv[2], "touched").read_text())
for number in range(int(sys.argv[3])):
    packed_in(f"{sys.argv[2]}/{number}.tbstore", 1 + number * whole // int(sys.argv[3]))
"""
"""Packs in processes that share what was imported, and kills each as it is about to touch one of the store's files."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    for rank in range(RANKS):
        write_pair(folder / "traces", rank)
    arguments = map(str, (folder / "traces", folder, KILLS))
    subprocess.run([sys.executable, "-c", KILLER, *arguments], check=True, timeout=HANG_S)
    return folder


def missing_of(store: Path) -> Iterator[int]:
    """The ranks that an open of the store says are missing; all where it says that there is no store yet."""
    if not (store / "store.json").exists() or not any(store.glob("ranks/*.json")):
        with pytest.raises(InputError, match=r"no store|no rank of this store"):
            tracebraid.open(store)
        yield from range(RANKS)
        return
    job = tracebraid.open(store)
    missing = set(range(RANKS)) - set(job.ranks)
    said = [finding for finding in job.findings if finding.code is FindingCode.STORE_INCOMPLETE]
    assert [finding.count for finding in said] == ([len(missing)] if missing else [])
    for rank in job.ranks:
        job[rank].compute_all()
    yield from missing


@pytest.mark.full
@pytest.mark.slow
def test_a_pack_that_was_killed_is_resumed_to_the_same_bytes(folder: Path) -> None:
    whole = content_of(folder / "whole.tbstore")
    were_missing = []
    for number in range(KILLS):
        store = folder / f"{number}.tbstore"
        missing = list(missing_of(store)) if store.exists() else list(range(RANKS))
        packed = tracebraid.pack(folder / "traces", store)
        assert list(packed.packed) == missing, number
        assert content_of(store) == whole, number
        were_missing.append(len(missing))
    # The moments were spread over the whole pack.
    assert len({0, *were_missing}) > RANKS // 2


# --- Answers that somebody wrote into a store, with hashes that fit: other columns than the que ------


@pytest.fixture(scope="module")
def forged_packed(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("packed") / "job.tbstore"
    tracebraid.pack(demo, store, engine="in-process")
    return store


@pytest.fixture
def forged_store(forged_packed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(forged_packed, tmp_path / "job.tbstore"))


def with_another_column(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.rename({frame.columns[0]: "forged"})


def forge(
    forged_store: Path,
    key: str,
    change: Callable[[pl.DataFrame], pl.DataFrame] = with_another_column,
    rows: Callable[[tuple[int, ...]], tuple[int, ...]] = lambda rows: rows,
) -> None:
    """Change an answer and how many rows each rank has of it, with hashes that fit."""
    file, index_file = joined_file(forged_store, key), forged_store / ANSWERS / INDEX
    content = io.BytesIO()
    change(frame_of(file.read_bytes())).write_parquet(content)
    file.write_bytes(content.getvalue())
    index, _ = read_sealed(index_file, Index)
    old = index.tables[key]
    size_bytes, sha256 = len(content.getvalue()), sha256_of(content.getvalue())
    table = msgspec.structs.replace(old, size_bytes=size_bytes, sha256=sha256, rows=rows(old.rows))
    index_file.write_bytes(sealed(msgspec.structs.replace(index, tables={**index.tables, key: table})))


@pytest.mark.parametrize("key", sorted(schemas()))
def test_an_answer_with_other_columns_is_refused(key: str, forged_store: Path) -> None:
    forge(forged_store, key)
    question = stored_questions(0)[key]
    with pytest.raises(InputError, match="it has other columns"):
        tracebraid.open(forged_store, engine="in-process")[0].answered(key, question)


def test_advice_of_forged_answers_is_one_error(forged_store: Path) -> None:
    forge(forged_store, "advice.windows")
    with pytest.raises(InputError, match=r"advice\.windows\.parquet: this file of the store is damaged"):
        tracebraid.advise(tracebraid.open(forged_store, engine="in-process"))


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (lambda frame: frame.clear(), lambda rows: (0,) * len(rows)),
        (lambda frame: frame.tail(-1), lambda rows: (0, *rows[1:])),
        (lambda frame: pl.concat([frame, frame]), lambda rows: tuple(2 * count for count in rows)),
        (lambda frame: frame, lambda rows: (2, 0)),
        (lambda frame: frame.reverse(), lambda rows: rows),
    ],
    ids=["none", "not of the first", "twice", "all of the first", "of each other"],
)
def test_a_rank_that_has_not_its_one_row_is_refused(
    forged_store: Path,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    rows: Callable[[tuple[int, ...]], tuple[int, ...]],
) -> None:
    forge(forged_store, "rank_facts", change, rows)
    for ask in (tracebraid.analyses.collectives, tracebraid.metrics, tracebraid.analyses.clocks):
        with pytest.raises(InputError, match="damaged") as caught:
            ask(tracebraid.open(forged_store, engine="in-process"))
        assert caught.value.path == str(joined_file(forged_store, "rank_facts"))


def test_rows_of_another_rank_are_refused(forged_store: Path) -> None:
    forge(forged_store, "gather.members", lambda frame: frame.with_columns(rank=1 - pl.col("rank")))
    with pytest.raises(InputError, match="other ranks"):
        tracebraid.analyses.collectives(tracebraid.open(forged_store, engine="in-process"))
