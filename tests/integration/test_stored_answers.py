"""What was answered while a store was packed is what its tables and the traces answer, to the byte."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from unittest import mock

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tracebraid
from tests.engines import PickledFromTheLast
from tests.integration.command import run
from tests.planted import write_ranks
from tests.unit.reports.runs import planted_scene
from tracebraid.analysis.catalog import rank_analyses
from tracebraid.api.packing import stored_questions
from tracebraid.errors import InputError
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.store.answers.answered_trace import AnsweredTrace
from tracebraid.store.answers.joined import joined_file
from tracebraid.store.answers.stored_answers import schemas
from tracebraid.store.manifest import table_file
from tracebraid.store.opening import STORED_TABLES

PAIRS = Path(os.environ.get("TRACEBRAID_TRACES", "")) / "pairs"


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks with device work and collectives."""
    return write_ranks(tmp_path_factory.mktemp("devices"), [planted_scene(rank, 3) for rank in range(2)])


@pytest.fixture(scope="module")
def stores(devices: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Folders of traces and their stores."""
    folder = tmp_path_factory.mktemp("stores")
    found = {}
    for name, traces in (("devices", devices), ("demo", tracebraid.demo_path())):
        tracebraid.pack(traces, folder / f"{name}.tbstore", engine="in-process")
        found[name] = traces, folder / f"{name}.tbstore"
    return found


def compare_all(traces: Path, store: Path) -> int:
    """Compare every stored answer of every rank with what is computed; returns how many there were."""
    count = 0
    computed, stored = (tracebraid.open(path, engine="in-process") for path in (traces, store))
    for rank in computed.ranks:
        linked = computed[rank]
        linked.compute_all()
        for key, question in stored_questions(linked.timeline.events.height).items():
            fresh = tracebraid.open(store, engine="in-process")[rank]
            assert isinstance(fresh, AnsweredTrace)
            count += _is_stored(fresh, key)
            expected, found = linked.answered(key, question), fresh.answered(key, question)
            if isinstance(expected, bool):
                assert found == expected, key
            else:
                assert_frame_equal(found, expected), key
    assert stored.ranks == computed.ranks
    return count


def test_every_stored_table_has_a_schema_that_is_known(demo: Path) -> None:
    """Otherwise what another wrote into a store is taken for an answer, whatever its columns."""
    linked = tracebraid.open(demo)[0]
    analyses = {analysis.key: analysis.table.polars_schema() for analysis in rank_analyses()}
    for key, question in stored_questions(0).items():
        answer = question(linked)
        if isinstance(answer, pl.DataFrame):
            assert list(answer.schema.items()) == list({**schemas(), **analyses}[key].items()), key


def _is_stored(linked: AnsweredTrace, key: str) -> bool:
    asked: list[LinkedTrace] = []
    linked.answered(key, asked.append)
    return not asked


@pytest.mark.full
@pytest.mark.parametrize("name", ["devices", "demo"])
def test_every_stored_answer_is_the_computed_one(stores: dict[str, tuple[Path, Path]], name: str) -> None:
    assert compare_all(*stores[name]) == 2 * len(stored_questions(0))


@pytest.mark.slow
@pytest.mark.skipif(not PAIRS.is_dir(), reason="needs TRACEBRAID_TRACES")
def test_of_a_real_job_every_stored_answer_is_the_computed_one(tmp_path: Path) -> None:
    traces = PAIRS / "dlrm_v100_8rank"
    tracebraid.pack(traces, tmp_path / "job.tbstore", engine="in-process")
    assert compare_all(traces, tmp_path / "job.tbstore") > 0


@pytest.fixture
def without_tables(stores: dict[str, tuple[Path, Path]], tmp_path: Path) -> Path:
    """A store of which only the answers are left, so that nothing can be computed."""
    store = tmp_path / "answers.tbstore"
    shutil.copytree(stores["devices"][1], store)
    for rank in (0, 1):
        for table in STORED_TABLES:
            table_file(store, table, rank).unlink(missing_ok=True)
        (store / "ranks" / f"rank_{rank:06d}.json").unlink()
    return store


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    "command",
    [
        *(("analyze", name, "PATH", "--json") for name in ("breakdown", "stragglers", "collectives", "ops")),
        *(("summary", "PATH", "--json"), ("metrics", "PATH", "--json")),
        ("analyze", "step_times", "PATH", "--step", "1"),
    ],
    ids=" ".join,
)
def test_usual_questions_read_no_table(devices: Path, without_tables: Path, command: tuple[str, ...]) -> None:
    of_traces, of_answers = (
        run(*(path if word == "PATH" else word for word in command)) for path in (devices, without_tables)
    )
    if command[0] == "summary":
        # The ledger of what was linked is no answer.
        assert "is missing" in of_answers.stderr
        return
    assert of_answers == of_traces


def test_what_was_not_answered_is_computed(stores: dict[str, tuple[Path, Path]]) -> None:
    traces, store = stores["demo"]
    for command in (
        ("analyze", "breakdown", "--annotation", "Optimizer.step#SGD.step"),
        ("analyze", "modules"),
    ):
        assert run(*command, store, "--json") == run(*command, traces, "--json")


def test_another_process_asks_the_same_answers(stores: dict[str, tuple[Path, Path]]) -> None:
    traces, store = stores["devices"]
    elsewhere = tracebraid.open(store, engine=PickledFromTheLast())
    assert_frame_equal(tracebraid.analyses.ops(elsewhere), tracebraid.analyses.ops(tracebraid.open(traces)))


def test_answers_of_another_version_are_not_used(without_tables: Path) -> None:
    with mock.patch("tracebraid.api.stored_jobs.__version__", "99"):
        job = tracebraid.open(without_tables)
    with pytest.raises(InputError, match="is missing"):
        tracebraid.analyses.breakdown(job)


@pytest.mark.full
def test_a_rank_that_was_packed_again_is_not_answered_for_what_it_was(
    stores: dict[str, tuple[Path, Path]], devices: Path, tmp_path: Path
) -> None:
    traces, store = tmp_path / "traces", tmp_path / "job.tbstore"
    shutil.copytree(devices, traces)
    tracebraid.pack(traces, store, engine="in-process")
    shutil.copytree(store / "answers", tmp_path / "old")
    write_ranks(traces, [planted_scene(0, 4)])
    tracebraid.pack(traces, store, engine="in-process")
    shutil.rmtree(store / "answers")
    shutil.copytree(tmp_path / "old", store / "answers")
    found, expected = (tracebraid.analyses.breakdown(tracebraid.open(path)) for path in (store, traces))
    assert_frame_equal(found, expected)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", ["index", "table"])
def test_damaged_answers_are_one_clear_error_and_packing_mends_them(
    devices: Path, tmp_path: Path, name: str
) -> None:
    store = tmp_path / "job.tbstore"
    tracebraid.pack(devices, store, engine="in-process")
    path = store / "answers/index.json" if name == "index" else joined_file(store, "analysis.breakdown")
    path.write_bytes(path.read_bytes()[:-9])
    done = run("analyze", "breakdown", store, "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert "damaged" in done.stderr
    assert "tracebraid pack" in done.stderr
    checked = run("check", store)
    assert checked.returncode == 1
    assert path.name in checked.stdout + checked.stderr
    packed = tracebraid.pack(devices, store, engine="in-process")
    assert packed.packed == ()
    assert run("analyze", "breakdown", store, "--json") == run("analyze", "breakdown", devices, "--json")


@pytest.mark.full
def test_answers_are_the_same_bytes_with_every_engine(devices: Path, tmp_path: Path) -> None:
    files = []
    for name, engine in (("here", "in-process"), ("elsewhere", PickledFromTheLast())):
        tracebraid.pack(devices, tmp_path / name, engine=engine)
        folder = tmp_path / name / "answers"
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "index.json"]
        files.append({path.relative_to(folder): path.read_bytes() for path in paths})
    assert files[0] == files[1]


def test_what_was_not_joined_to_the_end_leaves_nothing(devices: Path, tmp_path: Path) -> None:
    where = "tracebraid.store.answers.joined._joined_table"
    with mock.patch(where, side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        tracebraid.pack(devices, tmp_path / "job.tbstore", engine="in-process")
    assert not list(tmp_path.rglob(".*.part"))


# --- Every command answers from a store as from the traces, to the byte ------------------------------


COMMANDS = [
    ("summary", "--json"),
    ("summary",),
    ("analyze", "ops", "--json"),
    ("analyze", "kernels"),
    ("analyze", "idle_causes", "--per-step"),
    ("analyze", "stragglers", "--csv"),
    ("analyze", "roofline", "--peak-flops", "1e12", "--peak-bandwidth", "1e11", "--json"),
    ("advise", "--json"),
    ("metrics", "--json"),
    ("critical-path", "--json"),
    ("report", "--json"),
    ("link", "--json"),
    ("check", "--json"),
    ("info", "--json"),
    ("info",),
    ("check",),
    ("what-if", "bandwidth 2", "--json"),
    ("analyze", "kernels", "--rank", "7"),
]


@pytest.fixture(scope="module")
def store(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "demo.tbstore"
    tracebraid.pack(demo, path)
    return path


def arguments(command: tuple[str, ...], path: Path) -> list[object]:
    """The command line; the path follows the name of what is asked."""
    at = 2 if command[0] == "analyze" else 1
    return [*command[:at], path, *command[at:]]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_prints_of_a_store_what_it_prints_of_the_traces(
    demo: Path, store: Path, command: tuple[str, ...]
) -> None:
    of_traces, of_store = (run(*arguments(command, path)) for path in (demo, store))
    assert of_store == of_traces
    assert of_traces.stdout or of_traces.stderr


@pytest.mark.full
def test_a_comparison_with_a_store_is_that_with_the_traces(demo: Path, store: Path) -> None:
    assert run("diff", store, demo, "--json") == run("diff", demo, demo, "--json")


@pytest.mark.full
def test_tables_of_a_store_are_exported_as_those_of_the_traces(
    demo: Path, store: Path, tmp_path: Path
) -> None:
    for name, path in (("traces", demo), ("store", store)):
        assert run("export", path, "--to", "csv", "-o", tmp_path / name).returncode == 0
    written = {
        name: {
            file.relative_to(tmp_path / name): file.read_bytes() for file in (tmp_path / name).rglob("*.*")
        }
        for name in ("traces", "store")
    }
    assert len(written["traces"]) > 5
    assert written["store"] == written["traces"]
