"""Hostile names and folders come out of every form of every command as the text that they are."""

from __future__ import annotations

import csv
import gzip
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as ET

import polars as pl
import pytest

import tracebraid
from tests.builders import et_text, node, process_node, thread_node, write
from tests.hostile.every_command import BASES, ENDED_BY_OTHERS, forms, named_commands
from tests.hostile.hostile_names import FOLDER, FORGED, FORMULAS, LONG, NAMES, hostile_ranks, steering
from tests.integration.command import run
from tests.planted import PlannedJob
from tracebraid import ExportOptions
from tracebraid.chakra import ChakraOptions
from tracebraid.errors import InputError
from tracebraid.model.finding_code import FindingCode

RUN = tuple("=+-@\t\r\N{FULLWIDTH EQUALS SIGN}")
"""What begins a formula."""
MARKUP = ("<script>globalThis", "<img src=x", "<svg><script")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What commands read: the traces of a job in a folder of a hostile name, and what was made of them."""
    root = tmp_path_factory.mktemp("hostile")
    job = root / FOLDER
    job.mkdir()
    hostile_ranks(job)
    for arguments in (
        ("link", job, "-o", root / "plus"),
        ("export", job, "--to", "chakra", "-o", root / "nodes"),
    ):
        assert run(*arguments).returncode == 0
    pair = {"et": job / "torch_et_0.json", "kineto": job / "kineto_trace_0.json"}
    made = {"plus": root / "plus" / "et_plus_0.json", "nodes": root / "nodes" / "job.0.et"}
    return {"job": job, **pair, **made}


def test_every_command_is_here() -> None:
    assert sorted({*BASES, *ENDED_BY_OTHERS}) == sorted(named_commands())


@pytest.mark.full(keep=3)
@pytest.mark.parametrize("command", BASES)
def test_no_name_steers_what_shows_it(
    command: str, inputs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, form in enumerate(forms(command)):
        out = None if form.suffix is None else tmp_path / f"{number}\x1b\n{FORGED}{form.suffix}"
        done = run(*form.line(inputs, out))
        assert done.returncode == (1 if command == "check" else 0), (form, done.stderr)
        harmless(done.stderr)
        if "--json" in form.arguments:
            parsed(done.stdout)
        if "--csv" in form.arguments:
            no_formula(done.stdout.encode())
        else:
            harmless(done.stdout)
        for path in files(out):
            check(path)
    names = [path.name for path in tmp_path.iterdir()]
    assert not [name for name in names if name.startswith((".", "ran"))], "what is left"


def harmless(printed: str) -> None:
    assert steering(printed) == set()
    assert not [line for line in printed.splitlines() if line.startswith(FORGED)]


def check(path: Path) -> None:
    """Check a file by the end of its name."""
    for suffix, valid in VALID.items():
        if path.name.endswith(suffix):
            valid(path.read_bytes())


def files(out: Path | None) -> Iterator[Path]:
    if out is not None:
        yield from (path for path in (out, *out.rglob("*")) if path.is_file())


def parsed(text: str | bytes) -> None:
    def no_number(text: str) -> None:
        raise AssertionError(text)

    json.loads(text, parse_constant=no_number)


def shown(content: bytes) -> str:
    """The text of a picture or page, in which nothing steers and nothing runs."""
    text = content.decode()
    assert steering(text) == set()
    assert not [markup for markup in MARKUP if markup in text]
    return text


def labels(content: bytes) -> None:
    """The captions of a graph in DOT are harmless; its other attributes, which tools read, hold the exact names."""
    found = re.findall(r'label=("(?:[^"\\]|\\.)*")', content.decode(), re.DOTALL)
    assert found
    harmless("\n".join(found))


def jsons(content: bytes) -> None:
    """One JSON document, or several with nothing between them, as Chakra's jsonizer writes them."""
    text, at = content.decode().strip(), 0
    while at < len(text):
        _, at = json.JSONDecoder(parse_constant=int).raw_decode(text, at)


def formulas(text: str) -> list[str]:
    """The cells of CSV that a spreadsheet runs; numbers are none."""
    cells = [cell for row in csv.reader(StringIO(text, newline="")) for cell in row]
    return [cell for cell in cells if cell.startswith(RUN) and not is_number(cell)]


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def no_formula(content: bytes) -> None:
    assert formulas(content.decode()) == []


def stacks(content: bytes) -> None:
    """Each line of collapsed stacks ends in its weight, so that no name added a line."""
    assert {line.rpartition(" ")[2].isdecimal() for line in content.decode().split("\n") if line} == {True}


