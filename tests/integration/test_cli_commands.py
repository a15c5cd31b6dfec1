"""The commands: what each prints and writes."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import Json, call, flow, kernel, kineto_text, op, write
from tests.integration.command import (
    LEDGER_KEYS,
    Done,
    fail,
    run,
    run_process,
    succeed,
    write_pair,
)
from tracebraid.model.answer_sentences import code_name
from tracebraid.model.answers.time import IdleCause
from tracebraid.model.coverage import OrphanReason
from tracebraid.model.finding import reason_sentence


@pytest.mark.full
def test_info_says_what_each_file_is(job: Path) -> None:
    text = succeed("info", job, by=run_process)
    for word in ("torch_et_0.json", "kineto_trace_1.json.gz", "1.1.1-chakra.0.0.4", "1 of 2", "2 cpu_op"):
        assert word in text


def test_info_as_json_has_an_object_per_file(job: Path, pair: tuple[Path, Path]) -> None:
    files = json.loads(succeed("info", *pair, "--json"))["files"]
    assert [one["kind"] for one in files] == ["execution-trace", "kineto-trace"]
    assert files[0]["schema"] == "1.1.1-chakra.0.0.4"
    assert (files[1]["rank"], files[1]["world_size"], files[1]["steps"]) == (0, 2, ["ProfilerStep#1"])
    assert files[1]["counts"] == {"cpu_op": 2, "kernel": 2, "cuda_runtime": 1, "user_annotation": 1}


def test_link_of_a_pair_shows_the_ledger(pair: tuple[Path, Path]) -> None:
    text = succeed("link", *pair)
    for words in (
        "2 of 3",
        "1 of 2",
        reason_sentence(OrphanReason.OUTSIDE_WINDOW),
        reason_sentence(OrphanReason.NO_CALL),
    ):
        assert words in text


def test_link_as_json_has_the_documented_keys(pair: tuple[Path, Path]) -> None:
    ranks = json.loads(succeed("link", *pair, "--json"))["ranks"]
    assert len(ranks) == 1
    assert set(ranks[0]) >= LEDGER_KEYS
    assert ranks[0]["rank"] == 0
    assert ranks[0]["host_ops"] == {"total": 3, "linked": 2, "by_method": {"record_function_id": 2}}
    assert ranks[0]["gpu_events"] == {"total": 2, "attributed": 1, "by_method": {"correlation": 1}}
    assert ranks[0]["gpu_time_ns"] == {"total": 40_000, "attributed": 10_000}
    assert {(one["reason"], one["count"]) for one in ranks[0]["orphans"]} == {
        ("outside-window", 1),
        ("no-call", 1),
    }
    assert all(one["sentence"] for one in ranks[0]["orphans"])


def test_link_of_a_pair_writes_et_plus(pair: tuple[Path, Path], tmp_path: Path) -> None:
    succeed("link", *pair, "-o", tmp_path / "out.json.gz")
    nodes = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))["nodes"]
    assert {one["name"] for one in nodes if "cat" in one} == {"gemm", "lost"}


def test_link_of_a_folder_links_all_ranks_and_writes_their_et_plus(job: Path, tmp_path: Path) -> None:
    found = json.loads(succeed("link", job, "--output", tmp_path / "new" / "out", "--json"))
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    assert sorted(path.name for path in (tmp_path / "new" / "out").iterdir()) == [
        "et_plus_0.json",
        "et_plus_1.json",
    ]


def test_et_plus_written_beside_the_traces_is_not_taken_for_one(job: Path, tmp_path: Path) -> None:
    write_pair(tmp_path / "job")
    first = succeed("link", tmp_path / "job", "-o", tmp_path / "job")
    assert succeed("link", tmp_path / "job", "-o", tmp_path / "job") == first


def test_link_takes_a_kineto_trace_alone(pair: tuple[Path, Path]) -> None:
    ledger = json.loads(succeed("link", pair[1], "--json"))["ranks"][0]
    assert ledger["gpu_events"]["attributed"] == 1
    assert {one["reason"] for one in ledger["orphans"]} == {"no-call"}


@pytest.mark.full
@pytest.mark.parametrize(("packed", "by"), [(bytes, run_process), (gzip.compress, run)], ids=["text", "gzip"])
def test_link_reads_the_execution_trace_from_standard_input(
    pair: tuple[Path, Path], packed: Callable[[bytes], bytes], by: Callable[..., Done]
) -> None:
    found = json.loads(succeed("link", "-", pair[1], "--json", stdin=packed(pair[0].read_bytes()), by=by))
    assert found["ranks"][0]["host_ops"]["linked"] == 2


def test_summary_shows_the_breakdown_the_kernels_and_the_ops(job: Path) -> None:
    text = succeed("summary", job)
    for word in ("ProfilerStep#1", "gemm", "lost", "aten::mm", "idle", "compute"):
        assert word in text


def test_summary_as_json_has_tables_of_every_rank(job: Path) -> None:
    found = json.loads(succeed("summary", job, "--json"))
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    for one in found["ranks"]:
        assert set(one) >= {*LEDGER_KEYS, "breakdown", "kernels", "launchers", "ops"}
        launched = {row["launcher"]: row["device_ns"] for row in one["launchers"]}
        assert launched == {"op": 10_000, "unknown": 30_000}
        assert [row["step"] for row in one["breakdown"]] == [None, "ProfilerStep#1"]
        assert {row["name"]: row["total_ns"] for row in one["kernels"]} == {"gemm": 10_000, "lost": 30_000}
        assert {row["name"] for row in one["ops"]} == {"ProfilerStep#1", "aten::mm", "aten::unseen"}
        for row in one["breakdown"]:
            parts = ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
            assert sum(row[part] for part in parts) == row["span_ns"]


def test_summary_of_one_rank(job: Path) -> None:
    assert [one["rank"] for one in json.loads(succeed("summary", job, "--rank", "1", "--json"))["ranks"]] == [
        1
    ]


def test_summary_by_another_annotation(pair: tuple[Path, Path]) -> None:
    found = json.loads(succeed("summary", pair[1], "--annotation", "aten::mm", "--json"))
    assert [row["step"] for row in found["ranks"][0]["breakdown"]] == [None, "aten::mm"]


def test_summary_says_what_launched_the_devices_time(job: Path) -> None:
    assert "75.0 %" in succeed("summary", job).split("Ops and annotations")[0]


def test_summary_of_categories_of_before_2022_has_answers(tmp_path: Path) -> None:
    events = [
        op("aten::mm", 0, 50, cat="Operator"),
        call("cudaLaunchKernel", 5, 5, 1, cat="Runtime"),
        kernel("gemm", 100, 20, 1, cat="Kernel"),
    ]
    path = write(tmp_path / "kineto_trace_0.json", kineto_text(events))
    done = run("summary", path)
    assert done.returncode == 0
    assert "gemm" in done.stdout
    assert "aten::mm" in done.stdout


@pytest.mark.full(keep=1)
@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], ()),
        ([kernel("k", 0, 5, 1)], ("host-ops-missing",)),
        ([kernel("k", 0, 5, 1, cat="npu_kernel")], ("device-work-unread",)),
        ([op("x", 0, 5, cat="my_tool")], ("category-unknown",)),
        ([call("cudaLaunchKernel", 0, 5, 1)], ("device-events-missing",)),
        ([call("hipModuleLaunchKernel", 0, 5, 1)], ("device-events-missing",)),
        ([call("cudaGetDeviceCount", 0, 5, 1)], ()),
        ([op("ProfilerStep#1", 0, 5, cat="user_annotation")], ()),
    ],
)
def test_summary_of_a_trace_that_lacks_something_says_what(
    tmp_path: Path, events: list[Json], said: tuple[str]
) -> None:
    flows = [flow("s", 1, 0), flow("f", 1, 1)]
    path = write(tmp_path / "kineto_trace_0.json", kineto_text([*events, *flows]))
    found = run("summary", path, "--json"), run("summary", path)
    assert [done.returncode for done in found] == [0, 0]
    assert [finding["code"] for finding in json.loads(found[0].stdout)["findings"]] == list(said)
    first = found[1].stdout.splitlines()[0]
    assert (found[1].stderr != "" or first.startswith("In doubt: ")) == bool(said)


def test_summary_shows_as_many_rows_as_asked_for(pair: tuple[Path, Path]) -> None:
    text = succeed("summary", pair[1], "--top", "1")
    assert "lost" in text
    assert "gemm" not in text


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """`tracebraid demo DIR`, once."""
    folder = tmp_path_factory.mktemp("demo") / "copied" / "here"
    return run("demo", folder), folder


def test_the_demo_copies_the_traces_and_writes_their_et_plus(
    demo_run: tuple[Done, Path],
) -> None:
    done, folder = demo_run
    assert done.returncode == 0
    assert {f"{name}_{rank}.json.gz" for name in ("torch_et", "kineto_trace") for rank in (0, 1)} <= {
        path.name for path in folder.iterdir()
    }
    assert json.loads((folder / "et_plus_1.json").read_text())["nodes"]


def test_the_demo_shows_the_ledger_and_the_breakdown(
    demo_run: tuple[Done, Path],
) -> None:
    done, folder = demo_run
    words = (str(folder), "Step time", "100.0 %", "record_function_id", "ProfilerStep#4", "gloo:all_reduce")
    found = [done.stdout.find(word) for word in words]
    assert -1 not in found
    assert found[1] < min(found[2:])


def test_the_demo_without_a_folder_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("demo", "--json")
    ranks = json.loads(done.stdout)["ranks"]
    assert [one["rank"] for one in ranks] == [0, 1]
    assert all(one["host_ops"]["linked"] == one["host_ops"]["total"] for one in ranks)
    assert list(tmp_path.iterdir()) == []


def test_the_demo_never_overwrites_a_trace_that_is_not_its_own(tmp_path: Path) -> None:
    """Its files have the usual names: `tracebraid demo .` beside one's own traces must not cost them."""
    mine = tmp_path / "torch_et_0.json.gz"
    mine.write_bytes(b"mine")
    assert "torch_et_0.json.gz" in fail("demo", tmp_path)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]


