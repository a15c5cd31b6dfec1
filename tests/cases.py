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
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))
