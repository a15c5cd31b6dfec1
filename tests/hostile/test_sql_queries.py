"""A query reads tables and nothing else: no file, no network, no environment, no setting, no other statement."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.builders import kineto_text, op, write
from tests.planted import write_ranks
from tests.planted.scenes import clean
from tracebraid.errors import InputError, QueryError
from tracebraid.model.job import Job
from tracebraid.queries.database import database
from tracebraid.queries.limits import QueryLimits

SECRET = "s3cret-of-the-test"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    folder = tmp_path / "job"
    folder.mkdir()
    return tracebraid.open(write_ranks(folder, [clean(rank=rank, world_size=2) for rank in range(2)]))


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "secret.csv"
    path.write_text(f"word\n{SECRET}\n")
    pl.read_csv(path).write_parquet(tmp_path / "secret.parquet")
    monkeypatch.setenv("TRACEBRAID_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    before = sorted(os.listdir(tmp_path))  # noqa: PTH208
    yield path
    assert sorted({*os.listdir(tmp_path)} - {"job"}) == sorted({*before} - {"job"})  # noqa: PTH208


READS = [
    "select * from read_csv('{0}')",
    "select * from read_csv_auto('{0}')",
    "select * from read_text('{0}')",
    "select * from read_blob('{0}')",
    "select * from read_json('{0}')",
    "select * from read_ndjson_objects('{0}')",
    "select * from read_parquet('secret.parquet')",
    "select * from parquet_scan('secret.parquet')",
    "select * from parquet_metadata('secret.parquet')",
    "select * from sniff_csv('{0}')",
    "select * from glob('*')",
    "select * from '{0}'",
    'select * from "secret.csv"',
    "from 'secret.parquet'",
    "from 'https://example.com/a.csv'",
    "from read_csv('https://example.com/a.csv')",
    "from read_parquet('s3://bucket/a.parquet')",
    "with t as (from read_text('{0}')) select * from t",
    "select (select content from read_text('{0}'))",
    "select * from steps where exists (from read_text('{0}'))",
    "select * from steps union all by name from '{0}'",
    "select * from steps, lateral (select * from read_text('{0}'))",
    "with recursive t as (from read_text('{0}') union all from t) from t",
    "select list_transform([1], x -> (select content from read_text('{0}')))",
    "select getenv('TRACEBRAID_SECRET')",
    "select main.getenv('TRACEBRAID_SECRET')",
    "select system.main.getenv('TRACEBRAID_SECRET')",
    "select 'TRACEBRAID_SECRET'.getenv()",
    "select current_setting('temp_directory')",
    "select * from duckdb_settings()",
    "select * from duckdb_secrets()",
    "select * from duckdb_views()",
    "select * from duckdb_functions()",
    "select * from pragma_database_size()",
    "select * from pragma_table_info('events')",
    "select * from information_schema.tables",
    "select * from pg_catalog.pg_tables",
    "select * from sqlite_master",
    "select * from query('select 1')",
    "select * from query_table('steps')",
    "select * from pandas_scan(1)",
    "select * from arrow_scan(1, 2, 3)",
    "select * from python_map_function()",
    "select * from json_execute_serialized_sql('x')",
    "select * from histogram(steps, step)",
    "select * from checkpoint()",
    "select * from local_frame",
    "select * from job",
    "select write_log('x')",
    "select pg_get_viewdef(1)",
    "select json_serialize_plan('from steps')",
    "select * from which_secret('s3://x', 's3')",
    "show tables",
    "show databases",
    "show all tables",
    "describe",
]
STATEMENTS = [
    "copy (select 1) to 'out.csv'",
    "copy steps to 'out.parquet'",
    "copy (select 1) to '/dev/stdout'",
    "attach 'x.db'",
    "attach '{0}' as x",
    "detach memory",
    "export database 'out'",
    "import database 'out'",
    "install httpfs",
    "load httpfs",
    "load '{0}'",
    "set enable_external_access = true",
    "set memory_limit = '100GB'",
    "set lock_configuration = false",
    "reset memory_limit",
    "pragma enable_profiling",
    "pragma database_list",
    "create table x as select 1",
    "create or replace view steps as select 1",
    "create macro x() as 1",
    "create secret (type s3)",
    "create function x(a) as a",
    "drop view steps",
    "insert into steps values (1)",
    "update steps set rank = 1",
    "delete from steps",
    "truncate steps",
    "alter view steps rename to x",
    "with x as (insert into steps values (1) returning *) select * from x",
    "with x as (delete from steps returning *) from x",
    "merge into steps using steps on true when matched then delete",
    "begin transaction",
    "checkpoint",
    "vacuum",
    "call pragma_version()",
    "call duckdb_settings()",
    "prepare x as select 1",
    "execute x",
    "explain analyze select 1",
    "use memory",
    "set variable a = 1",
    "comment on view steps is 'x'",
    "pivot steps on step",
    "select 1; select 2",
    "select 1; copy (select 1) to 'out.csv'",
    "select 1;;drop view steps",
    "",
    ";",
    "-- nothing",
    "\x00",
    "select '\ud800'",
    "select ?",
    "select $1",
    "select $name",
]


@pytest.mark.parametrize("query", READS + STATEMENTS)
def test_a_query_that_does_more_than_to_read_tables_is_refused(job: Job, secret: Path, query: str) -> None:
    local_frame = pl.DataFrame({"word": [SECRET]})
    assert local_frame.height
    with pytest.raises(QueryError) as caught:
        job.sql(query.replace("{0}", str(secret)))
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO 'out.csv'",
        "SELECT * FROM read_text('{0}')",
        "SELECT * FROM '{0}'",
        "FROM glob('*')",
        "ATTACH 'x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "SET memory_limit = '100GB'",
        "SET temp_directory = '.'",
        "SET allowed_directories = ['/']",
        "FROM 'https://example.com/a.csv'",
        "FROM local_frame",
    ],
)
def test_the_engine_itself_refuses_what_a_query_must_not_do(secret: Path, tmp_path: Path, query: str) -> None:
    """Whatever passes the check of the query would still do nothing."""
    local_frame = pl.DataFrame({"word": [SECRET]})
    assert local_frame.height
    with database(QueryLimits(), tmp_path / "scratch", [tmp_path / "job"]) as engine:
        engine.define([])
        with pytest.raises(QueryError):
            engine.answer(query.replace("{0}", str(secret)))


def test_files_of_an_allowed_folder_are_read_and_no_others(job: Job, tmp_path: Path) -> None:
    allowed, other = tmp_path / "allowed", tmp_path / "other"
    for folder in (allowed, other):
        folder.mkdir()
        (folder / "names.csv").write_text("rank,host\n0,a\n1,b\n")
    query = "select s.rank, host, count(*) as n from steps s join read_csv('{}') using (rank) group by all order by all"
    found = job.sql(query.format(allowed / "names.csv"), allow_files=[allowed])
    assert found.rows() == [(0, "a", 3), (1, "b", 3)]
    assert job.sql(f"from '{allowed / 'names.csv'}'", allow_files=[allowed]).height == 2
    for path in (other / "names.csv", allowed / ".." / "other" / "names.csv", "/etc/passwd"):
        with pytest.raises(QueryError):
            job.sql(query.format(path), allow_files=[allowed])
    (allowed / "link.csv").symlink_to(other / "names.csv")
    with pytest.raises(QueryError):
        job.sql(f"copy (select 1) to '{allowed / 'out.csv'}'", allow_files=[allowed])
    with pytest.raises(tracebraid.ArgumentError):
        job.sql("select 1", allow_files=[tmp_path / "nowhere"])


def test_names_of_a_trace_and_of_its_folder_are_never_sql(tmp_path: Path) -> None:
    folder = tmp_path / "it's \"a\" folder'); drop view steps; -- rank_7.parquet"
    folder.mkdir()
    names = [
        "'; drop view events; --",
        '"x"',
        "a'b",
        "rank_9.parquet",
        "\\",
        "%s {0} $1 ?",
        "ü\u2028",
        "[31mred",
    ]
    write(folder / "kineto_trace_0.json", kineto_text([op(name, 10 * i, 5) for i, name in enumerate(names)]))
    job = tracebraid.open(folder)
    found = job.sql("select name from events order by ts_ns")
    assert found.get_column("name").to_list() == names
    store = tmp_path / "it's.tbstore"
    tracebraid.pack(folder, store)
    assert tracebraid.open(store).sql("select name from events order by ts_ns").equals(found)


def test_a_query_has_the_memory_that_it_is_given_and_leaves_nothing_behind(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(scratch)
    with pytest.raises(QueryError, match="64 MiB"):
        job.sql("select array_agg(range) from range(100000000)", memory_bytes=64 * 2**20)
    assert list(scratch.iterdir()) == []
    assert job.sql("select count(*) from range(1000)", memory_bytes=64 * 2**20).item() == 1000


@pytest.mark.parametrize("depth", [100, 5000])
def test_a_query_that_nests_deep_answers_or_is_refused(job: Job, depth: int) -> None:
    query = f"select {'(' * depth}1{')' * depth} + 1"
    try:
        answer = job.sql(query).item()
    except QueryError as error:
        answer = None if len(str(error)) < 1000 else error
    assert answer in (2, None)


def test_a_damaged_file_of_a_store_is_an_error_that_names_it(job: Job, tmp_path: Path) -> None:
    store = tmp_path / "job.tbstore"
    tracebraid.pack(job.path, store)
    path = store / "tables" / "events" / "rank_000001.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:200] + bytes(byte ^ 0xFF for byte in content[200:220]) + content[220:])
    with pytest.raises(InputError, match=r"rank_000001\.parquet"):
        tracebraid.open(store).sql("select count(*) from events")
    path.write_bytes(content[:-10])
    with pytest.raises(InputError, match=r"rank_000001\.parquet"):
        tracebraid.open(store).sql("select count(*) from events")
    path.unlink()
    with pytest.raises(InputError, match="not there"):
        tracebraid.open(store).sql("select count(*) from events")
    assert tracebraid.open(store).sql("select count(*) from host_ops").item() > 0
