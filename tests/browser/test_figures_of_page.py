"""The figures on the page are those of `tracebraid analyze`, to the digit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser.conftest import PageOf
from tests.browser.pages import cells_of, draw_all, tables_of
from tests.integration.command import succeed

ANALYSES = {
    "step_times",
    "kernels",
    "kernels_by_op",
    "launchers",
    "ops",
    "op_costs",
    "modules",
    "stream_idle",
    "launches",
    "copies",
    "overlap",
    "collectives",
}
"""Whose tables are read; each stands on the page as `rows-<name>`."""
FIGURE = re.compile(r"[-+<]?\d")
BETWEEN = re.compile(r"\s{2,}")


def rows_of_terminal(name: str, traces: Path) -> list[set[str]]:
    """The cells of each line that the command prints."""
    printed = succeed("analyze", name, traces, "--top", "1000", COLUMNS="2000")
    return [set(BETWEEN.split(line.strip())) for line in printed.splitlines()]


@pytest.mark.full
def test_figures_are_those_of_analyze(page_of: PageOf, planted_page: Path) -> None:
    traces = planted_page.with_name("traces")
    page = page_of(planted_page)
    draw_all(page)
    shown = {table.removeprefix("rows-").replace("-", "_"): table for table in tables_of(page)}
    assert set(shown) >= ANALYSES
    others = {}
    for name in ANALYSES:
        rows = cells_of(page, shown[name])
        assert rows
        printed = rows_of_terminal(name, traces)
        for row in rows:
            figures = {text for column, text in row.items() if column != "rank" and FIGURE.match(text)}
            if not any(figures <= cells for cells in printed):
                others[name] = row
    assert others == {}
