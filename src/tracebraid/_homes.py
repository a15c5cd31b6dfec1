"""Where each public name stands: it is loaded from there when it is first used."""

from __future__ import annotations

__all__ = ["HOMES"]

HOMES = {
    "tracebraid.model.chakra.converted": "ConvertedChakra ConvertedCounts",
    "tracebraid.model.chakra.stats": "ChakraStats",
    "tracebraid.model.chakra.part": "PartChoice",
    "tracebraid.api.chakra.showing": "ShownChakra",
    "tracebraid.model.chakra.lint_code": "LintCode",
    "tracebraid.model.chakra.lint": "ChakraCheck CheckedChakraRank LintFinding RankNode",
    "tracebraid.api.chakra.files": "Feeder read_chakra write_chakra",
    "tracebraid.api.chakra.json_text": "chakra_from_json chakra_to_json",
    "tracebraid.model.chakra.chakra_rank": "ChakraRank NodeDeps",
    "tracebraid.api.chakra.generating": "GeneratedChakra",
    "tracebraid.api.chakra.running": "ChakraHardware",
    "tracebraid.model.chakra.chakra_run": "ChakraRun ChakraRunNote",
    "tracebraid.api": (
        "accelerator activations advise allocations allocator allocator_calls analyses analyze "
        "annotation_kernels batch_sizes breakdown build_recorder cache_info capture chakra_stats check "
        "check_chakra clear_cache clocks collective_bandwidth collective_fit collective_imbalance "
        "collective_ranks collective_totals collectives comparison_report convert_chakra copies "
        "copy_bandwidth copy_bandwidth_series counters critical_path demo_path dependency_graph detectors "
        "diff export exposed_collectives full_queue generate_chakra graph_coverage graph_kernels "
        "graph_replays idle_blame idle_causes idle_gaps inference_phases info kernel_durations "
        "kernel_families kernel_pace kernel_sequences kernels kernels_by_op late_arrivals launch_bound "
        "launch_events launchers launches link links_of_text matched_groups memory_at_peak memory_growth "
        "memory_kept memory_peak memory_timeline metric metrics mfu modules op_costs op_kernel_sequences "
        "open ops overlap pack python_frames queue_lengths queue_series rank_steps rank_waits "
        "read_execution_trace read_timeline recomputation repair report roofline run_chakra short_kernels "
        "show_chakra sql step_spread step_times steps straggler_metrics stragglers stream_idle sweep "
        "sync_calls syncs token_times user_annotations validity what_if write_et_plus write_path_overlay "
        "write_report"
    ),
    "tracebraid.errors": (
        "ArgumentError CaptureError CaptureWarning CoverageError EngineError InputError LostWorkerError "
        "MissingLibraryError NotATraceError OutputError ProgramError QueryError TracebraidError "
        "WrongTraceError"
    ),
    "tracebraid.recorders.observer": "ExecutionTraceObserver",
    "tracebraid.recorders.session.capture": "Capture",
    "tracebraid.model.questions.advice": "Advice",
    "tracebraid.model.questions.analysis": "Analysis Answer Family Need",
    "tracebraid.model.check": "Check CheckedRank Diagnosis Repair Severity",
    "tracebraid.model.questions.detector": "Detector JobDetector",
    "tracebraid.model.questions.comparison": "Caution CautionCode Comparison",
    "tracebraid.model.coverage": "Coverage",
    "tracebraid.model.execution_trace": "ExecutionTrace",
    "tracebraid.api.exports.chakra_options": "ChakraOptions",
    "tracebraid.api.exports.options": "ExportOptions Exported",
    "tracebraid.model.export_format": "ExportFormat",
    "tracebraid.model.file_info": "FileInfo",
    "tracebraid.model.report.parts": "Report",
    "tracebraid.model.finding": "Finding",
    "tracebraid.model.finding_code": "FindingCode",
    "tracebraid.model.graph.change": "Change Verb Where",
    "tracebraid.model.graph.critical_path": "CriticalPath",
    "tracebraid.model.graph.dependency_graph": "DependencyGraph",
    "tracebraid.model.graph.replay_error": "ReplayError",
    "tracebraid.model.graph.what_if": "WhatIf WhatIfNote",
    "tracebraid.model.job": "Job",
    "tracebraid.model.linked_trace": "LinkedTrace",
    "tracebraid.model.matched": "ChosenIterations Matched",
    "tracebraid.model.matching": "Matching",
    "tracebraid.model.cache_info": "CacheInfo",
    "tracebraid.model.packed": "Packed",
    "tracebraid.model.questions.metric": "Metric OverRanks Unit",
    "tracebraid.model.reason": "ChoiceReason OrphanKind OrphanReason",
    "tracebraid.model.timeline": "Timeline",
    "tracebraid.version": "__version__",
}
"""Modules, and the names that each is home to."""
