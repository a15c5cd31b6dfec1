"""`tracebraid analyze`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import call, kernel, kineto_text, op, write
from tests.integration.command import run, succeed
from tracebraid.analysis.metrics.catalog import built_in_metrics
from tracebraid.errors import ArgumentError

NAMES = [analysis.name for analysis in tracebraid.analyses.catalog()]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps with a kernel each."""
    events = [
        op("ProfilerStep#1", 0, 100, cat="user_annotation"),
        op("aten::mm", 10, 20, Input_Dims=[[2, 3], [3, 4]]),
        call("cudaLaunchKernel", 12, 5, 7),
        kernel("gemm", 20, 10, 7),
        op("ProfilerStep#2", 100, 100, cat="user_annotation"),
        op("aten::relu", 110, 20, Input_Dims=[[2, 4]]),
        call("cudaLaunchKernel", 112, 5, 8),
        kernel("relu", 120, 30, 8),
    ]
    return write(tmp_path_factory.mktemp("steps") / "trace_0.json", kineto_text(events))


def test_the_list_names_every_analysis_with_its_question() -> None:
    text = succeed("analyze", "--list")
    assert [name for name in NAMES if name not in text] == []
    listed = json.loads(succeed("analyze", "--list", "--json"))
    assert [analysis["name"] for analysis in listed] == NAMES
    assert all(analysis["question"].endswith("?") and analysis["columns"] for analysis in listed)


@pytest.mark.full(keep=5)
@pytest.mark.parametrize("name", NAMES)
def test_every_analysis_answers_as_in_python(name: str, steps: Path) -> None:
    done = run("analyze", name, steps, "--json")
    answer = tracebraid.analyze(name, tracebraid.open(steps))
    assert done.returncode == int(answer.is_unanswerable and answer.frame.is_empty())
    if done.returncode:
        assert not done.stdout
        assert name in done.stderr
    else:
        assert json.loads(done.stdout) == json.loads(answer.frame.write_json())
        function = getattr(tracebraid.analyses, name)
        assert function(tracebraid.open(steps)).equals(answer.frame)


@pytest.mark.full(keep=8)
@pytest.mark.parametrize("name", NAMES)
def test_every_analysis_prints_something_or_says_why_not(name: str, steps: Path) -> None:
    done = run("analyze", name, steps)
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
    assert done.stdout.strip() if done.returncode == 0 and not done.stderr else done.stderr.strip()


def test_a_dash_may_stand_for_an_underscore(steps: Path) -> None:
    wanted = (
        "kernels" if not any("_" in name for name in NAMES) else next(name for name in NAMES if "_" in name)
    )
    assert run("analyze", wanted.replace("_", "-"), steps, "--json") == run(
        "analyze", wanted, steps, "--json"
    )


def test_a_folder_in_place_of_the_name_is_understood(steps: Path) -> None:
    assert run("analyze", steps, "short-kernels", "--json") == run(
        "analyze", "short_kernels", steps, "--json"
    )
    alone = run("analyze", steps)
    assert alone.returncode == 2
    assert [name for name in NAMES if f"  {name} " not in alone.stdout] == []


@pytest.mark.parametrize("step", ["2", "ProfilerStep#2"])
def test_a_step_is_chosen_by_number_or_name(steps: Path, step: str) -> None:
    rows = json.loads(succeed("analyze", "kernels", steps, "--step", step, "--json"))
    assert [(row["step"], row["name"]) for row in rows] == [("ProfilerStep#2", "relu")]


