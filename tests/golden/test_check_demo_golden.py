"""Does a check say of the bundled traces what is true of them?"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.golden.linked import load, pair
from tests.misled import misled_copy, wrong_parents
from tests.unit.validation.made import codes
from tracebraid import check


def test_of_the_bundled_traces_there_is_nothing_to_complain_about(demo: Path) -> None:
    found = check(demo)
    assert found.links
    assert codes(found) == []
    assert [len(one.steps) for one in found.ranks] == [3, 3]
    for one in found.ranks:
        assert one.coverage is not None
        assert one.coverage.host_ops.share == 1.0
        assert one.coverage.et_nodes.share > 0.999


@pytest.mark.full
def test_wrong_parents_are_found_and_can_be_repaired(demo: Path, tmp_path: Path) -> None:
    found = check(misled_copy(demo, tmp_path))
    assert found.links
    assert codes(found) == ["parents-differ", "parents-differ"]
    expected = [len(wrong_parents(load(demo / f"torch_et_{rank}.json.gz")["nodes"])) for rank in (0, 1)]
    assert [one.finding.count for one in found.diagnoses] == expected
    assert all("--repair" in one.advice for one in found.diagnoses)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_bundled_traces_come_from_the_native_recorder(demo: Path, rank: int) -> None:
    linked = pair(demo, rank)
    assert linked.et is not None
    assert (linked.et.recorder, linked.et.findings, linked.findings) == ("native", (), ())


def test_the_bundled_traces_name_no_machine(demo: Path) -> None:
    """No host, no command line, no absolute path."""
    for path in sorted(demo.iterdir()):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        assert set(re.findall(r'"host(?:_name)?": "(.*?)"', text)) <= {"localhost"}
        assert re.findall(r'(?<![\w)])/\w[^"\s]*', text) == []
        if path.name.startswith("manifest"):
            assert json.loads(text)["command_line"] == ["python"]
