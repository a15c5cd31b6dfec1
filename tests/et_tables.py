"""The tables of an Execution Trace, by name."""

from __future__ import annotations

from dataclasses import fields

from tracebraid.model.execution_trace import ExecutionTrace

ET_TABLES = [one.name for one in fields(ExecutionTrace) if one.type == "pl.DataFrame"]
