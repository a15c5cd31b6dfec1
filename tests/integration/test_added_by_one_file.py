"""One file adds an analysis or a detector: every list, command, page, store and query has it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ANALYSIS = '''
import polars as pl

from tracebraid.model.analysis import Family, OnPage, Stored, analysis
from tracebraid.model.column import Column, Kind, Table

EVENT_COUNTS = Table(
    "event_counts",
    "One row per rank.",
    (Column("rank", Kind.INT, "the rank"), Column("events", Kind.INT, "its events")),
)


@analysis(EVENT_COUNTS, Family.OPS, shown="events", on_page=OnPage(section="tables-ops"), stored=Stored.ALWAYS)
def event_counts(linked):
    """How many events are there?

    Events of the Kineto trace: `EVENT_COUNTS`.

    Args:
        linked: one rank.
    """
    rows = pl.DataFrame({"rank": [linked.rank], "events": [linked.timeline.events.height]})
    return EVENT_COUNTS.conform(rows)
'''

DETECTOR = """
import polars as pl

from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.category import Role
from tracebraid.model.questions import Detector, Removal


def _detect(linked):
    ops = linked.timeline.of_role(Role.OP).filter(pl.col("name").cast(pl.String) == "aten::mm")
    return EVIDENCE.conform(
        ops.select(
            "event_id",
            pl.col("ts_ns").alias("start_ns"),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
            pl.col("dur_ns").alias("saving_ns"),
            pl.col("name").cast(pl.String).alias("op"),
        ),
        fill_missing=True,
    )


PRODUCTS = Detector("any-product", "there are products", "Leave them out", _detect, removes=Removal.RUN)
"""

PATH_DETECTOR = """
import polars as pl

from tracebraid.model.answers.job import EVIDENCE
from tracebraid.model.questions import PathDetector, Removal


