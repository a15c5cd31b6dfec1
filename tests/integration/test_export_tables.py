"""`export` of all tables: every format holds what the tables hold, whole or not at all."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.builders import call, et_text, kernel, kineto_text, node, op, write
from tests.integration.command import run, write_pair
from tests.unit.linking.made import et_of
from tracebraid.errors import ArgumentError, OutputError
from tracebraid.exporters.tables import ExportedTable
from tracebraid.model.export_format import ExportFormat, fits

HOSTILE = "=cmd|' /C calc'!A0</script>\u202e\U0001f600\x1b[31m\n" + "x" * 10_000
FOLDERS = ["parquet", "arrow", "csv", "json"]
FORMATS = [*FOLDERS, "sqlite"]


def events_of(rank: int) -> list[dict[str, Any]]:
    return [
        op("ProfilerStep#1", 0, 100, cat="user_annotation", Record_function_id=4),
        op(HOSTILE, 10 + rank, 50, Record_function_id=5, Input_Dims=[[2, 3], [3, 4]]),
        call("cudaLaunchKernel", 20, 5, 7),
        kernel(HOSTILE, 140, 10, 7, grid=[1, 2, 3]),
        op("ProfilerStep#2", 100, 100, cat="user_annotation"),
        op("aten::relu", 110, 20),
        call("cudaLaunchKernel", 112, 5, 8),
        kernel("lost", 160, 30, 99),
        kernel("relu", 190, 30, 8),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("job")
    nodes = et_of(node(19, "ProfilerStep#1", 1001, rf_id=4), node(20, HOSTILE, 19, rf_id=5))
    for rank in range(2):
        header = {"distributedInfo": {"rank": rank, "world_size": 2}}
        write(made / f"torch_et_{rank}.json", et_text(nodes))
        write(made / f"kineto_trace_{rank}.json", kineto_text(events_of(rank), header))
    return made


@pytest.fixture(scope="module")
def exports(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("out")
    job = tracebraid.open(folder)
    done = {name: tracebraid.export(job, out / name, name) for name in FORMATS}
    assert len({found.rows for found in done.values()}) == 1
    for found in done.values():
        files = [path for path in found.path.rglob("*") if path.is_file()] or [found.path]
        assert (found.files, found.size_bytes) == (len(files), sum(file.stat().st_size for file in files))
    return {name: found.path for name, found in done.items()}


def catalog(path: Path) -> dict[str, dict[str, Any]]:
    tables = json.loads((path / "schema.json").read_text())["tables"]
    return {table["name"]: table for table in tables}


def database(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def flat(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Rows with lists as JSON text."""
    return [
        tuple(json.dumps(v, separators=(",", ":")) if isinstance(v, list) else v for v in row)
        for row in frame.rows()
    ]


