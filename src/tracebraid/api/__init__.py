"""One function per stage; each composes rooms and adds nothing of its own.

Names are loaded on first use, so that a command or a worker process loads only what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tracebraid.api._homes import HOMES as _HOMES

if TYPE_CHECKING:
    from tracebraid.api.advising import (
        DEFAULT_MIN_SAVING,
        KnownDetectors,
        RankAdvice,
        advice_beside,
        advice_of_ranks,
        advise,
        all_detectors,
        check_min_saving,
        detectors,
        rank_advice,
    )
    from tracebraid.api.building import build_recorder
    from tracebraid.api.caching import cache_info, clear_cache
    from tracebraid.api.checking import capture, check, judge, recorded_by_rank, run_captured, settings_of
    from tracebraid.api.comparing import diff
    from tracebraid.api.describing import infos
    from tracebraid.api.engines import AUTO, ENGINES, IN_PROCESS, engine_of
    from tracebraid.api.exports.export import Exported, ExportOptions, export
    from tracebraid.api.graphing import (
        RankOfGraph,
        critical_path,
        dependency_graph,
        graph_coverage,
        graph_of_ranks,
        rank_of_graph,
        write_path_overlay,
    )
    from tracebraid.api.job_answers import linked_parts, on_reference_clock, rank_parts
    from tracebraid.api.measuring import chosen_metrics, metric, metrics
    from tracebraid.api.packing import pack
    from tracebraid.api.querying import (
        QueryOptions,
        answer_query,
        query_functions,
        query_table,
        query_tables,
        sql,
    )
    from tracebraid.api.repairing import repair
    from tracebraid.api.reporting import report, write_report
    from tracebraid.api.simulating import serving, straggler_metrics, sweep, what_if
    from tracebraid.api.traces import (
        Progress,
        demo_path,
        info,
        link,
        open,
        read_execution_trace,
        read_timeline,
        trace_files,
    )
    from tracebraid.exporters.et_plus import write_et_plus, write_trace_link_et
    from tracebraid.graph.critical_path.find_path import DEFAULT_REPLAYS
    from tracebraid.queries.database import QUERY_MEMORY_BYTES, QueryLimits
    from tracebraid.recorders.launcher.nsys_command import export_reports
    from tracebraid.reports.sections.comparison import comparison_report
    from tracebraid.validation.advice import diagnosis_of, without_consequences


__all__ = [
    "AUTO",
    "DEFAULT_MIN_SAVING",
    "DEFAULT_REPLAYS",
    "ENGINES",
    "IN_PROCESS",
    "QUERY_MEMORY_BYTES",
    "ExportOptions",
    "Exported",
    "KnownDetectors",
    "Progress",
    "QueryLimits",
    "QueryOptions",
    "RankAdvice",
    "RankOfGraph",
    "advice_beside",
    "advice_of_ranks",
    "advise",
    "all_detectors",
    "answer_query",
    "build_recorder",
    "cache_info",
    "capture",
    "check",
    "check_min_saving",
    "chosen_metrics",
    "clear_cache",
    "comparison_report",
    "critical_path",
    "demo_path",
    "dependency_graph",
    "detectors",
    "diagnosis_of",
    "diff",
    "engine_of",
    "export",
    "export_reports",
    "graph_coverage",
    "graph_of_ranks",
    "info",
    "infos",
    "judge",
    "link",
    "linked_parts",
    "metric",
    "metrics",
    "on_reference_clock",
    "open",
    "pack",
    "query_functions",
    "query_table",
    "query_tables",
    "rank_advice",
    "rank_of_graph",
    "rank_parts",
    "read_execution_trace",
    "read_timeline",
    "recorded_by_rank",
    "repair",
    "report",
    "run_captured",
    "serving",
    "settings_of",
    "sql",
    "straggler_metrics",
    "sweep",
    "trace_files",
    "what_if",
    "without_consequences",
    "write_et_plus",
    "write_path_overlay",
    "write_report",
    "write_trace_link_et",
]

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tracebraid.api' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