def _detect(graph, segments):
    ops = graph.activities.filter(pl.col("name").cast(pl.String) == "aten::mm", pl.col("event_id").is_not_null())
    times = graph.ranks.unaligned(ops, "start_ns", "end_ns")
    saving = (pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns")
    return EVIDENCE.conform(
        times.select("rank", "step", "start_ns", "end_ns", saving, "event_id"), fill_missing=True
    )


PRODUCTS = PathDetector("product-on-path", "products are waited for", "Leave them out", _detect, removes=Removal.RUN)
"""

METRIC = """
import polars as pl

from tracebraid.analysis.metrics.memory import values_over_ranks
from tracebraid.model.questions import Metric, OverRanks, Unit


def _events(linked):
    return pl.DataFrame({"rank": [linked.rank], "value": [float(linked.timeline.events.height)]})


def _measure(ranks, options):
    return values_over_ranks(ranks.of(_events), OverRanks.SUM)


EVENTS = Metric("events_read", Unit.COUNT, "events of the Kineto trace", OverRanks.SUM, _measure, (_events,))
"""

CHANGE = '''
from tracebraid.simulation.changes.communication import scaled
from tracebraid.simulation.changes.verbs import verb


@verb("halve")
def halved(graph, chosen):
    """Halve the duration of each event."""
    return scaled.apply(graph, chosen, 0.5)
'''

COMMAND = '''
from typing import Annotated

import tracebraid
from tracebraid.cli.commands import Extra, Group, command
from tracebraid.cli.output import say_findings
from tracebraid.cli.parameters import Argument
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode


@command(Group.LOOK, 1, Extra.SQL)
def find_more(path: Annotated[str, Argument(help="A trace.")]) -> None:
    """Find what was added."""
    answer = tracebraid.analyses.event_counts(tracebraid.open(path))
    say_findings([Finding.of(FindingCode.ADDED, path, "", number=answer.height)])
'''

WRITER = """
from tracebraid.api.exports.export import Exported


def write_ranks(job, path, options):
    path.write_text(",".join(map(str, job.ranks)))
    return Exported.of(path, len(job.ranks))
"""

FILES = {
    "tracebraid.analysis": ANALYSIS,
    "tracebraid.analysis.antipatterns": DETECTOR,
    "tracebraid.analysis.metrics": METRIC,
    "tracebraid.graph": PATH_DETECTOR,
    "tracebraid.simulation.changes": CHANGE,
    "tracebraid.cli": COMMAND,
    "tracebraid.api.exports": WRITER,
}
"""A file for each package that finds what its modules declare."""

DECLARATIONS = {
    "tracebraid.model.finding_code": (
        "    NOT_A_TRACE =",
        '    ADDED = "added", _ERROR, "the number is {number}", "Count again"',
    ),
    "tracebraid.model.export_format": (
        "    CHROME =",
        '    RANKS = "ranks", "the ranks", "find_more:write_ranks", ".ranks"',
    ),
    "tracebraid.model.category": ("    CPU_OP =", '    NPU_OP = "npu_op", Role.DEVICE_WORK, "npu"'),
}
"""The line that a declaration stands before, and the declaration."""

RUN = """
import importlib, importlib.util, json, sys
from pathlib import Path

folder = Path(sys.argv[1])
for name, (before, line) in json.loads((folder / "declarations.json").read_text()).items():
    spec = importlib.util.find_spec(name)
    source = spec.loader.get_source(name)
    assert source.count(before) == 1
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    exec(compile(source.replace(before, line + chr(10) + before), spec.origin, "exec"), vars(module))
    setattr(sys.modules[spec.parent], name.rpartition(".")[2], module)
for added in folder.iterdir():
    if added.is_dir():
        importlib.import_module(added.name).__path__.append(str(added))
sys.argv = ["tracebraid", *sys.argv[2:]]
from tracebraid.cli.main import run
run()
"""


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("added")
    for package, text in FILES.items():
        (folder / package).mkdir()
        (folder / package / "find_more.py").write_text(text)
    (folder / "declarations.json").write_text(json.dumps(DECLARATIONS))
    return folder


def run(added: Path, *words: object, code: int = 0) -> str:
    command = [sys.executable, "-c", RUN, str(added), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr if code or not done.stdout else done.stdout


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("analyze", "--list"), "How many events are there?"),
        (("analyze", "event_counts", "{demo}"), "How many events are there?"),
        (("analyze", "event_counts", "{demo}", "--csv"), "rank,events"),
        (("sql", "{demo}", "select sum(events) as counted from event_counts"), "counted"),
        (("metrics", "--list"), "events of the Kineto trace"),
        (("metrics", "{demo}"), "events_read"),
        (("metrics", "{demo}", "--only", "events-read", "--csv"), "events_read,"),
        (("what-if", "--help"), "halve"),
        (("what-if", "{demo}", "--change", "halve name=aten::mm"), "halve name=aten::mm"),
        (("export", "--help"), "ranks (.ranks): the ranks"),
        (("--help",), "find-more          Find what was added."),
        (("find-more", "{demo}"), "the number is 2"),
    ],
    ids=lambda case: " ".join(case)[:40] if isinstance(case, tuple) else "",
)
def test_it_is_there(added: Path, demo: Path, words: tuple[str, ...], expected: str) -> None:
    assert expected in run(added, *(word.format(demo=demo) for word in words))


@pytest.mark.full
def test_an_analysis_is_on_the_page_and_in_stores(added: Path, demo: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.json"
    run(added, "report", demo, "-o", page)
    assert "How many events are there?" in page.read_text()
    run(added, "pack", demo, "-o", tmp_path / "store")
    stored = run(added, "analyze", "event_counts", tmp_path / "store", "--json")
    assert stored == run(added, "analyze", "event_counts", demo, "--json")


@pytest.mark.full
def test_a_detector_is_asked_and_replayed(added: Path, demo: Path) -> None:
    answer = json.loads(run(added, "advise", demo, "--min-saving", "0%", "--json"))
    (item,) = [item for item in answer["advice"] if item["detector"] == "any-product"]
    assert (item["op"], item["basis"]) == ("aten::mm", "replay")


@pytest.mark.full
def test_a_metric_is_in_stores(added: Path, demo: Path, tmp_path: Path) -> None:
    run(added, "pack", demo, "-o", tmp_path / "store")
    stored = json.loads(run(added, "metrics", tmp_path / "store", "--json", "--only", "events_read"))
    assert stored == json.loads(run(added, "metrics", demo, "--json", "--only", "events_read"))
    assert stored["events_read"]["value"] == sum(stored["events_read"]["by_rank"].values()) > 0


@pytest.mark.full
def test_a_detector_of_the_critical_path_is_asked(added: Path, demo: Path) -> None:
    answer = json.loads(run(added, "advise", demo, "--min-saving", "0%", "--json"))
    assert "product-on-path" in {item["detector"] for item in answer["advice"]}


@pytest.mark.full
def test_a_change_is_applied_and_listed_where_there_is_no_such_verb(added: Path, demo: Path) -> None:
    halved, scaled = (
        json.loads(run(added, "what-if", demo, "--json", "--change", change))
        for change in ("halve name=aten::mm", "scale 0.5 name=aten::mm")
    )
    assert halved["gain_ns"] == scaled["gain_ns"]
    assert ", halve, " in run(added, "what-if", demo, "--change", "half", code=2)


@pytest.mark.full
def test_a_format_is_written(added: Path, demo: Path, tmp_path: Path) -> None:
    run(added, "export", demo, "--to", "ranks", "-o", tmp_path / "all.ranks")
    assert (tmp_path / "all.ranks").read_text() == "0,1"


@pytest.mark.full
def test_a_category_is_work_of_its_device(added: Path, tmp_path: Path) -> None:
    event = {
        "ph": "X",
        "name": "mm",
        "pid": 3,
        "tid": 7,
        "ts": 1,
        "dur": 5,
        "args": {"device": 3, "stream": 7},
    }
    trace = tmp_path / "kineto_trace_0.json"
    trace.write_text(json.dumps({"traceEvents": [{**event, "cat": "npu_op"}]}))
    (found,) = json.loads(run(added, "info", trace, "--json"))["files"]
    assert found["devices"] == ["npu:3"]
    assert {finding["code"] for finding in found["findings"]} == {"host-ops-missing"}
    (kernel,) = json.loads(run(added, "analyze", "kernels", trace, "--json"))
    assert (kernel["name"], kernel["total_ns"]) == ("mm", 5_000)