def in_files(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of the model with the types that files have."""
    types: dict[type[pl.DataType], pl.DataType] = {
        pl.Categorical: pl.String(),
        pl.Array: pl.List(pl.Int64()),
    }
    return frame.with_columns(
        pl.col(name).cast(to)
        for name, dtype in frame.schema.items()
        for of, to in types.items()
        if isinstance(dtype, of)
    )


@pytest.mark.full
def test_the_timeline_the_links_and_the_nodes_are_those_of_the_model(
    folder: Path, exports: dict[str, Path]
) -> None:
    job = tracebraid.open(folder)
    et = job[0].et
    assert et is not None
    tables = {
        "timeline_events": job[1].timeline.events,
        "timeline_device_work": job[1].timeline.device_work,
        "links_host_tree": job[1].host_tree,
        "links_host_links": job[1].host_links,
        "links_device_links": job[1].device_links,
        "links_dependencies": job[1].dependencies,
        "et_nodes": et.nodes,
    }
    for name, expected in tables.items():
        rank = 0 if name == "et_nodes" else 1
        frame = pl.read_parquet(exports["parquet"] / f"{name}.parquet").filter(pl.col("rank") == rank)
        assert frame.height == expected.height > 0
        assert frame.drop("rank").equals(in_files(expected), null_equal=True)


@pytest.mark.full
def test_the_answers_are_those_of_the_analyses(folder: Path, exports: dict[str, Path]) -> None:
    job = tracebraid.open(folder)
    for analysis in tracebraid.analyses.catalog():
        expected = tracebraid.analyze(analysis.name, job).frame
        frame = pl.read_parquet(exports["parquet"] / f"answers_{analysis.table.name}.parquet")
        assert frame.equals(in_files(expected), null_equal=True), analysis.name


@pytest.mark.full
def test_every_format_holds_the_same_rows(exports: dict[str, Path]) -> None:
    tables = catalog(exports["parquet"])
    assert len(tables) > 100
    for name, table in tables.items():
        frame = pl.read_parquet(exports["parquet"] / f"{name}.parquet")
        assert frame.height == table["rows"]
        assert pl.read_ipc(exports["arrow"] / f"{name}.arrow").equals(frame, null_equal=True)
        rows = json.loads((exports["json"] / f"{name}.json").read_text(encoding="utf-8"))
        assert rows == frame.to_dicts()
        with (exports["csv"] / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            head, *lines = csv.reader(file)
        assert (head, len(lines)) == (frame.columns, frame.height)
        assert database(exports["sqlite"], f'SELECT * FROM "{name}"') == flat(frame)
    assert {path.stem for path in exports["parquet"].glob("*.parquet")} == set(tables)
    listed = database(exports["sqlite"], "SELECT name, rows FROM tables")
    assert listed == [(name, table["rows"]) for name, table in tables.items()]


@pytest.mark.full
def test_a_table_has_one_name_and_every_column_a_meaning(exports: dict[str, Path]) -> None:
    from tracebraid.api.exports.tables import ALL_TABLES

    names = [table.name for table in ALL_TABLES]
    assert len(names) == len(set(names))
    assert all(isinstance(table, ExportedTable) and table.doc for table in ALL_TABLES)
    docs = [column["doc"] for table in catalog(exports["csv"]).values() for column in table["columns"]]
    assert all(docs)


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("to", FORMATS)
def test_the_same_job_is_the_same_bytes(
    folder: Path, exports: dict[str, Path], tmp_path: Path, to: str
) -> None:
    tracebraid.export(tracebraid.open(folder), tmp_path / to, to)
    first = [exports[to], *sorted(exports[to].rglob("*"))]
    second = [tmp_path / to, *sorted((tmp_path / to).rglob("*"))]
    assert [path.read_bytes() for path in first if path.is_file()] == [
        path.read_bytes() for path in second if path.is_file()
    ]


def test_of_a_step_there_are_its_events_and_its_work(folder: Path, tmp_path: Path) -> None:
    options = tracebraid.ExportOptions(rank=1, step="1")
    tracebraid.export(tracebraid.open(folder), tmp_path / "a", "parquet", options)
    read = {path.stem: pl.read_parquet(path) for path in (tmp_path / "a").glob("*.parquet")}
    names = read["timeline_events"].get_column("name").to_list()
    assert sorted(names) == sorted(["ProfilerStep#1", HOSTILE, "cudaLaunchKernel", HOSTILE])
    assert read["timeline_events"].get_column("rank").unique().to_list() == [1]
    assert read["links_launches"].height == read["timeline_device_work"].height == 1
    assert read["answers_kernels"].get_column("step").to_list() == ["ProfilerStep#1"]


@pytest.mark.parametrize("wrong", [{"step": "9"}, {"rank": 7}])
def test_what_is_not_there_is_an_error_and_leaves_nothing(
    folder: Path, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ArgumentError):
        tracebraid.export(tracebraid.open(folder), tmp_path / "a", "csv", tracebraid.ExportOptions(**wrong))
    assert list(tmp_path.iterdir()) == []


def test_a_step_of_an_annotation_that_is_not_there_is_an_error_and_leaves_nothing(
    folder: Path, tmp_path: Path
) -> None:
    job = tracebraid.open(folder, annotation="none")
    with pytest.raises(ArgumentError, match="no step is marked by none"):
        tracebraid.export(job, tmp_path / "a", "csv", tracebraid.ExportOptions(step="1"))
    assert list(tmp_path.iterdir()) == []


def test_a_rank_that_cannot_be_read_is_left_out_and_named(folder: Path, tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        write_pair(tmp_path / "job", rank)
    (tmp_path / "job" / "kineto_trace_1.json").write_bytes(b"")
    (tmp_path / "job" / "torch_et_2.json").write_bytes(b"{")
    done = run("export", tmp_path / "job", "--to", "parquet", "-o", tmp_path / "out")
    assert done.returncode == 1
    assert done.stdout == ""
    events = pl.read_parquet(tmp_path / "out" / "timeline_events.parquet")
    assert events.get_column("rank").unique().to_list() == [0]
    codes = pl.read_parquet(tmp_path / "out" / "run_findings.parquet").get_column("code").to_list()
    assert codes.count("rank-unreadable") == 2


@pytest.mark.parametrize("to", FORMATS)
def test_a_target_that_is_there_is_refused_before_anything_is_read(tmp_path: Path, to: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("kept")
    for name in ("there", "file", "none/a"):
        done = run("export", tmp_path / "no traces", "--to", to, "-o", tmp_path / name)
        assert done.returncode == 1
        assert str(tmp_path / name) in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]
    assert (tmp_path / "file").read_text() == "kept"


def test_the_library_refuses_it_too(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        tracebraid.export(tracebraid.open(folder), tmp_path, "csv")


def test_the_command_says_what_it_wrote(folder: Path, tmp_path: Path) -> None:
    done = run("export", folder, "--to", "csv", "-o", tmp_path / "tables", "--step", "1")
    assert (done.returncode, done.stdout) == (0, "")
    assert str(tmp_path / "tables") in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("a.json", "csv"),
        ("a.csv", "perfetto"),
        ("a.gz", "sqlite"),
        ("a.pftrace", "chrome"),
        ("a.html", "dot"),
    ],
)
def test_a_name_that_says_another_format_is_wrong_usage(tmp_path: Path, name: str, to: str) -> None:
    done = run("export", tmp_path, "--to", to, "-o", tmp_path / name)
    assert done.returncode == 2
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("to", ExportFormat)
def test_the_names_of_a_format_fit_it(to: ExportFormat) -> None:
    assert to.suffixes
    assert all(fits(f"run{suffix}", to) for suffix in to.suffixes)
    assert fits("run-3.1", to)


def test_headers_are_exported_in_one_order(tmp_path: Path) -> None:
    """The order of the members of a header means nothing."""
    forms = {
        "first": {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "x"}], "a": {"c": 1, "b": 2}},
        "same": {"a": {"b": 2, "c": 1}, "deviceProperties": [{"name": "x", "id": 0}], "schemaVersion": 1},
    }
    found = []
    for name, members in forms.items():
        text = json.dumps({**members, "traceEvents": [op("aten::mm", 0, 5)]})
        path = write(tmp_path / f"{name}_0.json", text)
        tracebraid.export(tracebraid.open(path), tmp_path / f"{name}.sqlite", "sqlite")
        with closing(sqlite3.connect(tmp_path / f"{name}.sqlite")) as connection:
            found.append(connection.execute("select key, value from run_headers order by rowid").fetchall())
    assert len(found[0]) == 3
    assert found[0] == found[1]
