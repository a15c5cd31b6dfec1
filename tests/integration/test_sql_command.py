"""`tracebraid sql`: tables for people, files for machines, and what is wrong with a query."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.integration.command import fail, run, run_process, succeed
from tests.planted import write_ranks
from tests.planted.scenes import clean
from tests.waiting import HANG_S, wait_for
from tracebraid.cli.table_output import Format, Target, write_rows
from tracebraid.queries.database import QueryLimits, database
from tracebraid.queries.engine import arrow_file
from tracebraid.reports.machine import rows_json


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return write_ranks(folder, [clean(rank=rank, world_size=2) for rank in range(2)])


STEPS = "select rank, step, end_ns - start_ns as ns, [rank, 1] as list from steps order by rank, step"


@pytest.mark.full
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


@pytest.mark.full
def test_people_get_the_first_rows_and_are_told_that_there_are_more(traces: Path) -> None:
    text = succeed("sql", traces, "select name from events order by ts_ns, event_id", "--top", 3)
    assert len(text.split("There are more rows")[0].strip().splitlines()) == 2 + 3
    assert "There are more rows" not in succeed("sql", traces, STEPS)
    assert "No rows" in succeed("sql", traces, "select * from steps where rank > 7")


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


@pytest.mark.full(keep=1)
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


@pytest.mark.full
def test_a_rank_that_cannot_be_read_is_named_and_the_others_answer(traces: Path) -> None:
    path = next(traces.glob("*1.json"))
    path.write_text("no trace")
    done = run("sql", traces, "select distinct rank from events", "--csv")
    assert (done.returncode, done.stdout.split()) == (1, ["rank", "0"])
    assert path.name in done.stderr
    with pytest.raises(tracebraid.InputError):
        tracebraid.open(traces).sql("select 1 from events")


@pytest.mark.full
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


@pytest.mark.full
def test_no_ranks_are_no_rows(tmp_path: Path, traces: Path) -> None:
    linked = tracebraid.open(traces)[0]
    assert tracebraid.sql(linked, "select distinct rank from events").rows() == [(0,)]
    assert tracebraid.sql(linked, "select * from nodes").height == 0


ENDLESS = "select count(*) from range(1000000) a, range(10000000) b where (a.range * b.range) % 7 = 3"
MAIN = "import runpy; runpy.run_module('tracebraid', run_name='__main__', alter_sys=True)"
IGNORED = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {MAIN}"
"""As a shell starts what it runs in the background."""
TAKEN = f"""
import ctypes, tracebraid.ctrl_c as ctrl_c
take_back, ctypes_signal, taken = ctrl_c.take_back, ctypes.CDLL(None).signal, []
def taking_first():
    if not taken:
        taken.append(ctypes_signal(2, 1))
    take_back()
ctrl_c.take_back = taking_first
{MAIN}
"""
"""A library puts a handler in the place of Python's while the query runs, and calls no other."""