def test_formats_hold_the_same_rows(steps: Path, tmp_path: Path) -> None:
    frame = tracebraid.analyses.kernels(tracebraid.open(steps))
    csv = pl.read_csv(io.StringIO(succeed("analyze", "kernels", steps, "--csv")))
    assert csv.get_column("name").to_list() == frame.get_column("name").to_list()
    succeed("analyze", "kernels", steps, "--parquet", "-o", tmp_path / "a")
    succeed("analyze", "kernels", steps, "-o", tmp_path / "b.parquet")
    assert pl.read_parquet(tmp_path / "a").equals(frame)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_file_that_is_there_stays(steps: Path, tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    target.write_text("mine")
    assert run("analyze", "kernels", steps, "-o", target).returncode == 1
    assert target.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nonsense", "{steps}"], ["nonsense", "--list"]),
        (["kernles", "{steps}"], ["kernels"]),
        (["Idle-Cause", "{steps}"], ["idle_causes"]),
        (["gaps", "{steps}"], ["idle_gaps"]),
        ([], ["NAME", "PATH", "--list"]),
        (["kernels"], ["PATH"]),
        (["kernels", "{steps}", "--step", "7"], ["ProfilerStep#1", "ProfilerStep#2"]),
        (["kernels", "{steps}", "--rank", "3"], ["rank 3", "ranks 0"]),
        (["kernels", "{steps}", "--peak-flops", "1e12"], ["peak_flops", "per_step"]),
        (["kernels", "{steps}", "--set", "depth"], ["depth"]),
        (["kernels", "{steps}", "--set", "depth=3"], ["depth", "per_step"]),
        (["short_kernels", "{steps}", "--set", "max_ns=abc"], ["max_ns", "abc", "int"]),
        (["short_kernels", "{steps}", "--set", "max_ns=-5"], ["max_ns", "-5"]),
        (["short_kernels", "{steps}", "--set", "max_ns=1.5"], ["max_ns", "1.5", "int"]),
        (["short_kernels", "{steps}", "--set", "max_ns=1e30"], ["max_ns"]),
        (["kernel_sequences", "{steps}", "--set", "op=5"], ["op", "5", "str"]),
        (["kernels", "{steps}", "--csv", "--json"], ["--csv"]),
        (["kernels", "{steps}", "-o", "rows.txt"], ["rows.txt"]),
        (["--list", "--csv"], ["--list"]),
        (["--list", "-o", "rows.json"], ["--list"]),
        (["--list", "kernels"], ["--list", "kernels"]),
        (["memory_kept", "{steps}", "--step", "1"], ["--step"]),
        (["kernels", "{steps}", "--csv", "--top", "3"], ["--top"]),
        (["kernels", "{steps}", "--annotation", "Iteration"], ["Iteration", "ProfilerStep"]),
        (["roofline", "{steps}", "--peak-flops", "0"], ["--peak-flops"]),
        (["roofline", "{steps}", "--peak-flops", "1e12", "--peak-bandwidth", "nan"], ["--peak-bandwidth"]),
        (["roofline", "{steps}", "--device", "H100"], ["H100 NVL", "H100 SXM", "MI300X"]),
        (["ops", "{steps}", "--set", "by=colour"], ["colour", "shapes"]),
    ],
)
def test_wrong_arguments_end_with_2_and_name_what_there_is(
    arguments: list[str], named: list[str], steps: Path
) -> None:
    done = run("analyze", *(argument.format(steps=steps) for argument in arguments))
    assert done.returncode == 2
    assert not done.stdout
    assert [word for word in named if word not in done.stderr] == []


@pytest.mark.parametrize("value", ["1e4", "10000.0", "0", "1e12"])
def test_whole_floats_are_whole_numbers(value: str, steps: Path) -> None:
    done = run("analyze", "short_kernels", steps, "--set", f"max_ns={value}", "--json")
    assert done.returncode == 0
    whole = run("analyze", "short_kernels", steps, "--set", f"max_ns={int(float(value))}", "--json")
    assert done.stdout == whole.stdout


def test_many_steps_are_not_all_named(tmp_path: Path) -> None:
    events = [op(f"ProfilerStep#{i}", 100 * i, 90, cat="user_annotation") for i in range(1, 300)]
    path = write(tmp_path / "trace_0.json", kineto_text(events))
    done = run("analyze", "ops", path, "--step", "900")
    assert done.returncode == 2
    assert "ProfilerStep#299" in done.stderr
    assert "ProfilerStep#150" not in done.stderr


