"""`tracebraid export --to chakra` from the outside: what is written, what is refused, and what the files then say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

import tracebraid
from tests.builders import Json, call, kernel, kineto_text, op, write
from tests.integration.command import fail, run, succeed
from tests.planted import PlannedJob
from tracebraid.chakra import ChakraRank, Detail, MissingRanks
from tracebraid.chakra.exporting.export import EXPORT_FACTS, SIMULATOR_FOLDER
from tracebraid.chakra.exporting.rank_nodes import rank_nodes
from tracebraid.chakra.running.network import network_of_file, network_of_text
from tracebraid.errors import AloneError

_STEPS = [
    *(op(f"ProfilerStep#{number}", 100 * number, 100, cat="user_annotation") for number in (1, 2, 3)),
    *(op("aten::mm", 100 * number + 10, 50) for number in (1, 2, 3)),
    *(call("cudaLaunchKernel", 100 * number + 20, 5, number) for number in (1, 2, 3)),
    *(kernel("gemm", 100 * number + 40, 30, number) for number in (1, 2, 3)),
]
"""Three steps of a rank that communicates with nobody."""


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """A job of one rank."""
    return _trace(tmp_path / "one", 0, 1)


def _job_of(folder: Path, *worlds: int) -> Path:
    for rank, world in enumerate(worlds):
        _trace(folder, rank, world)
    return folder


def _trace(folder: Path, rank: int, world: int, events: Sequence[Json] = tuple(_STEPS)) -> Path:
    folder.mkdir(exist_ok=True)
    header = {"distributedInfo": {"rank": rank, "world_size": world}}
    return write(folder / f"kineto_trace_{rank}.json", kineto_text(list(events), header))


@pytest.mark.full
def test_the_demo_becomes_a_folder_that_simulators_run(demo: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("export", demo, "--to", "chakra", "-o", out, "--simulator", "astra-sim")
    assert (done.returncode, done.stdout) == (0, "")
    assert "nodes in 9 files" in done.stderr
    facts = json.loads((out / EXPORT_FACTS).read_bytes())
    assert (facts["detail"], facts["world_size"], facts["dialect"]) == ("merged", 2, "astra-sim")
    for file in facts["files"]:
        rank = tracebraid.chakra.read(out / file["file"])
        assert (rank.nodes.height, len(rank.data_deps)) == (file["nodes"], file["dependencies"])
        assert dict(rank.attributes)["world_size"] == 2
        counts = dict(rank.nodes.get_column("kind").value_counts().iter_rows())
        assert counts == {kind: each["nodes"] for kind, each in file["kinds"].items()}
    assert (out / SIMULATOR_FOLDER / "run.sh").stat().st_mode & 0o111
    assert succeed("chakra", "check", out)


def test_the_simulator_s_network_is_that_of_the_option(tmp_path: Path) -> None:
    job = _job_of(tmp_path / "four", 4, 4, 4, 4)
    network = "switch:2,10Gbit/s,5us+ring:2,1Gbit/s,20us"
    words = ("--to", "chakra", "--simulator", "astra-sim", "--network")
    run("export", job, *words, network, "-o", tmp_path / "out")
    text = (tmp_path / "out" / SIMULATOR_FOLDER / "network.yml").read_text()
    for written, asked in zip(
        network_of_file(text, "network.yml").dimensions, network_of_text(network).dimensions, strict=True
    ):
        assert written.bandwidth_bytes_per_ns == pytest.approx(asked.bandwidth_bytes_per_ns)
        assert replace(written, bandwidth_bytes_per_ns=asked.bandwidth_bytes_per_ns) == asked
    run("export", job, *words, "measured", "-o", tmp_path / "measured")
    system = json.loads((tmp_path / "measured" / SIMULATOR_FOLDER / "system.json").read_bytes())
    assert system["replay-only"] == 1


@pytest.mark.full
def test_a_store_gives_the_same_files(tmp_path: Path) -> None:
    job, store = _job_of(tmp_path / "two", 2, 2), tmp_path / "two.tbstore"
    run("pack", job, "-o", store)
    for detail in Detail:
        found = []
        for source in (job, store):
            out = tmp_path / f"{detail.value} {source.name}"
            assert (
                run("export", source, "--to", "chakra", "-o", out, "--detail", detail.value).returncode == 0
            )
            found.append({path.name: path.read_bytes() for path in out.iterdir()})
        assert found[0] == found[1]
        assert {"job.0.et", "job.1.et"} < set(found[0])


def test_steps_are_chosen_and_repeated(single: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = tracebraid.chakra.ChakraOptions(Detail.DEVICE, steps="2..3", repeat=2)
    job = tracebraid.open(single)
    done = tracebraid.export(job, out, "chakra", tracebraid.ExportOptions(chakra=options))
    nodes = tracebraid.chakra.read(out / "job.0.et").nodes.with_columns(
        pl.col("step", "name").cast(pl.String)
    )
    assert done.rows == nodes.height
    assert nodes.filter(pl.col("name") == "gemm").get_column("step").to_list() == [
        *("ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#2 (2)", "ProfilerStep#3 (2)")
    ]


def test_ranks_without_a_trace_are_refused_left_out_or_replicated(tmp_path: Path) -> None:
    job = tracebraid.open(_job_of(tmp_path / "two", 4, 4))
    with pytest.raises(tracebraid.InputError, match="2, 3"):
        tracebraid.export(job, tmp_path / "refused", "chakra")
    for missing, ranks in ((MissingRanks.SHRINK, 2), (MissingRanks.REPLICATE, 4)):
        options = tracebraid.ExportOptions(chakra=tracebraid.chakra.ChakraOptions(missing=missing))
        tracebraid.export(job, tmp_path / missing.value, "chakra", options)
        found = sorted(path.name for path in (tmp_path / missing.value).glob("*.et"))
        assert found == [f"job.{rank}.et" for rank in range(ranks)]
        sources = [
            dict(tracebraid.chakra.read(tmp_path / missing.value / name).attributes)["source_rank"]
            for name in found
        ]
        assert sources == [0, 1, 0, 1][:ranks]
    assert not (tmp_path / "refused").exists()


def test_a_rank_that_cannot_be_read_is_missing(tmp_path: Path) -> None:
    folder = _job_of(tmp_path / "two", 2, 2)
    (folder / "kineto_trace_1.json").write_bytes(b'{"traceEvents": 5}')
    assert "rank" in fail("export", folder, "--to", "chakra", "-o", tmp_path / "out")
    done = run("export", folder, "--to", "chakra", "-o", tmp_path / "out", "--missing", "shrink")
    assert (done.returncode, "kineto_trace_1.json" in done.stderr) == (1, True)
    assert [path.name for path in (tmp_path / "out").glob("*.et")] == ["job.0.et"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--to csv -o out --detail full", "--detail is an option of --to chakra"),
        ("--to perfetto -o out --world-size 4", "--world-size is an option of --to chakra"),
        ("--to chakra -o out --rank 0", "has all ranks"),
        ("--to chakra -o out --step 1", "by steps, such as 3 or 3..5"),
        ("--to chakra -o out --steps 7..9", "there is no step 7; there are: ProfilerStep#1"),
        ("--to chakra -o out --steps mine", "there is no step mine; there are: ProfilerStep#1"),
        ("--to chakra -o out --steps 3..1", "ends before it begins"),
        ("--to chakra -o out --repeat 0", "--repeat"),
        ("--to chakra -o out.csv", "a file for each rank"),
        ("--to chakra -o out --top 3", "top and near"),
        ("--to chakra -o out --simulator other", "astra-sim"),
        ("--to chakra -o out --network ring", "--network needs --simulator"),
        ("--to chakra -o out --simulator astra-sim --network rong", "'rong' is not a network"),
    ],
)
def test_what_makes_no_sense_is_refused(
    options: str, said: str, single: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("export", single, *options.split(), COLUMNS="200")
    assert (done.returncode, said in done.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_options_in_python_are_checked(single: Path, tmp_path: Path) -> None:
    with pytest.raises(tracebraid.ArgumentError, match="give 1 or more"):
        tracebraid.chakra.ChakraOptions(repeat=0)
    with pytest.raises(tracebraid.ArgumentError, match="no simulator 'other'"):
        tracebraid.chakra.ChakraOptions(simulator="other")
    options = tracebraid.ExportOptions(chakra=tracebraid.chakra.ChakraOptions())
    with pytest.raises(tracebraid.ArgumentError, match="options of chakra"):
        tracebraid.export(tracebraid.open(single), tmp_path / "out", "csv", options)


def test_a_trace_in_which_nothing_happens_is_named(tmp_path: Path) -> None:
    path = _trace(tmp_path / "empty", 0, 1, ())
    said = fail("export", path, "--to", "chakra", "-o", tmp_path / "out")
    assert "kineto_trace_0.json" in said
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_not_written_to(single: Path, tmp_path: Path) -> None:
    shutil.copytree(single.parent, tmp_path / "out")
    assert "exists" in fail("export", single, "--to", "chakra", "-o", tmp_path / "out")


def test_a_replay_beyond_its_bound_ends_with_1_unless_allowed(
    single: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("export", single, "--to", "chakra", "--detail", "merged", "-o")
    done = run(*words, tmp_path / "exact")
    assert (done.returncode, "replay: at most 0 ns (0.0 %) off" in done.stderr) == (0, True)
    facts = json.loads((tmp_path / "exact" / EXPORT_FACTS).read_bytes())["replay"]
    assert {(step["error_ns"], step["error_share"]) for step in facts["steps"]} == {(0, 0.0)}
    assert [step["step"] for step in facts["steps"]] == [
        *(f"ProfilerStep#{number}" for number in (1, 2, 3)),
        None,
    ]
    for name in ("MOST_ERROR_NS", "MOST_ERROR_SHARE"):
        monkeypatch.setattr(f"tracebraid.chakra.exporting.replay.{name}", -1)
    done = run(*words, tmp_path / "beyond")
    assert (done.returncode, "rank 0 ProfilerStep#2: 0 ns (0.0 %)" in done.stderr) == (1, True)
    assert (tmp_path / "beyond" / EXPORT_FACTS).exists()
    assert run(*words, tmp_path / "allowed", "--allow-replay-error").returncode == 0
    assert run(*words, tmp_path / "steps", "--steps", "2..3").returncode == 1
    assert run(*words, tmp_path / "steps allowed", "--steps", "2", "--allow-replay-error").returncode == 0


@pytest.mark.parametrize("detail", list(Detail))
def test_selected_steps_wait_for_kernels_that_run_on_from_before(tmp_path: Path, detail: Detail) -> None:
    """The host goes on: each kernel takes longer than a step. The whole trace is the same as all of its steps."""
    steps = [event for event in _STEPS if event["name"] != "gemm"]
    kernels = [kernel("gemm", 10 + 130 * number, 130, number) for number in (1, 2, 3)]
    trace = _trace(tmp_path / "one", 0, 1, [*steps, *kernels])
    rows = {}
    for chosen in ("1..3", "2..3", "2", None):
        options = tracebraid.ExportOptions(chakra=tracebraid.chakra.ChakraOptions(detail, steps=chosen))
        done = tracebraid.export(tracebraid.open(trace), tmp_path / f"{chosen}", "chakra", options)
        assert done.replay is not None
        assert {row.error_ns for row in done.replay.rows} == {0}
        rows[chosen] = [(row.step, row.measured_ns) for row in done.replay.rows]
    assert rows["1..3"] == rows[None]
    assert rows["2..3"] == [("ProfilerStep#2", 200_000), ("ProfilerStep#3", 130_000), (None, 330_000)]


def test_steps_behind_some_that_are_left_out_have_no_replay_error(single: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("export", single, "--to", "chakra", "-o", out, "--steps", "1,3")
    assert (done.returncode, "2 of 3 are not compared" in done.stderr) == (0, True)
    facts = json.loads((out / EXPORT_FACTS).read_bytes())["replay"]
    assert [(each["step"], each["error_ns"], each["not_compared"]) for each in facts["steps"]] == [
        ("ProfilerStep#1", 0, None),
        ("ProfilerStep#3", None, "not-measured"),
        (None, None, "not-measured"),
    ]


@pytest.mark.parametrize(("recorded", "is_refused"), [(1, True), (2, False)])
def test_communication_that_would_mostly_be_alone_is_refused_unless_allowed(
    tmp_path: Path, recorded: int, is_refused: bool
) -> None:
    """Of four collectives, rank 1 recorded the first ones: 3 of 5 records have no partner, or 2 of 6."""
    job = PlannedJob(2, devices=())
    with job.step(1):
        planted = [job.collective() for _ in range(4)]
    lost = {each.event_ids[1] for each in planted[recorded:]}
    job.scenes[1].events = [event for event in job.scenes[1].events if event.event_id not in lost]
    (tmp_path / "job").mkdir()
    words = ("export", job.write(tmp_path / "job"), "--to", "chakra", "-o")
    done = run(*words, tmp_path / "out")
    assert (done.returncode, (tmp_path / "out").exists()) == (is_refused, not is_refused)
    assert ("--allow-alone" in done.stderr) is is_refused
    if is_refused:
        with pytest.raises(AloneError):
            tracebraid.export(tracebraid.open(tmp_path / "job"), tmp_path / "out", "chakra")
        assert run(*words, tmp_path / "allowed", "--allow-alone").returncode == 0


def test_nodes_that_fit_no_file_are_no_wrong_usage(
    single: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def below_0(*arguments: object) -> ChakraRank:
        rank = rank_nodes(*arguments)  # type: ignore[arg-type]
        return replace(rank, nodes=rank.nodes.with_columns(duration_micros=-pl.col("duration_micros")))

    monkeypatch.setattr("tracebraid.chakra.exporting.export.rank_nodes", below_0)
    assert run("export", single, "--to", "chakra", "-o", tmp_path / "out").returncode == 1
    assert not (tmp_path / "out").exists()
