"""`tracebraid analyze`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import call, kernel, kineto_text, op, write
from tests.integration.command import run, run_process, succeed

NAMES = [analysis.name for analysis in tracebraid.analyses()]


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
    text = succeed("analyze", "--list", by=run_process)
    assert [name for name in NAMES if name not in text] == []
    listed = json.loads(succeed("analyze", "--list", "--json"))
    assert [analysis["name"] for analysis in listed] == NAMES
    assert all(analysis["question"].endswith("?") and analysis["columns"] for analysis in listed)


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
        function = getattr(tracebraid, name)
        assert function(tracebraid.open(steps)).equals(answer.frame)


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


@pytest.mark.parametrize("step", ["2", "ProfilerStep#2"])
def test_a_step_is_chosen_by_number_or_name(steps: Path, step: str) -> None:
    rows = json.loads(succeed("analyze", "kernels", steps, "--step", step, "--json"))
    assert [(row["step"], row["name"]) for row in rows] == [("ProfilerStep#2", "relu")]


def test_formats_hold_the_same_rows(steps: Path, tmp_path: Path) -> None:
    frame = tracebraid.kernels(tracebraid.open(steps))
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
        (["{steps}", "kernels"], ["analyze kernels"]),
        (["{steps}"], ["NAME"]),
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
    monkeypatch.setattr("tracebraid.api.open", pytest.fail)
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
        assert tracebraid.Need.DEVICE_WORK.value in done.stderr


def test_an_empty_answer_that_means_something_ends_with_0(steps: Path) -> None:
    assert json.loads(succeed("analyze", "validity", steps, "--json")) == []
    assert succeed("analyze", "validity", steps).startswith("validity")


def test_where_nothing_is_matched_between_ranks_the_exit_code_is_1(tmp_path: Path) -> None:
    for rank, name in enumerate(["nccl:all_reduce", "nccl:broadcast"]):
        events = [op(name, 10 + i, 1, cat="user_annotation", Input_Dims=[[8]]) for i in range(0, 40, 10)]
        header = {"distributedInfo": {"rank": rank, "world_size": 2}}
        write(tmp_path / f"kineto_trace_{rank}.json", kineto_text(events, header))
    assert tracebraid.matched_groups(tracebraid.open(tmp_path)).get_column("matched").sum() == 0
    done = run("analyze", "stragglers", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "matched_groups" in done.stderr
    assert run("analyze", "matched_groups", tmp_path).returncode == 0
