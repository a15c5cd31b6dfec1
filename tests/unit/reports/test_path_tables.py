"""Tables of a critical path."""

from __future__ import annotations

from tracebraid.model.graph.codes import Residual
from tracebraid.reports.path_tables import why


def test_each_residual_has_words_of_its_own() -> None:
    words = [why(residual.name.lower()) for residual in Residual if residual is not Residual.NONE]
    assert all(words)
    assert len(set(words)) == len(words)
    assert why(None) == ""
