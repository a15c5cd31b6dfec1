"""Execution Trace node to host op where ids do not prove links; `approximate.py` is the entry point."""
