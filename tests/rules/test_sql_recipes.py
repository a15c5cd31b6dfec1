"""The queries of docs/sql.md run, and answer what the page shows."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.sql_recipes import PAGE, device_job, recipes, rendered


def test_there_are_recipes_for_hosts_and_for_devices() -> None:
    of_devices = [devices for _, _, devices in recipes()]
    assert of_devices.count(False) > 7
    assert of_devices.count(True) > 7


@pytest.mark.full
@pytest.mark.slow
def test_the_page_shows_what_its_queries_answer() -> None:
    assert rendered() == PAGE.read_text(encoding="utf-8"), "run python tools/write_sql_recipes.py"
    assert "```text\n```" not in PAGE.read_text(encoding="utf-8")


@pytest.mark.full
@pytest.mark.slow
def test_figures_of_recipes_are_those_of_the_analyses(tmp_path: Path) -> None:
    job = device_job(tmp_path / "job")
    queries = {title: query for title, query, devices in recipes() if devices}
    modules = job.sql(queries["Device time of each module"]).rows()
    assert {module: us * 1000 for module, _, us in modules} == dict(
        job.sql(
            "select path, device_forward_self_ns + device_backward_self_ns from modules "
            "where rank = 0 and kernels_self > 0"
        ).rows()
    )
    top = job.sql(queries["Top kernels of each rank"]).select(
        "rank", "name", "runs", pl.col("total_us") * 1000
    )
    kernels = job.sql(
        "select rank, name, count, total_ns::double from answers.kernels where kind <> 'communication'"
    )
    assert set(top.rows()) <= set(kernels.rows())
    late = job.sql(queries["Gaps on a stream"]).get_column("gap_us").max()
    assert late == job.sql("select max(max_ns) / 1e3 from stream_idle").item()
