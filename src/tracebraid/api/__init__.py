"""One function per stage; each composes rooms and adds nothing of its own.

Names are loaded when they are first used: a command, and a worker process, loads what it needs.
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
        advice_of_ranks,
        advise,
        check_min_saving,
        detectors,
        known_detectors,
        rank_advice,
    )
    from tracebraid.api.analysing import (
        activations,
        allocations,
        allocator,
        allocator_calls,
        analyses,
        analyze,
        annotation_kernels,
        batch_sizes,
        breakdown,
        check_options,
        clocks,
        collective_bandwidth,
        collective_fit,
        collective_imbalance,
        collective_ranks,
        collective_totals,
        collectives,
        copies,
        copy_bandwidth,
        copy_bandwidth_series,
        counters,
        exposed_collectives,
        full_queue,
        graph_kernels,
        graph_replays,
        idle_blame,
        idle_causes,
        idle_gaps,
        inference_phases,
        kernel_durations,
        kernel_families,
        kernel_pace,
        kernel_sequences,
        kernels,
        kernels_by_op,
        late_arrivals,
        launch_bound,
        launch_events,
        launchers,
        launches,
        matched_groups,
        memory_at_peak,
        memory_growth,
        memory_kept,
        memory_peak,
        memory_timeline,
        mfu,
        modules,
        op_costs,
        op_kernel_sequences,
        ops,
        overlap,
        python_frames,
        queue_lengths,
        queue_series,
        rank_steps,
        rank_waits,
        recomputation,
        roofline,
        short_kernels,
        step_spread,
        step_times,
        steps,
        stragglers,
        stream_idle,
        sync_calls,
        syncs,
        token_times,
        user_annotations,
        validity,
    )
    from tracebraid.api.building import build_recorder
    from tracebraid.api.caching import cache_info, clear_cache
    from tracebraid.api.capturing import capture, export_reports, recorded_by_rank, run_captured, settings_of
    from tracebraid.api.chakra.checking import check_chakra
    from tracebraid.api.chakra.converting import convert_chakra
    from tracebraid.api.chakra.counting import chakra_stats
    from tracebraid.api.chakra.files import Feeder, read_chakra, write_chakra
    from tracebraid.api.chakra.generating import (
        GeneratedChakra,
        accelerator,
        generate_chakra,
        links_of_text,
    )
    from tracebraid.api.chakra.json_text import chakra_from_json, chakra_to_json
    from tracebraid.api.chakra.running import ChakraHardware, run_chakra
    from tracebraid.api.chakra.showing import ShownChakra, show_chakra
    from tracebraid.api.checking import check
    from tracebraid.api.comparing import RankProfile, diff, diff_of_profiles, profile_of_rank
    from tracebraid.api.critical_paths import (
        DEFAULT_REPLAYS,
        PathOptions,
        critical_path,
        critical_path_of_graph,
        write_path_overlay,
    )
    from tracebraid.api.describing import infos
    from tracebraid.api.engines import AUTO, ENGINES, IN_PROCESS, engine_of
    from tracebraid.api.exports.chakra import RUN_SCRIPT, SIMULATOR_FOLDER
    from tracebraid.api.exports.chakra_options import ChakraOptions, SimulatorOptions
    from tracebraid.api.exports.export import export
    from tracebraid.api.exports.options import Exported, ExportOptions
    from tracebraid.api.graphing import (
        RankOfGraph,
        dependency_graph,
        graph_coverage,
        graph_of_ranks,
        rank_of_graph,
    )
    from tracebraid.api.job.aligning import linked_parts, on_reference_clock, rank_parts
    from tracebraid.api.job.metric_ranks import (
        Measured,
        TakenOfRank,
        measured,
        metric_questions,
        taken_of_rank,
    )
    from tracebraid.api.job.taking import take_readable
    from tracebraid.api.job.whole_job import RankOfJob, answer_of_ranks, rank_of_job
    from tracebraid.api.judging import judge
    from tracebraid.api.measuring import chosen_metrics, metrics
    from tracebraid.api.packing import pack
    from tracebraid.api.predicting import what_if
    from tracebraid.api.querying.listing import query_functions, query_table, query_tables
    from tracebraid.api.querying.sql import QueryOptions, answer_query, sql
    from tracebraid.api.repairing import repair
    from tracebraid.api.reporting import ReportOptions, comparison_report, report, report_of, write_report
    from tracebraid.api.straggling import straggler_metrics
    from tracebraid.api.sweeping import sweep
    from tracebraid.api.traces import (
        Progress,
        demo_path,
        info,
        link,
        open,
        read_execution_trace,
        read_timeline,
        trace_files,
        write_et_plus,
        write_trace_link_et,
    )
    from tracebraid.api.user_metrics import metric
    from tracebraid.queries.limits import QUERY_MEMORY_BYTES, QueryLimits

__all__ = [
    "AUTO",
    "DEFAULT_MIN_SAVING",
    "DEFAULT_REPLAYS",
    "ENGINES",
    "IN_PROCESS",
    "QUERY_MEMORY_BYTES",
    "RUN_SCRIPT",
    "SIMULATOR_FOLDER",
    "ChakraHardware",
    "ChakraOptions",
    "ExportOptions",
    "Exported",
    "Feeder",
    "GeneratedChakra",
    "KnownDetectors",
    "Measured",
    "PathOptions",
    "Progress",
    "QueryLimits",
    "QueryOptions",
    "RankAdvice",
    "RankOfGraph",
    "RankOfJob",
    "RankProfile",
    "ReportOptions",
    "ShownChakra",
    "SimulatorOptions",
    "TakenOfRank",
    "accelerator",
    "activations",
    "advice_of_ranks",
    "advise",
    "allocations",
    "allocator",
    "allocator_calls",
    "analyses",
    "analyze",
    "annotation_kernels",
    "answer_of_ranks",
    "answer_query",
    "batch_sizes",
    "breakdown",
    "build_recorder",
    "cache_info",
    "capture",
    "chakra_from_json",
    "chakra_stats",
    "chakra_to_json",
    "check",
    "check_chakra",
    "check_min_saving",
    "check_options",
    "chosen_metrics",
    "clear_cache",
    "clocks",
    "collective_bandwidth",
    "collective_fit",
    "collective_imbalance",
    "collective_ranks",
    "collective_totals",
    "collectives",
    "comparison_report",
    "convert_chakra",
    "copies",
    "copy_bandwidth",
    "copy_bandwidth_series",
    "counters",
    "critical_path",
    "critical_path_of_graph",
    "demo_path",
    "dependency_graph",
    "detectors",
    "diff",
    "diff_of_profiles",
    "engine_of",
    "export",
    "export_reports",
    "exposed_collectives",
    "full_queue",
    "generate_chakra",
    "graph_coverage",
    "graph_kernels",
    "graph_of_ranks",
    "graph_replays",
    "idle_blame",
    "idle_causes",
    "idle_gaps",
    "inference_phases",
    "info",
    "infos",
    "judge",
    "kernel_durations",
    "kernel_families",
    "kernel_pace",
    "kernel_sequences",
    "kernels",
    "kernels_by_op",
    "known_detectors",
    "late_arrivals",
    "launch_bound",
    "launch_events",
    "launchers",
    "launches",
    "link",
    "linked_parts",
    "links_of_text",
    "matched_groups",
    "measured",
    "memory_at_peak",
    "memory_growth",
    "memory_kept",
    "memory_peak",
    "memory_timeline",
    "metric",
    "metric_questions",
    "metrics",
    "mfu",
    "modules",
    "on_reference_clock",
    "op_costs",
    "op_kernel_sequences",
    "open",
    "ops",
    "overlap",
    "pack",
    "profile_of_rank",
    "python_frames",
    "query_functions",
    "query_table",
    "query_tables",
    "queue_lengths",
    "queue_series",
    "rank_advice",
    "rank_of_graph",
    "rank_of_job",
    "rank_parts",
    "rank_steps",
    "rank_waits",
    "read_chakra",
    "read_execution_trace",
    "read_timeline",
    "recomputation",
    "recorded_by_rank",
    "repair",
    "report",
    "report_of",
    "roofline",
    "run_captured",
    "run_chakra",
    "settings_of",
    "short_kernels",
    "show_chakra",
    "sql",
    "step_spread",
    "step_times",
    "steps",
    "straggler_metrics",
    "stragglers",
    "stream_idle",
    "sweep",
    "sync_calls",
    "syncs",
    "take_readable",
    "taken_of_rank",
    "token_times",
    "trace_files",
    "user_annotations",
    "validity",
    "what_if",
    "write_chakra",
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
