"""HTA's own `Trace` and DataFrame, where HTA is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import tracebraid
from benchmarks.measure import silenced
from tests.conftest import find_real_traces
from tests.golden.linked import load
from tests.golden.test_compat_hta_golden import COLUMNS, assert_is_hta_s_table
from tests.unit.compat.made import et_node, files
from tracebraid.compat import hta as compat
from tracebraid.errors import ArgumentError, InputError

trace_analysis = pytest.importorskip("hta.trace_analysis", reason="HTA is not installed here")
pytestmark = pytest.mark.filterwarnings("ignore")  # HTA's own, and pandas' of HTA

REAL = find_real_traces()
PAIRS = [tracebraid.demo_path(), *([REAL / "pairs" / "simple_add_a100"] if REAL else [])]


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    with silenced():
        yield


def analyzer_of(kineto: Path, last_step: bool = False) -> Any:
    return trace_analysis.TraceAnalysis(trace_files={0: str(kineto)}, include_last_profiler_step=last_step)


@pytest.mark.parametrize("folder", PAIRS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("last_step", [False, True])
def test_each_row_gets_the_node_of_the_event_in_its_place_of_the_file(folder: Path, last_step: bool) -> None:
    """HTA's `index` is the place among the file's events; the DataFrame itself is sorted otherwise."""
    kineto = folder / "kineto_trace_0.json.gz"
    et = compat.load_execution_trace(folder / "torch_et_0.json.gz")
    trace = analyzer_of(kineto, last_step).t
    assert compat.correlate_execution_trace(trace, 0, et) is None
    events = load(kineto)["traceEvents"]
    linked = tracebraid.link(et, kineto)
    times = linked.timeline.events.select("event_id", "ts_ns")
    links = linked.host_links.drop_nulls("node_id").join(times, on="event_id").select("ts_ns", "node_id")
    base = linked.timeline.base_time_ns
    want = set(links.iter_rows())
    frame = trace.get_trace(0)
    got = [
        (int(events[index]["ts"] * Decimal(1000)) + base, int(node))
        for index, node in zip(frame["index"], frame["et_node"], strict=True)
        if node == node
    ]
    assert (
        len(got) == frame["cat"].isin([_symbol(trace, "cpu_op"), _symbol(trace, "user_annotation")]).sum() > 0
    )
    assert set(got) <= want


def _symbol(trace: Any, text: str) -> int:
    return trace.symbol_table.get_sym_id_map().get(text, -1)


def test_hta_s_table(real_traces: Path) -> None:
    folder = real_traces / "pairs" / "simple_add_a100"
    et = compat.load_execution_trace(folder / "torch_et_0.json.gz")
    trace = analyzer_of(folder / "kineto_trace_0.json.gz").t
    compat.correlate_execution_trace(trace, 0, et)
    frame = trace.get_trace(0).copy()
    for column in ("cat", "name"):
        trace.symbol_table.add_symbols_to_trace_df(frame, col=column)
    for column in COLUMNS[1:]:
        compat.add_et_column(frame, et, column)
    assert list(frame["index"]) == list(pd.read_csv(_table(real_traces))["index"])
    assert_is_hta_s_table(frame, real_traces)


def _table(real_traces: Path) -> Path:
    return real_traces / "expected/hta/simple_add_a100/trace_with_et.csv"


def test_hta_without_its_file_links_by_external_id_where_that_is_proven(real_traces: Path) -> None:
    folder = real_traces / "pairs" / "simple_add_a100"
    et = compat.load_execution_trace(folder / "torch_et_0.json.gz")
    trace = analyzer_of(folder / "kineto_trace_0.json.gz").t
    trace.trace_files = {}
    compat.correlate_execution_trace(trace, 0, et)
    assert trace.get_trace(0)["et_node"].tolist()[:4] == [3, 4, 5, 8]
    assert trace.get_trace(0)["et_node"].notna().sum() == 36


def test_hta_told_to_keep_record_function_ids_links_without_its_file(demo: Path) -> None:
    from hta.common.trace import Trace
    from hta.configs.default_values import AttributeSpec, ValueType
    from hta.configs.parser_config import DEFAULT_PARSE_VERSION, ParserConfig

    key = ("record_function_id", "Record function id", ValueType.Int, -1, DEFAULT_PARSE_VERSION)
    config = ParserConfig([*ParserConfig.get_default_args(), AttributeSpec(*key)])
    trace = Trace({0: str(demo / "kineto_trace_0.json.gz")}, parser_config=config)
    trace.load_traces(include_last_profiler_step=True)
    et = compat.load_execution_trace(demo / "torch_et_0.json.gz")
    compat.correlate_execution_trace(trace, 0, et)
    by_file = trace.get_trace(0).pop("et_node")
    trace.trace_files = {}
    compat.correlate_execution_trace(trace, 0, et)
    assert by_file.notna().sum() > 3000
    assert trace.get_trace(0)["et_node"].equals(by_file)


def test_an_unknown_rank_and_another_program_are_refused(demo: Path, tmp_path: Path) -> None:
    analyzer = analyzer_of(demo / "kineto_trace_0.json.gz")
    et = compat.load_execution_trace(demo / "torch_et_0.json.gz")
    with pytest.raises(ArgumentError, match="no trace of rank 7; there are ranks 0"):
        compat.correlate_execution_trace(analyzer.t, 7, et)
    with pytest.raises(ArgumentError, match=r"give its `\.t`"):
        compat.correlate_execution_trace(analyzer, 0, et)
    other = compat.load_execution_trace(files(tmp_path, [], [et_node(3, "aten::a", 2, rf_id=10**9)])[1])
    with pytest.raises(InputError, match="no op of rank 0"):
        compat.correlate_execution_trace(analyzer.t, 0, other)
    assert "et_node" not in analyzer.t.get_trace(0)


@pytest.mark.parametrize("column", compat.HTA_COLUMNS)
def test_hta_s_own_add_et_column_gives_the_same_column(demo: Path, column: str) -> None:
    """HTA's, over the nodes as et_replay would hold them."""
    from hta.common import execution_trace

    trace = analyzer_of(demo / "kineto_trace_0.json.gz").t
    path = demo / "torch_et_0.json.gz"
    et = compat.load_execution_trace(path)
    compat.correlate_execution_trace(trace, 0, et)
    ours, theirs = trace.get_trace(0).copy(), trace.get_trace(0).copy()
    compat.add_et_column(ours, et, column)
    execution_trace.add_et_column(theirs, _nodes_as_et_replay_has_them(path), column)
    pd.testing.assert_series_equal(ours[column], theirs[column])


def _nodes_as_et_replay_has_them(path: Path) -> Any:
    from types import SimpleNamespace

    nodes = {
        node["id"]: SimpleNamespace(
            name=node["name"],
            op_schema=next(a["value"] for a in node["attrs"] if a["name"] == "op_schema"),
            **{
                f"{side}_{kind}": node[f"{side}s"][kind]
                for side in ("input", "output")
                for kind in ("shapes", "types")
            },
        )
        for node in json.loads(json.dumps(load(path), default=float))["nodes"]
    }
    return SimpleNamespace(nodes=nodes)


def test_hta_s_dataframe_can_be_a_polars_one(demo: Path) -> None:
    et = compat.load_execution_trace(demo / "torch_et_0.json.gz")
    trace = analyzer_of(demo / "kineto_trace_0.json.gz").t
    compat.correlate_execution_trace(trace, 0, et)
    frame = pl.DataFrame({"et_node": trace.get_trace(0)["et_node"].to_numpy()}, nan_to_null=True)
    compat.add_et_column(frame, et, "et_node_name")
    assert frame.get_column("et_node_name").null_count() == frame.get_column("et_node").null_count()
