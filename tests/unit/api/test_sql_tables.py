"""What SQL answers of a table is what the API answers: every table and view, on the bundled traces and real ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.every_table import every_table
from tracebraid.api.querying import CATALOG, LINKED_RANKS_TABLES, OF_JOB, OF_RANK
from tracebraid.model.engine import Job
from tracebraid.queries.catalog import SourceTable, SqlSchema, View
from tracebraid.queries.database import Database

REAL = (
    "pairs/dlrm_v100_8rank",
    "kineto/a100_event_sync_multi_stream.json.gz",
    "kineto/a100_cupti_counters.json.gz",
)


@pytest.fixture(scope="module")
def job() -> Job:
    return tracebraid.open(tracebraid.demo_path())


@pytest.fixture(scope="module")
def engine(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with every_table(job, tmp_path_factory.mktemp("sql")) as engine:
        yield engine


def answered(engine: Database, query: str) -> pl.DataFrame:
    return pl.concat(engine.answer(query))


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Categories as text, arrays as lists: what they are in SQL."""
    return frame.with_columns(
        pl.col(pl.Categorical).cast(pl.String), pl.col(pl.Array(pl.Int64, 3)).cast(pl.List(pl.Int64))
    )


def expected(table: SourceTable, job: Job) -> pl.DataFrame:
    """The rows of all ranks as the API has them, with `rank`."""
    if table in OF_JOB:
        return plain(tracebraid.analyze(table.name, job).frame)
    frames = []
    for rank in job.ranks:
        frame = OF_RANK[table](job[rank])
        if frame is not None:
            own = frame.drop("rank", strict=False)
            frames.append(own.insert_column(0, pl.Series("rank", [rank] * own.height, dtype=pl.Int64)))
    return plain(pl.concat(frames)) if frames else pl.DataFrame()


def assert_same_rows(found: pl.DataFrame, wanted: pl.DataFrame, what: str) -> None:
    """The same rows, in any order."""
    assert found.schema == wanted.schema, what
    assert found.hash_rows().sort().equals(wanted.hash_rows().sort()), what


@pytest.mark.slow
@pytest.mark.parametrize("table", [*OF_RANK, *OF_JOB], ids=lambda table: f"{table.schema.value}.{table.name}")
def test_a_table_holds_what_the_api_answers(engine: Database, job: Job, table: SourceTable) -> None:
    found = answered(engine, f'SELECT * FROM {table.schema.value}."{table.name}"')
    assert_same_rows(found, expected(table, job), table.name)


def test_the_catalog_has_every_table_of_the_timeline_the_execution_trace_and_the_links() -> None:
    names = {(table.schema, table.name) for table in CATALOG.tables}
    assert (SqlSchema.TIMELINE, "device_work") in names
    assert len([1 for schema, _ in names if schema is SqlSchema.ET]) == 8
    assert {analysis.name for analysis in tracebraid.analyses.catalog()} == {
        name for schema, name in names if schema is SqlSchema.ANSWERS
    }
    assert len(LINKED_RANKS_TABLES) == 4


@pytest.mark.parametrize("view", CATALOG.views, ids=lambda view: view.name)
def test_a_view_has_the_columns_that_it_declares(engine: Database, view: View) -> None:
    frame = answered(engine, f"SELECT * FROM main.{view.name}")
    assert frame.columns == [column.name for column in view.columns]


@pytest.mark.full(keep=4)
@pytest.mark.slow
@pytest.mark.parametrize("view", CATALOG.views, ids=lambda view: view.name)
def test_a_view_that_joins_only_what_a_column_needs_has_the_same_values(engine: Database, view: View) -> None:
    for column in view.columns:
        found = answered(engine, f'SELECT rank, "{column.name}" AS x FROM ({view.query({column.name})})')
        wanted = answered(engine, f'SELECT rank, "{column.name}" AS x FROM main.{view.name}')
        assert_same_rows(found, wanted, column.name)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.traces
@pytest.mark.parametrize("name", REAL)
def test_tables_of_real_traces_hold_what_the_api_answers(
    real_traces: Path, name: str, tmp_path: Path
) -> None:
    job = tracebraid.open(real_traces / name)
    with every_table(job, tmp_path) as engine:
        for table in OF_RANK:
            if table.schema not in (SqlSchema.PER_STEP, SqlSchema.ANSWERS):
                wanted = expected(table, job)
                if wanted.columns:
                    found = answered(engine, f'SELECT * FROM {table.schema.value}."{table.name}"')
                    assert_same_rows(found, wanted, table.name)
        for part, whole in (("kind, name", "kernels"), ("family", "kernel_families")):
            found = answered(
                engine, f"SELECT rank, {part}, count(*) AS n, sum(dur_ns) AS ns FROM kernels GROUP BY ALL"
            )
            wanted = answered(engine, f"SELECT rank, {part}, count AS n, total_ns AS ns FROM answers.{whole}")
            assert_same_rows(found, wanted, whole)
