"""A user's own detector is found through an entry point; one that fails costs nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pytest

from tests.planted.patterns import PATTERNS
from tests.planted.scenes import clean
from tracebraid import api
from tracebraid.analysis.antipatterns.catalog import DETECTORS, JOB_DETECTORS
from tracebraid.model.finding_code import FindingCode

_OWN = len(DETECTORS) + len(JOB_DETECTORS)

_MODULE = '''
import polars as pl

import tracebraid


def steps(linked, annotation):
    """Steps are too long.

    Do less.
    """
    return tracebraid.steps(linked, annotation).select(
        "start_ns", "end_ns", (pl.col("end_ns") - pl.col("start_ns")).alias("saving_ns"), pl.lit("me").alias("op")
    )


def raises(linked, annotation):
    return 1 / 0


def exits(linked, annotation):
    raise SystemExit(3)


def no_frame(linked, annotation):
    return [1, 2]


def no_times(linked, annotation):
    return pl.DataFrame({"op": ["a"]})


def nulls(linked, annotation):
    return pl.DataFrame({"start_ns": [1, None], "end_ns": [2, 3], "saving_ns": [1, 1]})


def text(linked, annotation):
    return pl.DataFrame({"start_ns": ["x"], "end_ns": ["y"], "saving_ns": ["z"]})


def one_row(saving, start=1, end=100):
    return pl.DataFrame({"start_ns": [start], "end_ns": [end], "saving_ns": [saving]})


def not_a_number(linked, annotation):
    return one_row(float("nan"))


def endless(linked, annotation):
    return one_row(float("inf"))


def beyond_64_bits(linked, annotation):
    return one_row(5, start=-(2**63), end=2**63 - 1)


def too_many(linked, annotation):
    return pl.select(start_ns=pl.repeat(0, 1_000_001), end_ns=pl.lit(1), saving_ns=pl.lit(1))


def nowhere(ranks):
    return one_row(5).with_columns(rank=pl.lit(None, dtype=pl.Int64))


nowhere_job = tracebraid.JobDetector("nowhere", "a title", "a change", nowhere)


def too_much(linked, annotation):
    return pl.DataFrame({"start_ns": [100_000, 100_050], "end_ns": [100_010, 5], "saving_ns": [10**6, 5]})


def gather_fails(linked, annotation):
    raise RuntimeError("no")


def never(ranks):
    raise AssertionError


job = tracebraid.JobDetector("my-job", "a title", "a change", never, (gather_fails,))
whole = tracebraid.Detector("my-detector", "a title", "a change", steps)
clash = tracebraid.Detector("item-sync", "a title", "a change", steps)
number = 3
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A folder on `sys.path` with a module of detectors; `declare` adds the distribution."""
    (tmp_path / "my_detectors.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_detectors", raising=False)
    return monkeypatch


def declare(folder: Path, **entries: str) -> None:
    info = folder / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[tracebraid.detectors]\n{lines}\n")


@pytest.mark.usefixtures("install")
def test_a_function_is_asked_as_any_other(tmp_path: Path) -> None:
    declare(tmp_path, long_steps="my_detectors:steps")
    advice = api.advise(clean().linked())
    assert advice.items.select("detector", "op", "steps").rows() == [("long-steps", "me", 3)]
    assert advice.detectors["long-steps"].change == "Do less."
    assert advice.items.get_column("share").to_list() == [1.0]
    assert advice.findings == ()


@pytest.mark.usefixtures("install")
def test_a_detector_is_asked_as_any_other(tmp_path: Path) -> None:
    declare(tmp_path, whatever="my_detectors:whole")
    assert api.advise(clean().linked()).items.get_column("detector").to_list() == ["my-detector"]


@pytest.mark.usefixtures("install")
@pytest.mark.parametrize(
    "value",
    [
        "raises",
        "exits",
        "no_frame",
        "no_times",
        "nulls",
        "text",
        "absent",
        "number",
        "clash",
        "job",
        "not_a_number",
        "endless",
        "beyond_64_bits",
        "too_many",
    ],
)
def test_one_that_fails_is_a_finding_and_the_others_are_asked(tmp_path: Path, value: str) -> None:
    declare(tmp_path, broken=f"my_detectors:{value}", long_steps="my_detectors:steps")
    advice = api.advise(PATTERNS["item-sync"].scenes[0].linked())
    assert [finding.code for finding in advice.findings] == [FindingCode.DETECTOR_FAILED]
    assert advice.findings[0].path == "my-package"
    assert advice.items.get_column("detector").to_list() == ["long-steps", "item-sync"]


@pytest.mark.usefixtures("install")
def test_a_module_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    declare(tmp_path, broken="no_such_module_of_detectors:steps")
    advice = api.advise(clean().linked())
    assert [finding.code for finding in advice.findings] == [FindingCode.DETECTOR_FAILED]
    assert len(advice.detectors) == _OWN


@pytest.mark.usefixtures("install")
def test_where_a_detector_failed_is_said(tmp_path: Path) -> None:
    declare(tmp_path, broken="my_detectors:raises")
    finding = api.advise(clean().linked()).findings[0]
    assert "my_detectors.py" in finding.where
    assert finding.details["detector"] == "broken"


@pytest.mark.usefixtures("install")
def test_more_than_the_time_is_never_saved(tmp_path: Path) -> None:
    declare(tmp_path, greedy="my_detectors:too_much")
    advice = api.advise(clean().linked(), 0)
    found = advice.items.filter(pl.col("detector") == "greedy")
    assert found.get_column("saving_ns").to_list() == [10]


@pytest.mark.usefixtures("install")
def test_what_is_on_no_rank_is_a_finding(tmp_path: Path) -> None:
    declare(tmp_path, nowhere="my_detectors:nowhere_job")
    advice = api.advise(clean().linked(), 0)
    assert advice.items.is_empty()
    assert [finding.code for finding in advice.findings] == [FindingCode.DETECTOR_FAILED]


@pytest.mark.usefixtures("install")
def test_nothing_is_imported_before_advice_is_asked_for(tmp_path: Path) -> None:
    declare(tmp_path, long_steps="my_detectors:steps")
    api.breakdown(clean().linked())
    assert "my_detectors" not in sys.modules
    api.advise(clean().linked())
    assert "my_detectors" in sys.modules


def test_a_module_in_the_working_folder_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_detectors.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert len(api.detectors()) == _OWN


def test_names_are_codes_and_each_stands_once() -> None:
    names = [detector.name for detector in api.detectors()]
    assert len(set(names)) == len(names)
    assert all(name == name.lower() and " " not in name and "_" not in name for name in names)
    assert all(detector.title and detector.change for detector in api.detectors())
