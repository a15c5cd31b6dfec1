"""Link Execution Trace nodes to host ops without ids; `approximate.py` is the entry point."""