@pytest.mark.parametrize("target", ["there.csv", "folder", "absent/rows.csv"])
def test_a_file_that_cannot_be_written_is_refused_before_the_traces_are_read(
    target: str, steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("tracebraid.open", pytest.fail)
    done = run("analyze", "kernels", steps, "--csv", "-o", tmp_path / target)
    assert (done.returncode, done.stdout) == (1, "")
    assert target in done.stderr
    assert "--new" not in done.stderr


@pytest.mark.parametrize("width", [80, 120, 200])
def test_tables_are_as_wide_as_the_terminal(width: int) -> None:
    done = run("analyze", "ops", tracebraid.demo_path(), COLUMNS=str(width))
    table = done.stdout.split("\n\n")[0].splitlines()
    assert max(map(len, table[1:])) <= width
    assert max(map(len, table[1:])) > width * 0.7


def test_rows_are_counted_and_marked_for_each_rank() -> None:
    text = run("analyze", "ops", tracebraid.demo_path(), "--top", "2").stdout
    rows = [line for line in text.splitlines() if line.startswith(("   0 ", "   1 "))]
    assert [line.split()[0] for line in rows] == ["0", "0", "1", "1"]


def test_of_several_ranks_those_that_can_be_read_are_answered_for(steps: Path, tmp_path: Path) -> None:
    write(tmp_path / "trace_0.json", steps.read_text())
    write(tmp_path / "trace_1.json", '{"traceEvents": [{]')
    done = run("analyze", "kernels", tmp_path, "--csv")
    assert done.returncode == 1
    assert "gemm" in done.stdout
    assert "trace_1.json" in done.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("events", [[], [op("aten::mm", 1, 0)]], ids=["no event", "one event"])
def test_a_trace_of_hardly_anything_gives_no_traceback(
    name: str, events: list[dict[str, object]], tmp_path: Path
) -> None:
    done = run("analyze", name, write(tmp_path / "trace_0.json", kineto_text(events)))
    assert done.returncode in (0, 1)
    assert bool(done.stdout) == (done.returncode == 0)
    assert done.stdout or name in done.stderr


def test_what_a_trace_lacks_is_said_and_the_exit_code_is_1(tmp_path: Path) -> None:
    path = write(tmp_path / "trace_0.json", kineto_text([op("aten::mm", 10, 20)]))
    for form in ([], ["--csv"], ["--json"]):
        done = run("analyze", "kernels", path, *form)
        assert (done.returncode, done.stdout) == (1, "")
        assert tracebraid.plugins.Need.DEVICE_WORK.value in done.stderr


def test_an_empty_answer_that_means_something_ends_with_0(steps: Path) -> None:
    assert json.loads(succeed("analyze", "validity", steps, "--json")) == []
    assert succeed("analyze", "validity", steps).startswith("validity")


def test_where_nothing_is_matched_between_ranks_the_exit_code_is_1(tmp_path: Path) -> None:
    for rank, name in enumerate(["nccl:all_reduce", "nccl:broadcast"]):
        events = [op(name, 10 + i, 1, cat="user_annotation", Input_Dims=[[8]]) for i in range(0, 40, 10)]
        header = {"distributedInfo": {"rank": rank, "world_size": 2}}
        write(tmp_path / f"kineto_trace_{rank}.json", kineto_text(events, header))
    assert tracebraid.analyses.matched_groups(tracebraid.open(tmp_path)).get_column("matched").sum() == 0
    done = run("analyze", "stragglers", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "matched_groups" in done.stderr
    assert run("analyze", "matched_groups", tmp_path).returncode == 0


# --- `tracebraid metrics`: what it prints and writes, what it refuses, and the metrics of insta ------


MODULE = '''
import tracebraid

@tracebraid.plugins.metric(name="host_ops", unit="count", over_ranks="sum")
def host_ops(linked):
    """Host ops in the trace."""
    return linked.timeline.host_ops.height

@tracebraid.plugins.metric(name="broken", unit="count")
def broken(linked):
    return 1 / (linked.rank - 1)

@tracebraid.plugins.metric(name="idle_share", unit="share")
def taken(linked):
    return 0.5

wrong = 42
'''
LINE_OF_FAILURE = 11
ENTRIES = "[tracebraid.metrics]\nbroken = planted_metrics:broken\nhost = planted_metrics:host_ops\n"
FAULTS = "taken = planted_metrics:taken\nwrong = planted_metrics:wrong\nabsent = no_such_module:x\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution that offers metrics."""
    site = tmp_path / "site"
    information = site / "planted_metrics-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: planted-metrics\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRIES)
    (site / "planted_metrics.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "planted_metrics", raising=False)
    return information


def test_the_object_has_every_metric_with_its_unit_and_its_ranks(demo: Path) -> None:
    data = json.loads(succeed("metrics", demo, "--json"))
    assert list(data) == [metric.name for metric in built_in_metrics()]
    step = data["step_time_mean"]
    assert step["unit"] == "ns"
    assert step["low"] < step["value"] < step["high"]
    assert set(step["by_rank"]) == {"0", "1"}
    assert step["value"] >= max(step["by_rank"].values())
    assert data["mfu"]["value"] is None
    assert data["mfu"]["lacks"] == "device peaks"


def test_the_rows_are_those_of_the_function(demo: Path) -> None:
    rows = pl.read_csv(io.StringIO(succeed("metrics", demo, "--csv", "--only", "idle-share,steps_counted")))
    wanted = tracebraid.metrics(tracebraid.open(demo), only=["idle_share", "steps_counted"])
    assert rows.get_column("metric").to_list() == wanted.get_column("metric").to_list()
    assert rows.get_column("value").to_list() == pytest.approx(wanted.get_column("value").to_list())


def test_a_rank_alone_is_a_job_of_one(demo: Path) -> None:
    data = json.loads(
        succeed("metrics", demo, "--json", "--rank", "1", "--only", "idle_share,load_imbalance")
    )
    assert data["idle_share"]["by_rank"] == {"1": data["idle_share"]["value"]}
    assert data["load_imbalance"]["lacks"] == "several ranks"


def test_a_file_is_written_once(demo: Path, tmp_path: Path) -> None:
    out = tmp_path / "metrics.json"
    assert succeed("metrics", demo, "-o", out, "--only", "idle_share") == ""
    assert json.loads(out.read_text())["idle_share"]["ranks"] == 2
    assert run("metrics", demo, "-o", out).returncode == 1


def test_people_see_the_values_and_what_is_lacking(demo: Path) -> None:
    done = run("metrics", demo, "--per-rank")
    assert done.returncode == 0
    assert "step_time_mean" in done.stdout
    assert "mfu" not in done.stdout
    assert "mfu" in done.stderr


def test_nothing_that_could_be_answered_is_exit_code_1(demo: Path) -> None:
    done = run("metrics", demo, "--only", "mfu", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["mfu"]["value"] is None


def test_a_stated_peak_makes_utilisation_known(demo: Path) -> None:
    data = json.loads(succeed("metrics", demo, "--only", "mfu", "--json", "--peak-flops", "1e12"))
    assert 0 < data["mfu"]["value"] < 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--only", "nonsense"),
        ("--peak-flops", "0"),
        ("--rank", "7"),
        ("--annotation", "nonsense"),
        ("--list", "--csv"),
        ("--csv", "--json"),
    ],
)
def test_what_makes_no_sense_is_refused(demo: Path, arguments: tuple[str, ...]) -> None:
    done = run("metrics", demo, *arguments)
    assert (done.returncode, done.stdout) == (2, "")


def test_the_list_has_formulas_and_units() -> None:
    listed = json.loads(succeed("metrics", "--list", "--json"))
    assert [metric["name"] for metric in listed] == [metric.name for metric in built_in_metrics()]
    assert all(metric["formula"] and metric["unit"] for metric in listed)


def test_metrics_of_an_installed_package_are_found_and_a_failing_one_is_located(
    demo: Path, package: Path
) -> None:
    done = run("metrics", demo, "--json")
    data = json.loads(done.stdout)
    assert done.returncode == 0
    assert data["host_ops"]["value"] == sum(data["host_ops"]["by_rank"].values()) > 0
    assert data["broken"]["lacks"] == "metric-failed"
    assert data["broken"]["by_rank"] == {"0": -1.0, "1": None}
    assert data["idle_share"]["value"] is not None
    assert f"planted_metrics.py, line {LINE_OF_FAILURE}" in done.stderr


def test_what_cannot_be_loaded_is_named_and_the_rest_is_answered(demo: Path, package: Path) -> None:
    (package / "entry_points.txt").write_text(ENTRIES + FAULTS)
    done = run("metrics", demo, "--json")
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert data["host_ops"]["value"] > 0
    assert data["idle_share"]["value"] != 0.5
    for located in ("planted_metrics:taken", "planted_metrics:wrong", "no_such_module:x"):
        assert located in done.stderr


def test_metrics_of_packages_are_not_loaded_for_others(demo: Path, package: Path) -> None:
    (package / "entry_points.txt").write_text(ENTRIES + FAULTS)
    assert succeed("metrics", demo, "--json", "--only", "idle_share")


def test_two_metrics_of_a_name_are_refused(demo: Path) -> None:
    @tracebraid.plugins.metric(name="idle_share", unit="share")
    def other(linked: tracebraid.LinkedTrace) -> float:
        return 0.0

    with pytest.raises(ArgumentError):
        tracebraid.metrics(tracebraid.open(demo), only=["idle_share", other])