VALID: dict[str, Callable[[bytes], object]] = {
    ".csv": no_formula,
    ".json": jsons,
    ".json.gz": lambda content: jsons(gzip.decompress(content)),
    ".html": shown,
    ".svg": lambda content: ET.fromstring(shown(content)),
    ".graphml": ET.fromstring,
    ".dot": labels,
    ".txt": stacks,
    ".parquet": pl.read_parquet,
    ".arrow": pl.read_ipc,
}
"""What is wrong with a file of that ending, as an error."""


def test_the_check_of_formulas_bites() -> None:
    assert formulas('a,-1,"=1+1",\'=2\n-1.5e3,@x,"\t=1"') == ["=1+1", "@x", "\t=1"]


@pytest.mark.parametrize(
    "arguments", [("analyze", "ops", "{job}", "--annotation"), ("analyze", "ops", "{job}", "--step")]
)
def test_wrong_usage_lists_names_that_steer_nothing(
    inputs: dict[str, Path], arguments: tuple[str, ...]
) -> None:
    done = run(*(str(inputs["job"]) if part == "{job}" else part for part in arguments), "none")
    assert done.returncode == 2
    harmless(done.stderr)


@pytest.mark.full
def test_json_and_databases_have_the_exact_names(inputs: dict[str, Path], tmp_path: Path) -> None:
    rows = json.loads(run("analyze", "kernels", inputs["job"], "--json").stdout)
    target = tmp_path / "job.sqlite"
    assert run("export", inputs["job"], "--to", "sqlite", "-o", target).returncode == 0
    with closing(sqlite3.connect(target)) as database:
        stored = {name for (name,) in database.execute("select name from answers_kernels")}
        tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    assert {row["name"] for row in rows} > {*NAMES.values()}
    assert max(len(row["name"]) for row in rows) == LONG
    assert stored > {*NAMES.values()}
    assert {"answers_kernels", "timeline_events", "et_nodes"} <= tables


def test_names_are_no_markup_of_a_terminal(inputs: dict[str, Path]) -> None:
    printed = run("analyze", "kernels", inputs["job"], "--top", "100", COLUMNS="200").stdout
    assert NAMES["markup"] in printed


def test_csv_has_each_name_with_an_apostrophe_before_a_formula(inputs: dict[str, Path]) -> None:
    text = run("analyze", "kernels", inputs["job"], "--csv").stdout
    names = {cell for row in csv.reader(StringIO(text, newline="")) for cell in row}
    assert {f"'{name}" if name in FORMULAS.values() else name for name in NAMES.values()} < names


# --- Exports of jobs of which a rank can be read in part only: it is left out, and what is said ------


@pytest.fixture
def another_program(tmp_path: Path) -> Path:
    """Two ranks; the Execution Trace of rank 1 is of another program."""
    job = PlannedJob(2)
    with job.step(1):
        for _ in range(30):
            job.compute(10_000)
        job.collective(transfer=50_000)
    folder = tmp_path / "job"
    folder.mkdir()
    job.write(folder)
    strange = [node(3 + number, f"strange::op{number}", 2, rf_id=0) for number in range(40)]
    write(folder / "torch_et_1.json", et_text([process_node(), thread_node(), *strange]))
    return folder


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("to", ["chrome", "perfetto"])
def test_a_timeline_leaves_out_a_rank_with_the_trace_of_another_program(
    another_program: Path, tmp_path: Path, to: str
) -> None:
    done = tracebraid.export(tracebraid.open(another_program, unreadable="skip"), tmp_path / "made", to)
    left_out = [found for found in done.findings if found.code is FindingCode.RANK_UNREADABLE]
    assert [Path(found.path).name for found in left_out] == ["torch_et_1.json"]


def test_chakra_nodes_of_a_rank_with_the_trace_of_another_program_are_refused_by_its_name(
    another_program: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        tracebraid.export(tracebraid.open(another_program, unreadable="skip"), tmp_path / "made", "chakra")
    assert Path(caught.value.path).name == "torch_et_1.json"
    assert not (tmp_path / "made").exists()


def test_chakra_nodes_of_steps_that_a_rank_lacks_are_refused_by_its_name(tmp_path: Path) -> None:
    job = PlannedJob(2, windows={1: (2, 3)})
    for number in (1, 2, 3):
        with job.step(number):
            job.compute(100_000)
            job.collective(transfer=50_000)
    options = ExportOptions(chakra=ChakraOptions(steps="1", allow_alone=True))
    with pytest.raises(InputError) as caught:
        tracebraid.export(tracebraid.open(job.write(tmp_path)), tmp_path / "made", "chakra", options)
    assert Path(caught.value.path).name == "kineto_trace_1.json"
