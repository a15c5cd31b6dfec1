"""`tracebraid critical-path`: what it prints, writes, refuses, and with which exit code."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import kineto_text, op, write
from tests.integration.command import run
from tests.planted import Cause, PlannedJob, Scene, write_ranks
from tests.planted.patterns import PATTERNS
from tests.planted.scenes import clean

STEP_KEYS = ["step", "span_ns", "path_ns", "residual_ns", "explained", "segments"]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    planned = PlannedJob(2)
    for number in (1, 2, 3):
        with planned.step(number):
            planned.compute(100_000)
            planned.delay(1, Cause.KERNEL, 400_000)
            planned.collective("allreduce")
    return planned.write(tmp_path_factory.mktemp("job"))


def test_json_is_the_path_of_the_library(job: Path) -> None:
    done = run("critical-path", job, "--json")
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert list(data) == ["steps", "replay_error", "findings"]
    path = tracebraid.critical_path(tracebraid.open(job))
    segments = path.segments.partition_by("step", maintain_order=True)
    for step, row, own in zip(data["steps"], path.steps.to_dicts(), segments, strict=True):
        assert list(step) == STEP_KEYS
        assert {name: step[name] for name in STEP_KEYS[:-1]} == {name: row[name] for name in STEP_KEYS[:-1]}
        assert step["path_ns"] + step["residual_ns"] == step["span_ns"]
        assert step["segments"] == own.drop("step").to_dicts()
    assert set(data["replay_error"]) >= {"steps", "median", "p95"}


def test_people_see_the_steps_the_segments_and_where_they_are(job: Path) -> None:
    done = run("critical-path", job)
    assert done.returncode == 0
    for part in ("ProfilerStep#2", "ncclDevKernel", "transfer", "residual", "stream 20", "what-if"):
        assert part in done.stdout


def test_a_path_on_a_thread_of_which_nothing_was_recorded_says_so(tmp_path: Path) -> None:
    """It is explained by no cause, though nothing of it is residual."""
    events = [op(f"ProfilerStep#{step}", 1000 * step, 990, cat="user_annotation") for step in range(3)]
    events += [op("aten::mm", 1000 * step + 10, 100) for step in range(3)]
    path = write(tmp_path / "kineto_trace_0.json", kineto_text(events))
    said = "is a thread outside of all that was recorded"
    assert said in run("critical-path", path).stdout
    busy = [op("aten::mm", 1000 * step + 200, 700) for step in range(3)]
    assert said not in run("critical-path", write(path, kineto_text([*events, *busy]))).stdout


def test_commands_that_come_next_have_the_path_that_was_given(job: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my job"
    folder.symlink_to(job)
    done = run("critical-path", folder)
    (asked,) = (line for line in done.stdout.splitlines() if "what-if" in line)
    assert shlex.split(asked)[2] == str(folder)


def test_within_a_rank_that_is_early_the_path_waits_for_the_late(job: Path) -> None:
    def kinds(*options: str) -> set[str]:
        data = json.loads(run("critical-path", job, "--json", "--step", "2", *options).stdout)
        (step,) = data["steps"]
        if options:
            assert {segment["rank"] for segment in step["segments"]} == {0}
        return {segment["kind"] for segment in step["segments"]}

    assert "waiting for a member" in kinds("--rank", "0")
    assert "waiting for a member" not in kinds()


def test_the_overlay_and_csv_are_written(job: Path, tmp_path: Path) -> None:
    target = tmp_path / "path.json.gz"
    done = run("critical-path", job, "--step", "1", "--csv", "-o", target)
    assert done.returncode == 0
    rows = pl.read_csv(done.stdout.encode())
    assert rows["duration_ns"].sum() > 0
    assert run("info", target).returncode == 0
    assert run("critical-path", job, "-o", target).returncode == 1


@pytest.mark.parametrize(
    "wrong", [["--step", "9"], ["--rank", "5"], ["--replays", "-1"], ["--json", "--csv"]]
)
def test_what_is_not_there_is_refused(job: Path, wrong: list[str]) -> None:
    done = run("critical-path", job, *wrong)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_trace_without_steps_is_a_whole(tmp_path: Path) -> None:
    scene = Scene(devices=())
    scene.thread().run("aten::mm", 1000)
    folder = write_ranks(tmp_path, [scene])
    (step,) = json.loads(run("critical-path", folder, "--json").stdout)["steps"]
    assert (step["step"], step["span_ns"], step["residual_ns"]) == (None, 1000, 0)
    assert run("critical-path", folder).returncode == 0
    assert run("critical-path", folder, "--step", "1").returncode == 2


def test_a_trace_of_nothing_is_no_traceback(tmp_path: Path) -> None:
    path = write(tmp_path / "kineto_trace_0.json", kineto_text([]))
    done = run("critical-path", path)
    assert "Traceback" not in done.stderr
    assert json.loads(run("critical-path", path, "--json").stdout)["steps"] == []


# --- Steps that run at once: each thread has its own ------------------------------------------------


def steps_at_once(folder: Path, count: int) -> Path:
    """Threads with a step each, all at the same time."""
    events = [
        event
        for number in range(count)
        for event in (
            op(f"train#{number}", number, 100, tid=number, cat="user_annotation"),
            op("aten::mm", number + 10, 20, tid=number),
        )
    ]
    return write(folder / "kineto_trace_0.json", kineto_text(events))


AT_ONCE = {
    "critical-path": ("critical-path",),
    "what-if": ("what-if", "--sweep"),
    "advise": ("advise",),
    "chakra": ("export", "--to", "chakra", "-o", "OUT"),
}


@pytest.mark.parametrize("command", AT_ONCE.values(), ids=AT_ONCE)
def test_a_graph_of_more_than_64_steps_at_once_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    name, *rest = (word.replace("OUT", str(tmp_path / "out")) for word in command)
    done = run(name, steps_at_once(tmp_path, 65), "--annotation", "train", *rest)
    refused = run("analyze", "idle_causes", tmp_path, "--annotation", "train", "--per-step")
    assert (done.returncode, done.stdout, "65 steps" in done.stderr) == (1, "", True)
    assert done.stderr.removeprefix("error: ").split(": ")[1] == refused.stderr.split(": ")[2]
    assert not (tmp_path / "out").exists()
    assert run(name, steps_at_once(tmp_path, 64), "--annotation", "train", *rest).returncode == 0


def test_what_needs_no_graph_is_answered_with_more_than_64_steps_at_once(tmp_path: Path) -> None:
    """Nor does a rank whose steps follow each other."""
    trace, out = steps_at_once(tmp_path, 65), tmp_path / "out.pftrace"
    done = run("summary", trace, "--annotation", "train")
    assert (done.returncode, "65 steps" in done.stderr, "aten::mm" in done.stdout) == (0, True, True)
    done = run("export", trace, "--annotation", "train", "--to", "perfetto", "-o", out)
    assert (done.returncode, "65 steps" in done.stderr, out.exists()) == (0, True, True)
    assert run("critical-path", trace).returncode == 0


# --- `tracebraid what-if` with a change --------------------------------------------------------------


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    job = PlannedJob(2)
    for number in (1, 2):
        with job.step(number):
            job.compute(50_000)
            job.collective(transfer=80_000)
    return job.write(tmp_path_factory.mktemp("job"))


def test_json(traces: Path) -> None:
    found = run("what-if", traces, "--change", "bandwidth 2", "--change", "scale 1 kind=kernel", "--json")
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert answer["gain_ns"] == answer["before_ns"] - answer["after_ns"] == 40_000
    assert len(answer["changes"]) == 2
    assert [row["rank"] for row in answer["steps"]] == [None, None, 0, 1, 0, 1]


def test_report_and_csv(traces: Path) -> None:
    report = run("what-if", traces, "--change", "bandwidth 2")
    assert report.returncode == 0, report.stderr
    assert "bandwidth 2" in report.stdout
    rows = run("what-if", traces, "--change", "bandwidth 2", "--csv")
    assert rows.returncode == 0, rows.stderr
    assert rows.stdout.splitlines()[0].startswith("step,rank,before_ns,after_ns,gain_ns")


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("change", ["faster 2", "scale 0.5 name=nothing"])
def test_a_change_that_cannot_be_is_a_usage_error(traces: Path, change: str) -> None:
    found = run("what-if", traces, "--change", change)
    assert found.returncode == 2
    assert "Traceback" not in found.stderr


# --- `tracebraid what-if` without a change: a sweep, straggler metrics -------------------------------


@pytest.mark.full
@pytest.mark.parametrize("option", ["--sweep", "--stragglers"])
def test_an_answer_is_a_table_of_so_many_rows_or_csv(demo: Path, option: str) -> None:
    few, many = (run("what-if", demo, option, "--top", top).stdout for top in ("2", "6"))
    assert len(many.splitlines()) == len(few.splitlines()) + 4
    rows = run("what-if", demo, option, "--csv").stdout.splitlines()
    assert len(rows) > 10
    assert "group_by" in rows[0].split(",")


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("option", ["--sweep", "--stragglers"])
def test_an_annotation_that_marks_no_step_is_named(demo: Path, option: str) -> None:
    assert "nope" in run("what-if", demo, option, "--annotation", "nope").stdout
    assert "ProfilerStep" not in run("what-if", demo, option, "--top", "1").stdout


def test_a_sweep_as_json_has_the_groups_that_are_asked_for(demo: Path) -> None:
    groups = json.loads(run("what-if", demo, "--sweep", "--by", "op", "--by", "collective", "--json").stdout)[
        "groups"
    ]
    assert {group["group_by"] for group in groups} == {"op", "collective"}
    gains = [group["gain_50"] for group in groups]
    assert gains == sorted(gains, reverse=True)


def test_straggler_metrics_as_json_have_the_names_of_the_paper(demo: Path) -> None:
    found = json.loads(run("what-if", demo, "--stragglers", "--json").stdout)
    assert set(found["S_by"]) == {"rank", "optype"}
    assert set(found["S_by"]["rank"]) == {"0", "1"}
    assert found["S"] == pytest.approx(found["step_ns"] / found["ideal_ns"])
    assert found["M_S"] is None


@pytest.mark.parametrize("options", [[], ["--sweep", "--stragglers"], ["--stragglers", "--by", "op"]])
def test_what_is_asked_must_be_clear(demo: Path, options: list[str]) -> None:
    assert run("what-if", demo, *options).returncode == 2


# --- `tracebraid advise`: what it prints, writes, refuses, and with which exit code ------------------


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    (tmp_path / "slow").mkdir()
    return write_ranks(tmp_path / "slow", PATTERNS["item-sync"].scenes)


def test_people_see_what_where_how_much_and_what_to_change(slow: Path) -> None:
    done = run("advise", slow)
    assert done.returncode == 0
    detector = next(found for found in tracebraid.plugins.detectors() if found.name == "item-sync")
    words = " ".join(done.stdout.split())
    for part in (detector.title, detector.change, "aten::item", "train.py(30): loss_of", "per step"):
        assert part in words


@pytest.mark.full
def test_json_has_all_and_agrees_with_the_library(slow: Path, tmp_path: Path) -> None:
    done = run("advise", slow, "--json")
    data = json.loads(done.stdout)
    advice = tracebraid.advise(tracebraid.open(slow))
    (item,) = data["advice"]
    assert {name: item[name] for name in advice.items.columns} == advice.items.row(0, named=True)
    assert item["title"]
    assert item["change"]
    assert item["evidence"] == advice.evidence.drop("item", "detector").to_dicts()
    assert data["by_step"] == advice.by_step.to_dicts()
    assert data["saving_per_step_ns"] == advice.saving_per_step_ns
    target = tmp_path / "advice.json"
    assert run("advise", slow, "-o", target).returncode == 0
    assert json.loads(target.read_text()) == data


def test_rows_go_to_csv_and_parquet(slow: Path, tmp_path: Path) -> None:
    target = tmp_path / "advice.parquet"
    assert run("advise", slow, "-o", target).returncode == 0
    assert pl.read_parquet(target).get_column("detector").to_list() == ["item-sync"]
    csv = run("advise", slow, "--csv").stdout
    assert csv.startswith("item,detector,op,")
    assert csv.count("\n") == 2


def test_nothing_found_is_said_and_is_no_failure(tmp_path: Path) -> None:
    done = run("advise", write_ranks(tmp_path, [clean()]))
    assert done.returncode == 0
    assert done.stdout.strip()
    assert json.loads(run("advise", tmp_path, "--json").stdout)["advice"] == []


@pytest.mark.full
def test_less_is_left_out_on_demand(slow: Path) -> None:
    assert json.loads(run("advise", slow, "--json", "--min-saving", "90%").stdout)["advice"] == []
    assert json.loads(run("advise", slow, "--json", "--min-saving", "10s").stdout)["advice"] == []
    assert json.loads(run("advise", slow, "--json", "--min-saving", "0").stdout)["advice"] != []


@pytest.mark.parametrize("least", ["x", "-1%", "200%", "2"])
def test_what_is_no_least_saving_is_refused_before_anything_is_read(least: str, tmp_path: Path) -> None:
    assert run("advise", tmp_path / "absent", f"--min-saving={least}").returncode == 2


def test_a_rank_that_is_not_there_is_refused(slow: Path) -> None:
    assert run("advise", slow, "--rank", "5").returncode == 2
    assert run("advise", slow, "--rank", "0").returncode == 0


@pytest.mark.full
def test_each_item_has_an_interval_and_a_basis_and_a_verdict_comes_first(slow: Path) -> None:
    data = json.loads(run("advise", slow, "--json").stdout)
    first = data["advice"][0]
    assert first["saving_low_per_step_ns"] <= first["saving_per_step_ns"] <= first["saving_high_per_step_ns"]
    assert {item["basis"] for item in data["advice"]} <= {"replay", "accounting"}
    assert sum(row["ns"] for row in data["accounting"]) > 0
    printed = run("advise", slow).stdout
    assert printed.startswith("Step ")
    assert "".join(data["verdict"][0].split()) in "".join(printed.split())
    judged = json.loads(run("summary", slow, "--json").stdout)["judged"]
    assert judged["verdict"] == data["verdict"]
    assert [item["detector"] for item in judged["items"]] == [item["detector"] for item in data["advice"]]
    assert {key: judged[key] for key in ("limit", "transfers", "unlaunched_share", "accounting")} == {
        key: data[key] for key in ("limit", "transfers", "unlaunched_share", "accounting")
    }


@pytest.mark.full
def test_ranks_are_asked_together_and_apart(tmp_path: Path) -> None:
    tracks = [clean(rank=0, world_size=2), clean(rank=1, world_size=2)]
    folder = write_ranks(tmp_path, tracks)
    data = json.loads(run("advise", folder, "--json").stdout)
    assert data["ranks"] == [0, 1]
    assert json.loads(run("advise", folder, "--rank", "1", "--json").stdout)["ranks"] == [1]


@pytest.mark.full
def test_a_rank_that_cannot_be_read_costs_no_other_and_fails_the_command(tmp_path: Path) -> None:
    job = Path(shutil.copytree(tracebraid.demo_path(), tmp_path / "job"))
    (job / "kineto_trace_0.json.gz").write_bytes(b"")
    done = run("advise", job, "--json")
    assert done.returncode == 1
    data = json.loads(done.stdout)
    assert data["ranks"] == [1]
    assert "rank-unreadable" in {finding["code"] for finding in data["findings"]}


def test_a_trace_in_which_nothing_can_be_looked_for_fails(tmp_path: Path) -> None:
    path = write(tmp_path / "kineto_trace_0.json", kineto_text([]))
    done = run("advise", path)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_what_cannot_be_looked_for_is_said(tmp_path: Path) -> None:
    scene = Scene(devices=())
    scene.thread().run("aten::mm", 1000)
    done = run("advise", write_ranks(tmp_path, [scene]), "--json")
    assert "item-sync" in json.loads(done.stdout)["not_looked_for"]
    assert "not looked for" in done.stderr


# --- Commands that ask the dependency graph where a rank or an Execution Trace cannot be read ------


ASKED = [
    ["critical-path"],
    ["what-if", "--change", "bandwidth 2"],
    ["what-if", "--sweep"],
    ["what-if", "--stragglers"],
]


@pytest.fixture(scope="module")
def damaged_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    planned = PlannedJob(2)
    for number in (1, 2):
        with planned.step(number):
            planned.compute(100_000)
            planned.collective("allreduce")
    return planned.write(tmp_path_factory.mktemp("job"))


@pytest.fixture(scope="module")
def damaged(damaged_job: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damaged")
    for file in sorted(damaged_job.glob("*.json*")):
        (folder / file.name).write_bytes(b"" if "_1" in file.name else file.read_bytes())
    return folder


@pytest.mark.full(keep=2)
@pytest.mark.parametrize("command", ASKED, ids=lambda command: command[0])
def test_a_rank_that_cannot_be_read_is_named_and_fails_the_command(damaged: Path, command: list[str]) -> None:
    done = run(command[0], damaged, *command[1:], "--json")
    assert done.returncode == 1
    assert "kineto_trace_1" in done.stderr
    findings = {finding["code"] for finding in json.loads(done.stdout)["findings"]}
    assert "rank-unreadable" in findings


def test_the_answer_is_of_the_ranks_that_can_be_read(damaged: Path) -> None:
    done = run("critical-path", damaged, "--json")
    ranks = {segment["rank"] for step in json.loads(done.stdout)["steps"] for segment in step["segments"]}
    assert ranks == {0}


def test_the_rank_that_cannot_be_read_has_no_path(damaged: Path) -> None:
    done = run("critical-path", damaged, "--rank", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert run("critical-path", damaged, "--rank", "0").returncode == 1


def test_where_no_rank_can_be_read_there_is_an_error(damaged: Path, tmp_path: Path) -> None:
    for file in damaged.iterdir():
        (tmp_path / file.name).write_bytes(b"")
    for command in ASKED:
        done = run(command[0], tmp_path, *command[1:])
        assert (done.returncode, done.stdout) == (1, "")
        assert "Traceback" not in done.stderr


def test_in_python_it_is_an_error(damaged: Path) -> None:
    with pytest.raises(tracebraid.InputError):
        tracebraid.dependency_graph(tracebraid.open(damaged))


def test_segments_as_csv_need_no_replays_of_the_model(
    damaged_job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_asked(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr("tracebraid.api.graphing.replay_errors", not_asked)
    assert run("critical-path", damaged_job, "--csv").returncode == 0
