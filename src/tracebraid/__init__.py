"""Tracebraid: PyTorch's Execution Traces and Kineto traces, read, linked into one, and asked.

    import tracebraid
    job = tracebraid.open("traces/")
    print(job[0].coverage)
    print(tracebraid.breakdown(job))

Names are loaded when they are first used, so that `import tracebraid` costs next to nothing.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING

from tracebraid._homes import HOMES as _HOMES

if _TYPE_CHECKING:
    from tracebraid.api import (
        accelerator,
        activations,
        advise,
        allocations,
        allocator,
        allocator_calls,
        analyses,
        analyze,
        annotation_kernels,
        batch_sizes,
        breakdown,
        build_recorder,
        cache_info,
        capture,
        chakra_stats,
        check,
        check_chakra,
        clear_cache,
        clocks,
        collective_bandwidth,
        collective_fit,
        collective_imbalance,
        collective_ranks,
        collective_totals,
        collectives,
        comparison_report,
        convert_chakra,
        copies,
        copy_bandwidth,
        copy_bandwidth_series,
        counters,
        critical_path,
        demo_path,
        dependency_graph,
        detectors,
        diff,
        export,
        exposed_collectives,
        full_queue,
        generate_chakra,
        graph_coverage,
        graph_kernels,
        graph_replays,
        idle_blame,
        idle_causes,
        idle_gaps,
        inference_phases,
        info,
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
        link,
        links_of_text,
        matched_groups,
        memory_at_peak,
        memory_growth,
        memory_kept,
        memory_peak,
        memory_timeline,
        metric,
        metrics,
        mfu,
        modules,
        op_costs,
        op_kernel_sequences,
        open,
        ops,
        overlap,
        pack,
        python_frames,
        queue_lengths,
        queue_series,
        rank_steps,
        rank_waits,
        read_execution_trace,
        read_timeline,
        recomputation,
        repair,
        report,
        roofline,
        run_chakra,
        short_kernels,
        show_chakra,
        sql,
        step_spread,
        step_times,
        steps,
        straggler_metrics,
        stragglers,
        stream_idle,
        sweep,
        sync_calls,
        syncs,
        token_times,
        user_annotations,
        validity,
        what_if,
        write_et_plus,
        write_path_overlay,
        write_report,
    )
    from tracebraid.api.chakra.files import Feeder, read_chakra, write_chakra
    from tracebraid.api.chakra.generating import GeneratedChakra
    from tracebraid.api.chakra.json_text import chakra_from_json, chakra_to_json
    from tracebraid.api.chakra.running import ChakraHardware
    from tracebraid.api.chakra.showing import ShownChakra
    from tracebraid.api.exports.chakra_options import ChakraOptions
    from tracebraid.api.exports.options import Exported, ExportOptions
    from tracebraid.errors import (
        ArgumentError,
        CaptureError,
        CaptureWarning,
        CoverageError,
        EngineError,
        InputError,
        LostWorkerError,
        MissingLibraryError,
        NotATraceError,
        OutputError,
        ProgramError,
        QueryError,
        TracebraidError,
        WrongTraceError,
    )
    from tracebraid.model.cache_info import CacheInfo
    from tracebraid.model.chakra.chakra_rank import ChakraRank, NodeDeps
    from tracebraid.model.chakra.chakra_run import ChakraRun, ChakraRunNote
    from tracebraid.model.chakra.converted import ConvertedChakra, ConvertedCounts
    from tracebraid.model.chakra.lint import ChakraCheck, CheckedChakraRank, LintFinding, RankNode
    from tracebraid.model.chakra.lint_code import LintCode
    from tracebraid.model.chakra.part import PartChoice
    from tracebraid.model.chakra.stats import ChakraStats
    from tracebraid.model.check import Check, CheckedRank, Diagnosis, Repair, Severity
    from tracebraid.model.coverage import Coverage
    from tracebraid.model.execution_trace import ExecutionTrace
    from tracebraid.model.export_format import ExportFormat
    from tracebraid.model.file_info import FileInfo
    from tracebraid.model.finding import Finding
    from tracebraid.model.finding_code import FindingCode
    from tracebraid.model.graph.change import Change, Verb, Where
    from tracebraid.model.graph.critical_path import CriticalPath
    from tracebraid.model.graph.dependency_graph import DependencyGraph
    from tracebraid.model.graph.replay_error import ReplayError
    from tracebraid.model.graph.what_if import WhatIf, WhatIfNote
    from tracebraid.model.job import Job
    from tracebraid.model.linked_trace import LinkedTrace
    from tracebraid.model.matched import ChosenIterations, Matched
    from tracebraid.model.matching import Matching
    from tracebraid.model.packed import Packed
    from tracebraid.model.questions.advice import Advice
    from tracebraid.model.questions.analysis import Analysis, Answer, Family, Need
    from tracebraid.model.questions.comparison import Caution, CautionCode, Comparison
    from tracebraid.model.questions.detector import Detector, JobDetector
    from tracebraid.model.questions.metric import Metric, OverRanks, Unit
    from tracebraid.model.reason import ChoiceReason, OrphanKind, OrphanReason
    from tracebraid.model.report.parts import Report
    from tracebraid.model.timeline import Timeline
    from tracebraid.recorders.observer import ExecutionTraceObserver
    from tracebraid.recorders.session.capture import Capture
    from tracebraid.version import __version__

__all__ = [
    "Advice",
    "Analysis",
    "Answer",
    "ArgumentError",
    "CacheInfo",
    "Capture",
    "CaptureError",
    "CaptureWarning",
    "Caution",
    "CautionCode",
    "ChakraCheck",
    "ChakraHardware",
    "ChakraOptions",
    "ChakraRank",
    "ChakraRun",
    "ChakraRunNote",
    "ChakraStats",
    "Change",
    "Check",
    "CheckedChakraRank",
    "CheckedRank",
    "ChoiceReason",
    "ChosenIterations",
    "Comparison",
    "ConvertedChakra",
    "ConvertedCounts",
    "Coverage",
    "CoverageError",
    "CriticalPath",
    "DependencyGraph",
    "Detector",
    "Diagnosis",
    "EngineError",
    "ExecutionTrace",
    "ExecutionTraceObserver",
    "ExportFormat",
    "ExportOptions",
    "Exported",
    "Family",
    "Feeder",
    "FileInfo",
    "Finding",
    "FindingCode",
    "GeneratedChakra",
    "InputError",
    "Job",
    "JobDetector",
    "LinkedTrace",
    "LintCode",
    "LintFinding",
    "LostWorkerError",
    "Matched",
    "Matching",
    "Metric",
    "MissingLibraryError",
    "Need",
    "NodeDeps",
    "NotATraceError",
    "OrphanKind",
    "OrphanReason",
    "OutputError",
    "OverRanks",
    "Packed",
    "PartChoice",
    "ProgramError",
    "QueryError",
    "RankNode",
    "Repair",
    "ReplayError",
    "Report",
    "Severity",
    "ShownChakra",
    "Timeline",
    "TracebraidError",
    "Unit",
    "Verb",
    "WhatIf",
    "WhatIfNote",
    "Where",
    "WrongTraceError",
    "__version__",
    "accelerator",
    "activations",
    "advise",
    "allocations",
    "allocator",
    "allocator_calls",
    "analyses",
    "analyze",
    "annotation_kernels",
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
    "demo_path",
    "dependency_graph",
    "detectors",
    "diff",
    "export",
    "exposed_collectives",
    "full_queue",
    "generate_chakra",
    "graph_coverage",
    "graph_kernels",
    "graph_replays",
    "idle_blame",
    "idle_causes",
    "idle_gaps",
    "inference_phases",
    "info",
    "kernel_durations",
    "kernel_families",
    "kernel_pace",
    "kernel_sequences",
    "kernels",
    "kernels_by_op",
    "late_arrivals",
    "launch_bound",
    "launch_events",
    "launchers",
    "launches",
    "link",
    "links_of_text",
    "matched_groups",
    "memory_at_peak",
    "memory_growth",
    "memory_kept",
    "memory_peak",
    "memory_timeline",
    "metric",
    "metrics",
    "mfu",
    "modules",
    "op_costs",
    "op_kernel_sequences",
    "open",
    "ops",
    "overlap",
    "pack",
    "python_frames",
    "queue_lengths",
    "queue_series",
    "rank_steps",
    "rank_waits",
    "read_chakra",
    "read_execution_trace",
    "read_timeline",
    "recomputation",
    "repair",
    "report",
    "roofline",
    "run_chakra",
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
    "token_times",
    "user_annotations",
    "validity",
    "what_if",
    "write_chakra",
    "write_et_plus",
    "write_path_overlay",
    "write_report",
]

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'tracebraid' has no attribute {name!r}")
    return getattr(_importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
