"""`tracebraid metrics`: what it prints and writes, what it refuses, and the metrics of installed packages."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.integration.command import run, run_process, succeed
from tracebraid.analysis.metrics.catalog import METRICS
from tracebraid.errors import ArgumentError

MODULE = '''
import tracebraid

@tracebraid.metric(name="host_ops", unit="count", over_ranks="sum")
def host_ops(linked, annotation):
    """Host ops in the trace."""
    return linked.timeline.host_ops.height

@tracebraid.metric(name="broken", unit="count")
def broken(linked, annotation):
    return 1 / (linked.rank - 1)

@tracebraid.metric(name="idle_share", unit="share")
def taken(linked, annotation):
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
    data = json.loads(succeed("metrics", demo, "--json", by=run_process))
    assert list(data) == [metric.name for metric in METRICS]
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
    assert [metric["name"] for metric in listed] == [metric.name for metric in METRICS]
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
    @tracebraid.metric(name="idle_share", unit="share")
    def other(linked: tracebraid.LinkedTrace, annotation: str) -> float:
        return 0.0

    with pytest.raises(ArgumentError):
        tracebraid.metrics(tracebraid.open(demo), only=["idle_share", other])
