"""Which columns of an answer people see, in which order.

These stand here and not beside the tables of `model.answers`: what an answer holds is a contract with programs, what of
it fits a line of a terminal is not, and the same columns serve several tables there.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CONTEXT", "PICKED_BY", "SHOWN"]

CONTEXT = ("rank", "step", "device", "doubtful")
"""Columns that come first, and only where they differ from row to row or, for the last, say something."""

SHOWN: Mapping[str, str] = {
    "rank_steps": "span_ns compute_ns transfer_ns waiting_ns! caused_ns! idle_ns late_ns late_count "
    "collectives start_ns ranks",
    "rank_waits": "waited_for waiting_ns! share count longest_ns",
    "late_arrivals": "lateness_ns! caused_ns! cause name time_ns others_ns type start_ns origin_rank explained_share "
    "group collective difference_ns margin_ns",
    "stragglers": "systematic! caused_ns! mean_ns cause name late_count worst_count blocks p_value cause_share "
    "mean_low_ns mean_high_ns",
    "clocks": "host method offset_ns! offset_low_ns offset_high_ns drift_ppm! drift_low_ppm drift_high_ppm "
    "collectives",
    "matched_groups": "group type members matched! unmatched! alone open collectives complete by_sequence by_order "
    "by_alignment by_time disagreeing confidence group_size missing ranks description names",
    "collectives": "type first_arrival_ns transfer_ns waiting_ns! last_rank size_bytes dtype bus_bytes_per_s "
    "group_size group missing is_bound transfer_method method",
    "collective_ranks": "type arrival_ns waiting_ns! waited_for transfer_ns late_by_ns dur_ns rest_ns group name "
    "is_bound transfer_method",
    "collective_totals": "group count dur_ns transfer_ns waiting_ns! caused_ns! times_last waiting_share rest_ns "
    "bounds description",
    "collective_bandwidth": "type size_bytes dtype count transfer_median_ns bus_bytes_per_s algorithm_bytes_per_s "
    "peak_share waiting_share! group_size group bounds transfer_ns library algorithm protocol transfer_min_ns "
    "transfer_max_ns description",
    "collective_fit": "type alpha_ns! beta_bytes_per_s error_share r_squared count sizes group_size group library "
    "is_bound description",
    "collective_imbalance": "received_imbalance received_most received_max_bytes sent_imbalance sent_most "
    "sent_max_bytes transfer_ns group is_uneven dtype",
    "validity": "doubt count time_ns event_id",
    "steps": "start_ns end_ns",
    "step_times": "start_ns span_ns compute_ns exposed_communication_ns exposed_memory_ns idle_ns! warmup gap_ns "
    "first_time_work",
    "step_spread": "part count mean_ns variation median_ns min_ns max_ns std_ns p95_ns warmup_left_out "
    "doubtful_left_out",
    "breakdown": "span_ns compute_ns exposed_communication_ns exposed_memory_ns idle_ns! communication_ns overlap_ns "
    "start_ns",
    "overlap": "process_group stream communication_ns overlap_ns! exposed_ns overlap_share! count description",
    "exposed_collectives": "name exposed_ns share total_ns count message_bytes dtype process_group description",
    "idle_causes": "cause host_activity size idle_ns share count after_sync_ns",
    "idle_blame": "host_activity op idle_ns share count frame next_op module annotation longest_ns top_op",
    "idle_gaps": "gap start_ns dur_ns cause host_activity op frame next_name sync_call module annotation",
    "stream_idle": "stream category idle_ns share count mean_ns p50_ns max_ns std_ns",
    "kernels": "name total_ns share count mean_ns max_ns family p95_ns kind",
    "kernel_families": "family total_ns share count mean_ns names by_op_ns by_name_ns",
    "kernels_by_op": "op name total_ns share count mean_ns family max_ns",
    "launchers": "launcher device_ns share kernels",
    "short_kernels": "name gap_before_ns count count_of_all total_ns mean_ns share family gap_after_ns",
    "kernel_durations": "from_ns below_ns count share_of_count total_ns share",
    "kernel_pace": "stream name count median_ns mean_ns min_ns max_ns std_ns family",
    "kernel_sequences": "op pattern length count gap_ns! launch_ns device_ns complete op_ns",
    "op_kernel_sequences": "op pattern length count device_ns op_launch_delay_ns runtime_delay_ns",
    "graph_kernels": "graph node name op total_ns share count mean_ns family method",
    "ops": "name device_total_ns device_self_ns host_self_ns host_total_ns count kernels input_dims call_site module "
    "annotation input_types input_strides concrete_inputs category",
    "user_annotations": "name count host_total_ns device_total_ns device_busy_ns kernels_total host_self_ns "
    "device_range_ns host_max_ns",
    "annotation_kernels": "annotations name total_ns share count mean_ns kind",
    "modules": "path calls share device_forward_total_ns device_backward_total_ns host_forward_total_ns "
    "host_backward_total_ns kernels_total device_recompute_total_ns device_forward_self_ns class_name",
    "python_frames": "name host_self_ns host_total_ns device_total_ns device_self_ns calls kernels",
    "launches": "op api count host_ns host_mean_ns delay_mean_ns device_mean_ns device_ns short kernels host_max_ns",
    "launch_events": "start_ns op api host_ns delay_ns device_ns kernels stream stream_idle_ns",
    "launch_bound": "start_ns span_ns idle_ns gain_ns! op annotation launches kernels device_ns stream",
    "queue_lengths": "stream count mean mean_over_time p50 max p25 p75 min std",
    "queue_series": "stream ts_ns length launches",
    "full_queue": "stream longest full_ns! share launches blocked blocked_ns!",
    "copies": "kind direction source target bytes total_ns bandwidth_bytes_per_s count op host_wait awaited api",
    "copy_bandwidth": "name count mean_bytes_per_s p50_bytes_per_s min_bytes_per_s max_bytes_per_s std_bytes_per_s",
    "copy_bandwidth_series": "name ts_ns bytes_per_s running",
    "syncs": "api top_op blocked_ns! host_ns count waits max_ns waited_name frame annotation kind",
    "sync_calls": "start_ns api top_op blocked_ns! host_ns waited_name waited_stream frame annotation kind",
    "counters": "kernel counter value op top_op method",
    "op_costs": "name input_dims device_ns count flops bytes achieved_flops_per_s achieved_bytes_per_s bound "
    "flops_per_byte precision family",
    "roofline": "name input_dims lost_ns lost_share device_ns roofline_ns roofline_share bound count precision "
    "is_recompute",
    "mfu": "span_ns mfu hfu model_flops model_flops_per_s peak_flops_per_s precision known_share hardware_flops",
    "recomputation": "name device_ns host_ns count flops family",
    "memory_timeline": "ts_ns size_bytes allocated_bytes reserved_bytes op",
    "memory_peak": "peak_ns peak_bytes before_trace_bytes in_trace_bytes reserved_bytes allocations op module source",
    "memory_at_peak": "category bytes share count op module",
    "allocations": "size_bytes allocated_ns lifetime_ns category op module shape phase released_in rule dtype",
    "activations": "op size_bytes count bytes mean_lifetime_ns byte_seconds saved_byte_seconds module shape dtype",
    "memory_growth": "start_bytes end_bytes growth_bytes! kept_bytes kept_allocations slope_bytes_per_step",
    "memory_kept": "category bytes count size_bytes steps bytes_per_step op module",
    "allocator": "peak_allocated_bytes peak_reserved_bytes unused_at_peak_bytes fragmentation allocations "
    "device_allocations steady_device_allocations! retries! device_call_ns",
    "allocator_calls": "call count steady_count total_ns max_ns op module",
    "inference_phases": "phase start_ns span_ns device_ns graph_ns requests tokens kernels context_tokens "
    "generation_tokens host_ns name evidence",
    "token_times": "phase iterations tokens ns_per_token tokens_per_second median_ns p95_ns median_interval_ns "
    "device_ns_per_token",
    "batch_sizes": "phase start_ns span_ns requests iterations tokens context_requests generation_requests",
    "graph_replays": "api graph_id replays device_ns share mean_device_ns kernels_per_replay host_ns",
}
"""The columns by the name of the analysis: what a row is about first, then its figures, what matters most first.
Where a terminal is too narrow, the last are left out. A column that is 0 in all rows is not shown, unless a `!`
follows: there 0 is the answer."""

PICKED_BY: Mapping[str, tuple[str, ...]] = {
    "idle_gaps": ("dur_ns",),
    "launch_events": ("host_ns",),
    "sync_calls": ("host_ns",),
    "allocations": ("size_bytes",),
    "collective_ranks": ("waiting_ns",),
    "collective_totals": ("caused_ns", "waiting_ns"),
    "rank_steps": ("caused_ns", "waiting_ns"),
    "rank_waits": ("waiting_ns",),
    "modules": (
        "device_forward_total_ns device_backward_total_ns",
        "host_forward_total_ns host_backward_total_ns",
    ),
}
"""Where the rows stand in the order of time or of a tree, those with the most of a sum of columns are shown, not the
first; where that is the same, those with the most of the next sum."""