@pytest.mark.full
@pytest.mark.parametrize("program", [MAIN, IGNORED, TAKEN], ids=["usual", "ignored", "taken"])
def test_ctrl_c_ends_a_query(traces: Path, program: str) -> None:
    command = [
        sys.executable,
        "-c",
        f"import signal; signal.signal(2, signal.default_int_handler); {program}",
    ]
    with subprocess.Popen(
        [*command, "sql", str(traces), ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            engine = running_child(process.pid)
            os.kill(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=HANG_S)
        finally:
            process.kill()
    assert (process.returncode, out, err.strip()) == (130, "", "interrupted")
    assert not engine.exists()


def running_child(pid: int) -> Path:
    """The process that a process has started, once that has computed for a while."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    wait_for(children.read_text)
    child = Path("/proc") / children.read_text().split()[0]

    def used_ticks() -> int:
        return int((child / "stat").read_text().rpartition(")")[2].split()[11])

    wait_for(lambda: used_ticks() > 2 * os.sysconf("SC_CLK_TCK"))
    return child


@pytest.mark.full
@pytest.mark.parametrize("query", ["select range(1000000000)", "select repeat('x', 3000000000)"])
def test_a_query_that_needs_too_much_memory_is_refused_it(traces: Path, query: str) -> None:
    command = [sys.executable, "-m", "tracebraid", "sql", str(traces), query, "--memory", "64"]
    program = (
        f"import resource, subprocess; done = subprocess.run({command!r}, capture_output=True, text=True); "
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10, done.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    code, peak_mib, error = done.stdout.split(" ", 2)
    assert code == "1"
    assert int(peak_mib) < 600
    assert "64 MiB" in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("form", "rows", "memory_mib"),
    [
        ("csv", 600_000, 16),
        pytest.param("json", 600_000, 16, marks=pytest.mark.full),
        pytest.param("parquet", 600_000, 16, marks=pytest.mark.full),
        pytest.param("csv", 6_000_000, 256, marks=pytest.mark.full),
    ],
)
def test_a_result_larger_than_the_memory_of_its_query_is_written(
    traces: Path, tmp_path: Path, form: str, rows: int, memory_mib: int
) -> None:
    """A row has 40 bytes and more."""
    out = tmp_path / f"rows.{form}"
    query = f"select range, md5(range::varchar) as text from range({rows})"
    assert succeed("sql", traces, query, "--memory", memory_mib, "-o", out) == ""
    read: dict[str, Callable[[Path], pl.DataFrame]] = {
        "csv": pl.read_csv,
        "json": pl.read_json,
        "parquet": pl.read_parquet,
    }
    found = read[form](out)
    assert (found.height, found["range"].sum()) == (rows, rows * (rows - 1) // 2)
    assert found["text"].n_unique() == rows


def test_a_result_larger_than_the_temporary_space_is_refused(tmp_path: Path) -> None:
    limits = QueryLimits(memory_bytes=64 << 20, spill_bytes=1 << 20)
    with database(limits) as engine:
        engine.open(tmp_path / "scratch", [])
        assert sum(rows.height for rows in engine.answer("select 1 from range(100)")) == 100
        with pytest.raises(tracebraid.errors.QueryError, match="temporary space"):
            engine.answer("select md5(range::varchar) as m from range(300000)")


def test_slices_that_find_no_memory_are_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars says that the buffer cannot grow."""

    def refused(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(pl.DataFrame, "write_ipc", refused)
    with pytest.raises(MemoryError):
        arrow_file(pl.DataFrame({"a": [1]}))


@pytest.mark.full
def test_a_result_of_many_slices_is_the_same_in_every_form(traces: Path, tmp_path: Path) -> None:
    query = (
        "select range as a, '=' || range as b, [range] as c, sum(range) over (order by range) as d, "
        "case when range > 15000 then 9223372036854775807::hugeint * range end as e, 1.5 as f, "
        "null as g, 'x'::enum('x', 'y') as h from range(20000) order by a desc"
    )
    wanted = tracebraid.open(traces).sql(query)
    assert (wanted.height, wanted["a"].to_list()) == (20000, list(range(19999, -1, -1)))
    assert wanted.schema["d"] == pl.Int64
    assert wanted.schema["e"] == pl.Decimal(38, 0)
    outs = {form: tmp_path / f"rows.{form}" for form in ("csv", "json", "parquet")}
    for out in outs.values():
        succeed("sql", traces, query, "-o", out)
    assert pl.read_parquet(outs["parquet"]).equals(wanted)
    rows = json.loads(outs["json"].read_text())
    assert [row["a"] for row in rows] == wanted["a"].to_list()
    assert [row["c"] for row in rows] == wanted["c"].to_list()
    assert outs["json"].read_bytes() == rows_json(wanted)
    lines = outs["csv"].read_text().splitlines()
    assert len(lines) == 1 + wanted.height
    assert lines[1].startswith("19999,'=19999,[19999],")
    assert json.loads(succeed("sql", traces, "select 1 as a from range(0)", "--json")) == []
    assert succeed("sql", traces, "select 1 as a from range(0)", "--csv") == "a\n"


@pytest.mark.full
def test_a_slice_of_narrow_columns_has_no_more_values_than_one_of_wide_columns(tmp_path: Path) -> None:
    """A million bits are 128 KiB, and a million objects of Python as JSON."""
    with database(QueryLimits()) as engine:
        engine.open(tmp_path, [])
        slices = [*engine.answer("select range % 2 = 0 as a, range % 3 = 0 as b from range(1000000)")]
    assert sum(rows.height for rows in slices) == 1_000_000
    assert max(rows.height * rows.width for rows in slices) <= 1 << 18
    assert len(slices) < 20


@pytest.mark.parametrize("form", [Format.CSV, Format.JSON, Format.PARQUET])
def test_a_result_that_fails_on_its_way_leaves_no_file(form: Format, tmp_path: Path) -> None:
    def slices() -> Iterator[pl.DataFrame]:
        yield from [pl.DataFrame({"a": [1]})] * 3
        raise tracebraid.errors.QueryError("it needs more", "Ask for fewer rows")

    with pytest.raises(tracebraid.errors.QueryError):
        write_rows(slices(), Target(form, tmp_path / f"rows.{form.value}"))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.full
def test_it_prints_nothing_but_the_answer(traces: Path) -> None:
    done = run_process("sql", traces, "select rank from steps group by rank order by rank", "--csv")
    assert done == (0, "rank\n0\n1\n", "")


def test_without_duckdb_the_error_says_what_to_install(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install 'tracebraid[sql]'" in fail("sql", traces, STEPS)