def test_the_demo_can_be_run_again_in_its_folder(demo_run: tuple[Done, Path]) -> None:
    done, folder = demo_run
    assert run("demo", folder).stdout == done.stdout


def test_the_version_is_the_packages() -> None:
    import tracebraid

    assert succeed("--version") == f"tracebraid {tracebraid.__version__}\n"


def test_help_names_every_command() -> None:
    text = succeed("-h")
    assert all(command in text for command in ("info", "link", "summary", "demo"))


@pytest.mark.full
def test_the_installed_command_is_the_same() -> None:
    script = Path(sys.executable).with_name("tracebraid")
    if not script.exists():
        pytest.skip("the package is not installed beside this Python")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == succeed("--version", by=run_process)


def test_summary_says_why_the_device_is_idle(job: Path) -> None:
    text = succeed("summary", job, "--rank", 0)
    assert code_name(IdleCause.UNKNOWN) in text
    (rank,) = json.loads(succeed("summary", job, "--rank", 0, "--json"))["ranks"]
    idle_ns = [row["idle_ns"] for row in rank["breakdown"] if row["step"] is None]
    assert sum(idle_ns) > 0
    assert sum(row["idle_ns"] for row in rank["idle_causes"] if row["step"] is None) == sum(idle_ns)


def test_the_manifest_says_which_torch_recorded_the_files(demo: Path) -> None:
    files = json.loads(succeed("info", demo, "--json"))["files"]
    manifest = json.loads((demo / "manifest_0.json").read_text(encoding="utf-8"))
    assert {file["torch"] for file in files} == {manifest["torch"]}
