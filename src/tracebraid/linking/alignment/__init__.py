"""Execution Trace node to host op where ids do not tell; `approximate.py` is the way in."""
