"""Build a job's `DependencyGraph`, and derive answers from its measured times.

1. Each rank: `rank_graph` makes its `activities` and edges: of threads (`hosts/`), of devices (`devices/`), and those
   that linking found (`dependency_edges`). `latencies` learns what is usual and gives it to edges as work.
2. All ranks: `joining` adds collectives (`collective_edges`), orders the moments (`edge_order`), names residuals and
   finds the steps.
3. Answers: `coverage/` (how much is explained), `critical_path/` (what a step's time is made of, and slack).

`latest_edges` says what each moment waited for the longest; `rewiring` gives a graph other edges.
"""
