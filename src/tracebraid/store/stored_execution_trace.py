"""`StoredExecutionTrace`: an Execution Trace whose tables are read when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.stage import Stage

__all__ = ["StoredExecutionTrace"]


class StoredExecutionTrace(ExecutionTrace):
    """An `ExecutionTrace` of a store: a member that is a table is read when it is first asked for, and kept."""

    _tables: Mapping[str, Stage[pl.DataFrame]]

    @classmethod
    def of(
        cls, members: Mapping[str, object], tables: Mapping[str, Stage[pl.DataFrame]]
    ) -> StoredExecutionTrace:
        """One of these.

        Args:
            members: all members that are no tables.
            tables: those that are.
        """
        et = cls.__new__(cls)
        vars(et).update(members, _tables=tables)
        return et

    def __getattr__(self, name: str) -> Any:
        # Is called for what is not there yet.
        if name.startswith("_") or name not in self._tables:
            raise AttributeError(f"an ExecutionTrace has no {name!r}")
        table = self._tables[name]()
        vars(self)[name] = table
        return table
