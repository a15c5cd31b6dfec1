"""Functions of SQL for the usual conversions and joins."""

from __future__ import annotations

from tracebraid.queries.catalog import Macro

MACROS = (
    Macro("us", ("ns",), "nanoseconds as microseconds", "ns / 1e3"),
    Macro("ms", ("ns",), "nanoseconds as milliseconds", "ns / 1e6"),
    Macro("seconds", ("ns",), "nanoseconds as seconds", "ns / 1e9"),
    Macro("mib", ("bytes",), "bytes as MiB", "bytes / 1048576.0"),
    Macro(
        "overlap_ns",
        ("start_a", "end_a", "start_b", "end_b"),
        "how long two intervals overlap, in ns; 0 where they do not",
        "greatest(0, least(end_a, end_b) - greatest(start_a, start_b))",
    ),
    Macro(
        "step_of",
        ("of_rank", "moment_ns"),
        "the step of a rank that holds a moment, the last to start of several; null: none",
        "(SELECT arg_max(s.step, s.start_ns) FROM answers.steps AS s"
        " WHERE s.rank = of_rank AND moment_ns >= s.start_ns AND moment_ns < s.end_ns)",
    ),
    Macro(
        "name_of",
        ("of_rank", "of_event"),
        "the name of an event; null: there is none",
        "(SELECT any_value(e.name) FROM timeline.events AS e WHERE e.rank = of_rank AND e.event_id = of_event)",
    ),
    Macro(
        "op_of",
        ("of_rank", "kernel_event"),
        "the op that launched a device event; null: none is known",
        "(SELECT any_value(d.op_event) FROM links.launches AS d"
        " WHERE d.rank = of_rank AND d.event_id = kernel_event)",
    ),
    Macro(
        "node_of",
        ("of_rank", "kernel_event"),
        "the Execution Trace node of the op that launched a device event; null: none is known",
        "(SELECT any_value(d.node_id) FROM links.device_links AS d"
        " WHERE d.rank = of_rank AND d.event_id = kernel_event)",
    ),
    Macro(
        "module_of",
        ("of_rank", "host_event"),
        "the nn.Module that a host event is in; null: none, or unknown",
        "(SELECT any_value(c.module) FROM context.host_context AS c"
        " WHERE c.rank = of_rank AND c.event_id = host_event)",
    ),
    Macro(
        "events_of_step",
        ("step_name",),
        "the rows of `events` that start in a step, on all ranks",
        "SELECT e.* FROM timeline.events AS e JOIN answers.steps AS s ON s.rank = e.rank"
        " AND e.ts_ns >= s.start_ns AND e.ts_ns < s.end_ns WHERE s.step = step_name",
        is_table=True,
    ),
    Macro(
        "kernels_of",
        ("op_pattern",),
        "the rows of `kernels` that ops launched whose name is like a pattern, such as 'aten::%mm'",
        "SELECT k.* FROM main.kernels AS k WHERE k.op_name LIKE op_pattern",
        is_table=True,
    ),
)
"""All macros."""
