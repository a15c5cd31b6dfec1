"""Does a check say of the bundled traces what is true of them?"""

from __future__ import annotations

from pathlib import Path

from tests.unit.validation.made import codes
from tracebraid.api import check


def test_the_bundled_traces_link_and_only_their_parents_differ(demo: Path) -> None:
    found = check(demo)
    assert found.links
    assert codes(found) == ["parents-differ", "parents-differ"]
    assert [one.finding.count for one in found.diagnoses] == [271, 266]
    assert all("--repair" in one.advice for one in found.diagnoses)
    assert [len(one.steps) for one in found.ranks] == [3, 3]
    for one in found.ranks:
        assert one.coverage is not None
        assert one.coverage.host_ops.share == 1.0
        assert one.coverage.et_nodes.share > 0.999
