"""Where each name of this package stands: it is loaded from there when it is first used."""

from __future__ import annotations

__all__ = ["HOMES"]

HOMES = {
    "tracebraid.api.advising": (
        "DEFAULT_MIN_SAVING KnownDetectors RankAdvice advice_of_ranks advise check_min_saving detectors "
        "known_detectors rank_advice"
    ),
    "tracebraid.api.analysing": (
        "activations allocations allocator allocator_calls analyses analyze annotation_kernels batch_sizes "
        "breakdown check_options clocks collective_bandwidth collective_fit collective_imbalance "
        "collective_ranks collective_totals collectives copies copy_bandwidth copy_bandwidth_series "
        "counters exposed_collectives full_queue graph_kernels graph_replays idle_blame idle_causes "
        "idle_gaps inference_phases kernel_durations kernel_families kernel_pace kernel_sequences kernels "
        "kernels_by_op late_arrivals launch_bound launch_events launchers launches matched_groups "
        "memory_at_peak memory_growth memory_kept memory_peak memory_timeline mfu modules op_costs "
        "op_kernel_sequences ops overlap python_frames queue_lengths queue_series rank_steps rank_waits "
        "recomputation roofline short_kernels step_spread step_times steps stragglers stream_idle "
        "sync_calls syncs token_times user_annotations validity"
    ),
    "tracebraid.api.building": "build_recorder",
    "tracebraid.api.caching": "cache_info clear_cache",
    "tracebraid.api.capturing": "capture export_reports recorded_by_rank run_captured settings_of",
    "tracebraid.api.chakra.checking": "check_chakra",
    "tracebraid.api.chakra.converting": "convert_chakra",
    "tracebraid.api.chakra.counting": "chakra_stats",
    "tracebraid.api.chakra.files": "Feeder read_chakra write_chakra",
    "tracebraid.api.chakra.generating": "GeneratedChakra accelerator generate_chakra links_of_text",
    "tracebraid.api.chakra.json_text": "chakra_from_json chakra_to_json",
    "tracebraid.api.chakra.running": "ChakraHardware run_chakra",
    "tracebraid.api.chakra.showing": "ShownChakra show_chakra",
    "tracebraid.api.checking": "check",
    "tracebraid.api.comparing": "RankProfile diff diff_of_profiles profile_of_rank",
    "tracebraid.api.critical_paths": (
        "DEFAULT_REPLAYS PathOptions critical_path critical_path_of_graph write_path_overlay"
    ),
    "tracebraid.api.describing": "infos",
    "tracebraid.api.engines": "AUTO ENGINES IN_PROCESS engine_of",
    "tracebraid.api.exports.chakra": "RUN_SCRIPT SIMULATOR_FOLDER",
    "tracebraid.api.exports.chakra_options": "ChakraOptions SimulatorOptions",
    "tracebraid.api.exports.export": "export",
    "tracebraid.api.exports.options": "ExportOptions Exported",
    "tracebraid.api.graphing": "RankOfGraph dependency_graph graph_coverage graph_of_ranks rank_of_graph",
    "tracebraid.api.job.aligning": "linked_parts on_reference_clock rank_parts",
    "tracebraid.api.job.metric_ranks": "Measured TakenOfRank measured metric_questions taken_of_rank",
    "tracebraid.api.job.taking": "take_readable",
    "tracebraid.api.job.whole_job": "RankOfJob answer_of_ranks rank_of_job",
    "tracebraid.api.judging": "judge",
    "tracebraid.api.measuring": "chosen_metrics metrics",
    "tracebraid.api.packing": "pack",
    "tracebraid.api.predicting": "what_if",
    "tracebraid.api.querying.listing": "query_functions query_table query_tables",
    "tracebraid.api.querying.sql": "QueryOptions answer_query sql",
    "tracebraid.api.repairing": "repair",
    "tracebraid.api.reporting": "ReportOptions comparison_report report report_of write_report",
    "tracebraid.api.straggling": "straggler_metrics",
    "tracebraid.api.sweeping": "sweep",
    "tracebraid.api.traces": (
        "Progress demo_path info link open read_execution_trace read_timeline trace_files write_et_plus "
        "write_trace_link_et"
    ),
    "tracebraid.api.user_metrics": "metric",
    "tracebraid.queries.limits": "QUERY_MEMORY_BYTES QueryLimits",
}
"""Modules, and the names that each is home to."""
