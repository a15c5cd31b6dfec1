"""A query reads tables and nothing else: no file, no network, no environment, no setting, no other statement."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.builders import kineto_text, op, write
from tests.planted import write_ranks
from tests.planted.scenes import clean
from tracebraid.api.querying import CATALOG
from tracebraid.errors import InputError, QueryError
from tracebraid.model.engine import Job
from tracebraid.queries.database import Database, QueryLimits, check, database
from tracebraid.queries.statement import (
    FILE_FUNCTIONS,
    TABLE_FUNCTIONS,
    is_plain,
    named_by,
    refuse_functions,
    statement_of,
)

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
    assert sorted({*os.listdir(tmp_path)} - {"job", "scratch"}) == sorted({*before} - {"job"})  # noqa: PTH208


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


@pytest.fixture(scope="module")
def engine() -> Iterator[Database]:
    with database(QueryLimits()) as engine:
        yield engine


@pytest.mark.parametrize("query", READS + STATEMENTS)
def test_a_query_that_does_more_than_to_read_tables_is_refused(
    engine: Database, secret: Path, tmp_path: Path, query: str
) -> None:
    with pytest.raises(QueryError) as caught:
        check(engine, query.replace("{0}", str(secret)), CATALOG, tmp_path / "scratch")
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 1000


OTHER_SCOPES = [
    'with "{0}" as (select 1) from {0}',
    'with "{1}" as (select 1) from {1}',
    'select * from {0} where exists (with "{0}" as (select 1) from steps)',
    'from {1} union all by name (with "{1}" as (select 1) from "{1}")',
    "from {1} where exists (with {1} as (select 1) from {1})",
    "from (with {1} as (select 1 as x) from {1}), {1}",
    "from steps, lateral (from {1}) where exists (with {1} as (select 1) from {1})",
    "with {1} as (from {1}) from {1}",
    "with a as (from {1}), {1} as (select 1) from a",
    "with recursive {1} as (from {1} union all select 1 from {1}) from {1}",
    "with a as (with {1} as (select 1) from {1}) from a, {1}",
    "with {1} as (select 1) from (describe {1})",
    "from (with {1} as (select 1) from {1}) where 1 in (select 1 from {0})",
    'from steps as "{0}", {0}',
    "summarize {0}",
    "describe {1}",
    "from {0} at (version => 1)",
    "from system.{0}",
    "from {0}",
    "from {1}",
    'from "{0}"',
    "select (select count(*) from {1})",
    "select list_transform([1], lambda x: (select count(*) from {0}))",
]


@pytest.mark.full
def test_no_name_opens_a_table_of_the_engine(engine: Database, tmp_path: Path) -> None:
    """All tables and views that the installed engine has of its own, in each scope that a name may stand in."""
    engine.open(tmp_path / "scratch", ())
    tables = every("select schema_name, view_name from duckdb_views() where internal")
    assert ("pg_catalog", "pg_settings") in tables
    tables.append(("tracebraid_result", "answer"))  # the result, in a database beside
    for number, (schema, name) in enumerate(tables):
        # All scopes for some, and some scopes for all: the scopes do not depend on the name. Views of
        # information_schema are not found by their name alone, which may be a part's.
        every_scope = number % 14 == 0 and schema != "information_schema"
        for scope in OTHER_SCOPES if every_scope else OTHER_SCOPES[:1] + OTHER_SCOPES[-5:-3]:
            query = scope.format(f"{schema}.{name}", name)
            for with_files in (False, True):
                with pytest.raises(QueryError):
                    look_at(engine, query, with_files=with_files)


def look_at(engine: Database, query: str, *, with_files: bool) -> None:
    """The part of `check` that reads a query, without a new database for each."""
    statement = statement_of(engine.tree(query), query)
    refuse_functions(statement, CATALOG, query, engine.has_function, with_files=with_files)
    named_by(statement, CATALOG, query, with_files=with_files)


def every(query: str) -> list[tuple[Any, ...]]:
    """What an engine without a fence answers, in a process of its own."""
    code = f"import duckdb, json, os; print(json.dumps(duckdb.sql({query!r}).fetchall()), flush=True); os._exit(0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Above it may stand how far a query was that took long.
    return [tuple(row) for row in json.loads(done.stdout.splitlines()[-1])]


STABLE = ("CONSISTENT", None)
VARYING = {
    *("now", "today", "current_date", "get_current_time", "get_current_timestamp", "transaction_timestamp"),
    *("current_localtime", "current_localtimestamp"),
    *("random", "setseed", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "error"),
    # Constants, as there is one database.
    *("current_database", "current_schema"),
}
"""Functions that a query may use whose value is not made of their arguments alone."""
ZONED = re.compile(r"\b(TIMESTAMPTZ|TIMESTAMP WITH TIME ZONE|TIME WITH TIME ZONE)")


def is_as_stable(name: str, stability: str | None, returned: str | None, taken: list[str]) -> bool:
    """The value is made of the arguments, and of the time zone where one is or the value is zoned."""
    of_the_zone = stability == "CONSISTENT_WITHIN_QUERY" and bool(taken)
    return (
        stability in STABLE
        or name in VARYING
        or (of_the_zone and any(map(ZONED.search, (returned or "", *taken))))
    )


def test_functions_of_the_engine_are_refused_but_for_those_that_were_looked_at(
    engine: Database, tmp_path: Path
) -> None:
    functions = every(
        "select distinct lower(function_name), function_type, stability, coalesce(macro_definition, ''), "
        "return_type, parameter_types from duckdb_functions() where internal"
    )
    assert len(functions) > 900
    engine.open(tmp_path / "scratch", ())
    for name, kind, stability, body, returned, taken in functions:
        if kind in ("table", "table_macro", "pragma"):
            if name not in TABLE_FUNCTIONS | FILE_FUNCTIONS | {"histogram"}:
                with pytest.raises(QueryError):
                    look_at(engine, f'from "{name}"()', with_files=True)
        elif is_plain(name):
            assert is_as_stable(name, stability, returned, taken), name
            assert not any(word in body for word in ("duckdb_", "pg_", "pragma_")), name
        elif not name.startswith(("collate_", "icu_collate_")):
            quoted = name.replace('"', '""')
            with pytest.raises(QueryError):
                look_at(engine, f'select "{quoted}"()', with_files=True)


@pytest.mark.parametrize(
    ("name", "stability", "returned", "taken", "expected"),
    [
        ("abs", "CONSISTENT", "BIGINT", ["BIGINT"], True),
        ("now", "CONSISTENT_WITHIN_QUERY", "TIMESTAMP WITH TIME ZONE", [], True),
        ("hour", "CONSISTENT_WITHIN_QUERY", "BIGINT", ["TIMESTAMPTZ_NS"], True),
        ("make_timestamptz", "CONSISTENT_WITHIN_QUERY", "TIMESTAMP WITH TIME ZONE", ["BIGINT"], True),
        ("a_clock", "CONSISTENT_WITHIN_QUERY", "TIMESTAMP WITH TIME ZONE", [], False),
        ("a_setting", "CONSISTENT_WITHIN_QUERY", "VARCHAR", ["VARCHAR"], False),
        ("a_local_hour", "CONSISTENT_WITHIN_QUERY", "BIGINT", ["TIMESTAMP"], False),
        ("a_die", "VOLATILE", "TIMESTAMP WITH TIME ZONE", ["BIGINT"], False),
    ],
)
def test_a_function_that_varies_otherwise_than_with_the_zone_has_to_be_looked_at(
    name: str, stability: str, returned: str, taken: list[str], expected: bool
) -> None:
    assert is_as_stable(name, stability, returned, taken) is expected


@pytest.mark.full
@pytest.mark.parametrize(
    "query",
    [
        "select epoch_us('2026-01-01 00:00:00'::timestamptz) as x",
        "select hour(to_timestamp(0)) as x",
        "select to_timestamp(0)::varchar as x",
        "select make_timestamptz(2026, 1, 1, 0, 0, 0) as x",
        "select to_timestamp(0)::date as x",
        "select date_trunc('day', to_timestamp(86400)) as x",
    ],
)
def test_times_are_of_no_zone_and_calendar_of_the_machine(
    job: Job, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("LC_ALL", "C")
    here = job.sql(query)
    monkeypatch.setenv("TZ", "America/New_York")
    monkeypatch.setenv("LC_ALL", "fa_IR.UTF-8")
    there = job.sql(query)
    assert there.equals(here)
    assert there.schema == here.schema


@pytest.mark.full
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("with kernels as (select 7 as x) from kernels", 1),
        ("with a as (select 1 as x), b as (from a union all from a) from b, a", 2),
        ("with a as (with b as (select 1) from b) from a", 1),
        ("with recursive t as (select 1 as x union all select x + 1 from t where x < 4) from t", 4),
        ("with a as (select 1 as x) from (with b as (from a) from b) where x in (select x from a)", 1),
        ("with a as (select 1 as x) select (select max(x) from a), list_transform([1], lambda y: y)", 1),
        ("from steps s, lateral (select s.rank + 1 as next) limit 2", 2),
        ('with a as (select 1) select 1 as "a.b" from A', 1),
        ("select row_number() over (order by rank), lag(rank) over (order by rank) from steps limit 2", 2),
        ("select json_extract('{}', '$.a'), 1 between 0 and 2, 'a' like 'b', 5 ^ 2, [1][1], coalesce(1)", 1),
        ("from json_each('[1, 2]')", 2),
        ("from range(3), unnest([1])", 3),
        ("from kernels_of('%') limit 0", 0),
        ("describe steps", 5),
        (
            "select 1 is distinct from null, extract(year from today()), 'a' similar to 'a', grouping(rank), "
            "count(*) filter (rank > 0), max(columns(*)), 1 in (1, 2), case when true then 1 end, 'x'::varchar "
            "from steps group by rank limit 1",
            1,
        ),
    ],
)
def test_scopes_and_functions_of_plain_queries_are_not_refused(job: Job, query: str, rows: int) -> None:
    assert job.sql(query).height == rows


@pytest.mark.full(keep=1)
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
    with database(QueryLimits()) as engine:
        engine.open(tmp_path / "scratch", [tmp_path / "job"])
        engine.define([])
        with pytest.raises(QueryError):
            engine.answer(query.replace("{0}", str(secret)))


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
@pytest.mark.parametrize("depth", [100, 5000])
def test_a_query_that_nests_deep_answers_or_is_refused(job: Job, depth: int) -> None:
    query = f"select {'(' * depth}1{')' * depth} + 1"
    try:
        answer = job.sql(query).item()
    except QueryError as error:
        answer = None if len(str(error)) < 1000 else error
    assert answer in (2, None)


@pytest.mark.full
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
    with pytest.raises(InputError, match=r"rank_000001\.parquet: this file of the store is missing"):
        tracebraid.open(store).sql("select count(*) from events")
    assert tracebraid.open(store).sql("select count(*) from host_ops").item() > 0
