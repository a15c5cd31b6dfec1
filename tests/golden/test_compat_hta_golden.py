"""HTA's calls give HTA's table; the notebook runs and shows it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import ROOT
from tools.run_notebook import run_notebook
from tracebraid.compat import hta

NOTEBOOK = ROOT / "examples" / "correlate.ipynb"
COLUMNS = [
    "et_node",
    "et_node_name",
    "op_schema",
    "input_shapes",
    "input_types",
    "output_shapes",
    "output_types",
]


def expected(real_traces: Path) -> pd.DataFrame:
    return pd.read_csv(real_traces / "expected/hta/simple_add_a100/trace_with_et.csv", index_col=0)


def as_csv(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame as a CSV file would give it back, rows by number."""
    return pd.read_csv(io.StringIO(frame.to_csv(index=False)))


def assert_is_hta_s_table(frame: pd.DataFrame, real_traces: Path) -> None:
    """Row by row: the events in their order, and all columns of the Execution Trace."""
    theirs = expected(real_traces).reset_index(drop=True)
    ours = as_csv(frame)
    assert list(ours["name"]) == list(theirs["s_name"])
    assert list(ours["cat"]) == list(theirs["s_cat"])
    assert (ours["ts"] == theirs["ts"]).all()
    pd.testing.assert_frame_equal(ours[COLUMNS], theirs[COLUMNS])


def run() -> tuple[dict[str, Any], dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text())
    return run_notebook(notebook), notebook


@pytest.mark.traces
def test_the_notebook_gives_hta_s_table(real_traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEBRAID_TRACES", str(real_traces))
    names, _ = run()
    assert_is_hta_s_table(names["trace_df"], real_traces)


@pytest.mark.traces
def test_the_notebook_stores_what_it_shows(real_traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As HTML: pandas' text has other blanks in each version."""
    monkeypatch.setenv("TRACEBRAID_TRACES", str(real_traces))
    stored, (_, ran) = json.loads(NOTEBOOK.read_text()), run()

    def shown(notebook: dict[str, Any]) -> list[Any]:
        return [out["data"]["text/html"] for cell in notebook["cells"] for out in cell.get("outputs", [])]

    assert len(shown(stored)) == 2
    assert shown(ran) == shown(stored), "run tools/run_notebook.py examples/correlate.ipynb"


def test_the_notebook_runs_on_the_bundled_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEBRAID_TRACES", raising=False)
    names, _ = run()
    frame = names["trace_df"]
    ops = frame["cat"].isin(["cpu_op", "user_annotation"])
    assert (frame["et_node"].notna() == ops).all()
    assert (frame["et_node_name"] == frame["name"])[ops].all()


@pytest.mark.traces
def test_the_ids_of_the_dataframe_alone_give_hta_s_table_too(real_traces: Path) -> None:
    folder = real_traces / "pairs" / "simple_add_a100"
    trace = hta.Trace({0: str(folder / "kineto_trace_0.json.gz")})
    trace.trace_files = {}
    et = hta.load_execution_trace(folder / "torch_et_0.json.gz")
    hta.correlate_execution_trace(trace, 0, et)
    frame = trace.get_trace(0)
    for column in ("cat", "name"):
        trace.symbol_table.add_symbols_to_trace_df(frame, column)
    for column in COLUMNS[1:]:
        hta.add_et_column(frame, et, column)
    assert_is_hta_s_table(frame, real_traces)
