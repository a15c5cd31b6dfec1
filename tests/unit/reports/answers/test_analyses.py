"""The list of analyses, for programs."""

from __future__ import annotations

from tracebraid.analysis.catalog import ANALYSES
from tracebraid.model.answers import KERNELS
from tracebraid.reports.answers.analyses import analyses_data


def test_data_has_an_object_for_each_analysis() -> None:
    data = analyses_data(ANALYSES)
    assert [entry["name"] for entry in data] == [analysis.name for analysis in ANALYSES]
    kernels = next(entry for entry in data if entry["name"] == "kernels")
    assert kernels["needs"] == ["device work"]
    assert [column["name"] for column in kernels["columns"]] == [column.name for column in KERNELS.columns]
