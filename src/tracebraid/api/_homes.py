"""The module of each name of this package: it is loaded from there when it is first used."""

from __future__ import annotations

HOMES = {
    "tracebraid.api.advising": (
        "DEFAULT_MIN_SAVING KnownDetectors RankAdvice advice_beside advice_of_ranks advise check_min_saving "
        "detectors all_detectors rank_advice"
    ),
    "tracebraid.api.building": ("build_recorder"),
    "tracebraid.api.caching": ("cache_info clear_cache"),
    "tracebraid.api.checking": ("capture recorded_by_rank run_captured settings_of check judge"),
    "tracebraid.api.comparing": ("diff"),
    "tracebraid.api.graphing": (
        "DEFAULT_REPLAYS critical_path write_path_overlay "
        "RankOfGraph dependency_graph graph_coverage graph_of_ranks rank_of_graph"
    ),
    "tracebraid.api.describing": ("infos"),
    "tracebraid.api.engines": ("AUTO ENGINES IN_PROCESS engine_of"),
    "tracebraid.api.exports.export": ("export ExportOptions Exported"),
    "tracebraid.api.job_answers": ("linked_parts on_reference_clock rank_parts"),
    "tracebraid.api.measuring": ("chosen_metrics metrics metric"),
    "tracebraid.api.packing": ("pack"),
    "tracebraid.api.querying": ("query_functions query_table query_tables QueryOptions answer_query sql"),
    "tracebraid.api.repairing": ("repair"),
    "tracebraid.api.reporting": ("report write_report"),
    "tracebraid.api.traces": (
        "Progress demo_path info link open read_execution_trace read_timeline trace_files"
    ),
    "tracebraid.api.simulating": ("serving straggler_metrics sweep what_if"),
    "tracebraid.validation.advice": ("diagnosis_of without_consequences"),
    "tracebraid.exporters.et_plus": ("write_et_plus write_trace_link_et"),
    "tracebraid.queries.database": ("QUERY_MEMORY_BYTES QueryLimits"),
    "tracebraid.recorders.launcher.nsys_command": ("export_reports"),
    "tracebraid.reports.sections.comparison": ("comparison_report"),
}
"""Names by the module that defines them."""
