"""Names of the nodes that the recorder of an Execution Trace writes for itself."""

from __future__ import annotations

PROCESS_ROOT = "[pytorch|profiler|execution_trace|process]"
"""The node that stands for the process: the parent of the threads' own."""
THREAD_ROOT = "[pytorch|profiler|execution_trace|thread]"
"""The node that stands for a thread: the parent of its outermost ops."""

THREAD_ROOTS = (THREAD_ROOT, "[pytorch|profiler|execution_graph|thread]")
"""The names of threads' roots; PyTorch 2.0 called the trace a graph."""
ROOTS = (PROCESS_ROOT, "[pytorch|profiler|execution_graph|process]", *THREAD_ROOTS)
"""The names of all roots."""

PROCESS_GROUP_INIT = "## process_group:init ##"
"""The node that an observer writes as it starts, with the process groups in it; it has no event."""
