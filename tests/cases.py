"""Tables of cases: a test for each row, named by its key."""

from __future__ import annotations

from collections.abc import Mapping

import pytest


def cases(names: str, rows: Mapping[str, object]) -> pytest.MarkDecorator:
    """Run a test for each row.

    Args:
        names: the parameters, separated by commas.
        rows: by the name of each case a tuple of arguments; with a single parameter the argument itself.
    """
    if "," not in names and all(isinstance(row, tuple) and len(row) == 1 for row in rows.values()):
        raise TypeError(f"of {names} alone each row is the argument itself, and no tuple of it")
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))
