"""An Execution Trace, as JSON or in columns, to an `ExecutionTrace`; `reader.py` is the way in."""
