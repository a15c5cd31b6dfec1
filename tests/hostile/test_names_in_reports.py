"""Hostile names come out of every report and export as the text that they are."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path

import polars as pl
import pytest

import tracebraid
from tests.hostile.hostile_names import FORMULAS, LONG, NAMES, hostile_job, steering
from tests.integration.command import run, succeed

KERNELS = {*NAMES.values()}
RUN = tuple("=+-@\t\r\N{FULLWIDTH EQUALS SIGN}")
"""What begins a formula."""
COMMANDS = [
    ("info",),
    ("check",),
    ("link",),
    ("summary",),
    ("advise",),
    ("metrics",),
    ("critical-path",),
    ("what-if", "--sweep"),
    *(
        ("analyze", name, "--top", "100")
        for name in ("kernels", "ops", "modules", "python_frames", "memory_at_peak")
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_job(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def exports(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the exports `csv`, `json` and `sqlite`."""
    target = tmp_path_factory.mktemp("exports")
    job = tracebraid.open(folder)
    for form in ("csv", "json", "sqlite"):
        tracebraid.export(job, target / form, form)
    return target


def cells(text: str) -> Iterator[str]:
    """All cells of CSV."""
    for row in csv.reader(StringIO(text, newline="")):
        yield from row


def formulas(text: str) -> list[str]:
    """The cells of CSV that a spreadsheet runs; numbers are none."""
    return [cell for cell in cells(text) if cell.startswith(RUN) and not is_number(cell)]


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_name_steers_a_terminal(folder: Path, arguments: tuple[str, ...]) -> None:
    done = (
        run(arguments[0], *arguments[1:2], folder, *arguments[2:])
        if arguments[0] == "analyze"
        else run(arguments[0], folder, *arguments[1:])
    )
    assert done.stdout
    assert steering(done.stdout + done.stderr) == set()


def test_names_are_no_markup_of_a_terminal(folder: Path) -> None:
    assert NAMES["markup"] in succeed("analyze", "kernels", folder, "--top", "100", COLUMNS="200")


def test_json_has_the_exact_names(folder: Path) -> None:
    rows = json.loads(succeed("analyze", "kernels", folder, "--json"))
    assert {row["name"] for row in rows} == KERNELS


def test_csv_has_the_names_and_no_formula(folder: Path) -> None:
    text = succeed("analyze", "kernels", folder, "--csv")
    assert formulas(text) == []
    assert KERNELS - set(FORMULAS.values()) < set(cells(text))
    assert {f"'{name}" for name in FORMULAS.values()} < set(cells(text))


def test_the_check_of_formulas_bites() -> None:
    assert formulas('a,-1,"=1+1",\'=2\n-1.5e3,@x,"\t=1"') == ["=1+1", "@x", "\t=1"]


def test_exported_csv_has_no_formula(exports: Path) -> None:
    files = sorted((exports / "csv").glob("*.csv"))
    assert len(files) > 50
    with_formulas = {path.name: found for path in files if (found := formulas(path.read_bytes().decode()))}
    assert with_formulas == {}


def test_exported_json_has_the_exact_names(exports: Path) -> None:
    rows = json.loads((exports / "json" / "answers_kernels.json").read_bytes())
    assert {row["name"] for row in rows} == KERNELS


def test_a_database_has_the_exact_names_and_all_its_tables(exports: Path) -> None:
    with closing(sqlite3.connect(exports / "sqlite")) as database:
        names = {name for (name,) in database.execute("select name from answers_kernels")}
        tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    assert names == KERNELS
    assert {"answers_kernels", "timeline_events", "et_nodes"} <= tables


def test_the_longest_name_is_whole(folder: Path) -> None:
    names = tracebraid.kernels(tracebraid.open(folder)).get_column("name").cast(pl.String)
    assert names.str.len_chars().max() == LONG
