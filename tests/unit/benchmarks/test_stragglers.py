"""A published job is read into the same graph, and its straggler metrics are those that were published."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from benchmarks.__main__ import main
from benchmarks.graphs import as_published, straggler_step_errors
from benchmarks.made_graphs import straggler_job
from tracebraid.model.graph import DependencyGraph
from tracebraid.simulation.stragglers import Operations, straggler_metrics_of


def _row(
    step: int, dp_rank: int, op: str, seconds: float, transfer: float | None = None
) -> dict[str, object]:
    optype, _, stage = op.rsplit("_", 2)
    return {
        "step": step,
        "dp_rank": dp_rank,
        "stage": int(stage),
        "rank": 2 * dp_rank + int(stage),
        "optype": optype,
        "op": op,
        "duration": seconds,
        "transfer_duration": transfer,
        "launch_delay": 0.5,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two stages in which the forward of dp_rank 1's last takes 5 s and all others 1 s, then 2 s of all-reduce."""
    rows = []
    for step in (9, 10):
        for dp_rank in (0, 1):
            rows.append(_row(step, dp_rank, "forward-compute_0_0", 1.0))
            rows.append(_row(step, dp_rank, "forward-compute_0_1", 5.0 if dp_rank else 1.0))
            rows.append(_row(step, dp_rank, "grads-reduce-scatter_0_1", 9.0, 2.0))
    rows.append(_row(10, 0, "gc_0_0", 0.0))
    pl.DataFrame(rows).write_parquet(tmp_path / "ops.parquet")
    edges = {
        "before": ["forward-compute_0_0", "forward-compute_0_1", "never_0_0"],
        "after": ["forward-compute_0_1", "grads-reduce-scatter_0_1", "gc_0_0"],
    }
    pl.DataFrame(edges).write_parquet(tmp_path / "edges.parquet")
    groups = {
        "group": [0, 1],
        "op": ["grads-reduce-scatter_0_1", "never_0_0"],
        "across_dp_ranks": [True, False],
    }
    pl.DataFrame(groups).write_parquet(tmp_path / "groups.parquet")
    return tmp_path


def test_metrics_are_those_computed_by_hand(folder: Path) -> None:
    job = straggler_job(folder)
    found = as_published(straggler_metrics_of(job.graph, job.operations))
    # A step takes 1 + 5 + 2 s; were all forwards 2 s, as their mean, 2 + 2 + 2 s.
    assert found["S"] == pytest.approx(8 / 6)
    assert found["S_by"]["dp_rank"] == pytest.approx({"0": 1.0, "1": 8 / 6})
    assert found["S_by"]["stage"] == pytest.approx({"0": 5 / 6, "1": 9 / 6})
    assert found["S_by"]["optype"] == pytest.approx(
        {"forward-compute": 8 / 6, "gc": 1.0, "grads-reduce-scatter": 1.0}
    )
    # Of dp_rank 1's last stage made ideal: 1 + 2 + 2 s. The other dp_rank is then as fast.
    assert found["M_S"] == pytest.approx(3 / 2)
    assert found["M_W"] == pytest.approx(3 / 2)


def test_other_columns_and_types_of_names_change_nothing(folder: Path) -> None:
    before = as_published(straggler_metrics_of(*_parts(folder)))
    for name, texts in (("ops", ["op", "optype"]), ("edges", ["before", "after"]), ("groups", ["op"])):
        path = folder / f"{name}.parquet"
        rows = pl.read_parquet(path).with_columns(pl.col(texts).cast(pl.Categorical), activity=1, number=2)
        rows.sample(fraction=1, shuffle=True, seed=1).write_parquet(path)
    assert as_published(straggler_metrics_of(*_parts(folder))) == before


def _parts(folder: Path) -> tuple[DependencyGraph, Operations]:
    job = straggler_job(folder)
    return job.graph, job.operations


def test_launch_delays_are_residuals(folder: Path) -> None:
    expected = {"step_t_base": {"9": 9.5, "10": 9.5}, "step_t_noblk": {"9": 6.0, "10": 12.0}}
    found = straggler_step_errors(straggler_job(folder), expected)
    assert found["step_t_base"] == pytest.approx((0.0, 0.0), abs=1e-9)
    assert found["step_t_noblk"] == pytest.approx((0.25, 0.5))
    assert "step_t_nodelay" not in found


@pytest.mark.full
@pytest.mark.slow
def test_the_command_prints_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "expected.json").write_text(json.dumps({"Ms": 1.0}))
    assert main(["stragglers", str(folder), "--json"]) == 0
    rows = {row["subject"]: row["figures"] for row in json.loads(capsys.readouterr().out)}
    assert {"reading and metrics", "S", "M_S", "M_W"} <= rows.keys()
    assert rows["M_S"]["published"] == 1.0
    assert rows["M_S"]["differ"] == pytest.approx(rows["M_S"]["ours"] - 1)
    assert main(["stragglers", str(folder)]) == 0
    assert "M_W" in capsys.readouterr().out


def test_dependencies_in_a_cycle_are_refused(folder: Path) -> None:
    edges = {"before": ["forward-compute_0_0", "gc_0_0"], "after": ["gc_0_0", "forward-compute_0_0"]}
    pl.DataFrame(edges).write_parquet(folder / "edges.parquet")
    with pytest.raises(ValueError, match="cycle"):
        straggler_job(folder)


@pytest.mark.traces
def test_the_published_answers(real_traces: Path) -> None:
    folder = real_traces / "stragglers" / "ST"
    expected = json.loads((folder / "expected.json").read_text())
    job = straggler_job(folder)
    found = as_published(straggler_metrics_of(job.graph, job.operations))
    assert found["S"] == pytest.approx(expected["blocking_slowdown"], rel=1e-6)
    for by, of_labels in found["S_by"].items():
        assert of_labels == pytest.approx(expected[f"blocking_decompose_by_{by}"], rel=1e-6)
    assert found["M_S"] == pytest.approx(expected["Ms"], rel=1e-6)
    assert found["M_W"] == pytest.approx(expected["Mw"], rel=1e-6)
    errors = straggler_step_errors(job, expected)
    assert len(errors) == 3
    assert max(worst for _, worst in errors.values()) < 1e-6
