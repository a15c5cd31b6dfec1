"""Do odd values in ET+ end in nodes, or in an error that names the file?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tracebraid
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


@pytest.mark.parametrize("count", [2**63 - 1, -(2**63)])
def test_a_size_beyond_int64_is_unknown(tmp_path: Path, count: int) -> None:
    attrs = [{"name": "in_msg_nelems", "value": count}, {"name": "dtype", "value": "Float"}]
    found = read_et_plus(written(tmp_path, {"id": 3, "attrs": attrs}))
    assert found.nodes.get_column("in_bytes").to_list() == [None, None]


def test_durations_whose_sum_is_beyond_int64_are_converted(tmp_path: Path) -> None:
    path = written(tmp_path, *({"id": number, "ts": number, "dur": 9e15} for number in range(3, 6)))
    tracebraid.convert_chakra(path, tmp_path / "x.0.et")
    durations = tracebraid.read_chakra(tmp_path / "x.0.et").nodes.get_column("duration_micros")
    assert durations.to_list() == [2, 9 * 10**15, 9 * 10**15, 9 * 10**15]


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


def test_inputs_that_are_no_text_list_no_group(tmp_path: Path) -> None:
    path = written(tmp_path, {"id": 3, "name": "## process_group:init ##", "inputs": {"values": ["[]"]}})
    path.write_bytes(path.read_bytes().replace(b'"values"', b'"value\xe4s"'))
    found = read_et_plus(path)
    assert (found.nodes.height, found.groups) == (2, {})
