"""`tracebraid sql`: tables for people, files for machines, and what is wrong with a query."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.integration.command import fail, run, run_process, succeed
from tests.planted import write_ranks
from tests.planted.scenes import clean


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return write_ranks(folder, [clean(rank=rank, world_size=2) for rank in range(2)])


STEPS = "select rank, step, end_ns - start_ns as ns, [rank, 1] as list from steps order by rank, step"


def test_rows_are_the_same_in_every_form(traces: Path, tmp_path: Path) -> None:
    wanted = tracebraid.open(traces).sql(STEPS)
    rows = json.loads(succeed("sql", traces, STEPS, "--json"))
    assert rows == wanted.to_dicts()
    lines = succeed("sql", traces, STEPS, "--csv").splitlines()
    assert lines[0] == "rank,step,ns,list"
    assert len(lines) == 1 + wanted.height
    out = tmp_path / "steps.parquet"
    succeed("sql", traces, STEPS, "-o", out)
    assert pl.read_parquet(out).equals(wanted)
    fail("sql", traces, STEPS, "-o", out)


def test_people_get_the_first_rows_and_are_told_that_there_are_more(traces: Path) -> None:
    text = succeed("sql", traces, "select name from events order by ts_ns, event_id", "--top", 3)
    assert len(text.split("There are more rows")[0].strip().splitlines()) == 2 + 3
    assert "There are more rows" not in succeed("sql", traces, STEPS)
    assert "There are no rows" in succeed("sql", traces, "select * from steps where rank > 7")


def test_what_there_is_is_listed_without_a_path() -> None:
    text = succeed("sql", "--tables")
    assert all(name in text for name in ("kernels", "answers.kernels", "et.collectives", "step_of(of_rank"))
    listed = json.loads(succeed("sql", "--tables", "--json"))
    columns = json.loads(succeed("sql", "--schema", "KERNELS", "--json"))
    assert columns in listed["tables"]
    assert [column["name"] for column in columns["columns"]][:2] == ["rank", "event_id"]
    assert "the device event" in succeed("sql", "--schema", "links")
    done = run("sql", "--schema", "kernel")
    assert (done.returncode, "kernels" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("selct 1", "line 1, column 1"),
        ("select *\nfrom evnts", "line 2, column 6: there is no table evnts. Did you mean events"),
        ("select\n  nme\nfrom events", 'line 2, column 3: Referenced column "nme" not found'),
        ("select foo(1)", "line 1, column 8: Scalar Function with name foo does not exist"),
        ("select rank, count(*) from events", "GROUP BY"),
        ("select sum(name) from events", "line 1, column 8"),
        ("select cast(name as int) from events", "Could not convert string"),
        ("select interval 1 day as i", "column i is of type INTERVAL"),
        ("select 1; select 2", "these are 2 queries"),
        ("", "there is no query"),
    ],
)
def test_a_wrong_query_is_an_error_that_says_where(traces: Path, query: str, said: str) -> None:
    text = fail("sql", traces, query)
    assert said in text
    assert len(text.splitlines()) == 1
    assert all(word not in text for word in ("Binder", "Catalog Error", "LINE", "pg_", "duckdb"))


def test_a_missing_query_is_wrong_usage(traces: Path) -> None:
    for arguments in (
        (traces,),
        (),
        (traces, STEPS, "--csv", "--json"),
        (traces, STEPS, "--csv", "--top", 3),
    ):
        assert run("sql", *arguments).returncode == 2


def test_a_rank_that_cannot_be_read_is_named_and_the_others_answer(traces: Path) -> None:
    path = next(traces.glob("*1.json"))
    path.write_text("no trace")
    done = run("sql", traces, "select distinct rank from events", "--csv")
    assert (done.returncode, done.stdout.split()) == (1, ["rank", "0"])
    assert path.name in done.stderr
    with pytest.raises(tracebraid.InputError):
        tracebraid.open(traces).sql("select 1 from events")


def test_a_store_answers_as_the_traces_do(tmp_path: Path) -> None:
    demo, store = tracebraid.demo_path(), tmp_path / "demo.tbstore"
    tracebraid.pack(demo, store)
    queries = (
        "select * from host_ops order by all",
        "select * from et.tensors order by all",
        "select * from links.host_links order by all",
        "select * from waits order by all",
        "select * from ops order by all",
        "select name, sum(dur_ns) as ns from events where rank = 1 group by all order by all",
        "select * from answers.collective_ranks order by all",
    )
    traces, stored = tracebraid.open(demo), tracebraid.open(store)
    for query in queries:
        assert stored.sql(query).equals(traces.sql(query)), query
    one = tracebraid.open(store, ranks="1")
    assert one.sql("select distinct rank from events").rows() == [(1,)]


def test_no_ranks_are_no_rows(tmp_path: Path, traces: Path) -> None:
    linked = tracebraid.open(traces)[0]
    assert tracebraid.sql(linked, "select distinct rank from events").rows() == [(0,)]
    assert tracebraid.sql(linked, "select * from nodes").height == 0


def test_ctrl_c_ends_a_query(traces: Path) -> None:
    slow = "select count(*) from range(1000000) a, range(10000000) b where (a.range * b.range) % 7 = 3"
    command = [sys.executable, "-m", "tracebraid", "sql", str(traces), slow]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(4)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode not in (0, None)
    assert (out, "Traceback" in err) == ("", False)


def test_it_prints_nothing_but_the_answer(traces: Path) -> None:
    done = run_process("sql", traces, "select rank from steps group by rank order by rank", "--csv")
    assert done == (0, "rank\n0\n1\n", "")


def test_without_duckdb_the_error_says_what_to_install(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install 'tracebraid[sql]'" in fail("sql", traces, STEPS)
