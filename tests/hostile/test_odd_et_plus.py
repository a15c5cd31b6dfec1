"""Do odd values in ET+ end in nodes, or in an error that names the file?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.reading import refused
from tracebraid.importers.et_plus.reader import read_et_plus
from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCode


def written(folder: Path, *nodes: dict[str, Any]) -> Path:
    path = folder / "et_plus_0.json"
    timed = {"name": "a", "ctrl_deps": 1, "ts": 1, "dur": 2}
    path.write_text(
        json.dumps({"schema": "1.1.1", "nodes": [{"id": 2, **timed}, *({**timed, **n} for n in nodes)]})
    )
    return path


@pytest.mark.parametrize("odd", [2**63, -(2**63) - 1, 2**64])
def test_an_id_beyond_int64_costs_its_node(tmp_path: Path, odd: int) -> None:
    found = read_et_plus(written(tmp_path, {"id": odd}, {"id": 3}))
    assert found.nodes.get_column("node_id").to_list() == [2, 3]
    assert [(one.code, one.loss) for one in found.findings] == [(FindingCode.NODE_UNREADABLE, Loss(1, 1))]


@pytest.mark.parametrize("member", ["ctrl_deps", "inter_thread_dep", "sync_dep"])
def test_a_node_that_waits_for_an_id_beyond_int64_is_kept(tmp_path: Path, member: str) -> None:
    found = read_et_plus(written(tmp_path, {"id": 3, member: 2**63}))
    assert found.nodes.get_column("node_id").to_list() == [2, 3]
    assert found.waits == []


def test_the_first_of_nodes_that_share_an_id_counts(tmp_path: Path) -> None:
    path = tmp_path / "et_plus_0.json"
    path.write_text(
        json.dumps({"nodes": [{"id": 2, "name": "a"}, {"id": 2, "name": "b", "ts": 1, "dur": 1}]})
    )
    assert "no node has a time" in refused(lambda: read_et_plus(path), path).problem
