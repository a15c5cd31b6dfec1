"""On which host a rank ran, and in which groups: from the first source that says so."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.builders import Json, kineto_text, op
from tracebraid.importers.sampling.rank_origins import origin_of_header, rank_origins
from tracebraid.model.rank_files import RankFiles
from tracebraid.model.rank_origin import GroupOfRank, RankOrigin

EVENTS = [op("aten::add", 0, 5, host_name="an argument", distributedInfo={"rank": 5})]
GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]},
    {"pg_name": "1", "pg_desc": "TENSOR", "ranks": [2, 3]},
    {"pg_name": "2", "pg_desc": "CUT", "ranks": "[2, 3, ..."},
]
EXPECTED = (GroupOfRank("default_pg", (0, 1, 2, 3)), GroupOfRank("TENSOR", (2, 3)))

UNSAID = kineto_text(EVENTS * 10_000).replace('"distributedInfo": {"rank": 0},', "")
"""Neither head nor tail has the members, and events have arguments of their names."""


def members(host: str = "node-7") -> Json:
    return {"distributedInfo": {"rank": 2, "pg_config": GROUPS}, "host_name": host}


def origin(folder: Path, name: str, text: str | bytes) -> RankOrigin:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (found,) = rank_origins([RankFiles(2, str(path), None)])
    return found


def test_the_head_says_it_plain_and_compressed(tmp_path: Path) -> None:
    text = kineto_text(EVENTS, members())
    expected = RankOrigin(2, "node-7", EXPECTED)
    assert origin(tmp_path, "kineto_trace_2.json", text) == expected
    assert origin(tmp_path, "kineto_trace_2.json.gz", gzip.compress(text.encode())) == expected


def test_the_tail_says_it_where_the_head_does_not(tmp_path: Path) -> None:
    text = kineto_text(EVENTS * 10_000, {"distributedInfo": None}, members())
    assert len(text) > 1 << 21
    text = text.replace('"distributedInfo": null,', "")
    assert origin(tmp_path, "kineto_trace_2.json", text) == RankOrigin(2, "node-7", EXPECTED)


def test_arguments_of_events_are_no_header(tmp_path: Path) -> None:
    assert origin(tmp_path, "kineto_trace_2.json", UNSAID) == RankOrigin(2)


def test_the_name_of_tensorboards_handler_has_the_host(tmp_path: Path) -> None:
    name = "gpu-node_12.cluster_4711.1700000000000000000.pt.trace.json"
    assert origin(tmp_path, name, kineto_text(EVENTS)).host == "gpu-node_12.cluster"


def test_the_manifest_has_host_and_groups_also_from_above_a_window(tmp_path: Path) -> None:
    manifest = {"rank": 2, "host": "node-9", "process_groups": GROUPS}
    (tmp_path / "manifest_2.json").write_text(json.dumps(manifest))
    window = tmp_path / "window_0"
    window.mkdir()
    expected = RankOrigin(2, "node-9", EXPECTED)
    assert origin(tmp_path, "kineto_trace_2.json", kineto_text(EVENTS)) == expected
    assert origin(window, "kineto_trace_2.json", kineto_text(EVENTS)) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"\x1f\x8b" + bytes(100),
        b'{"distributedInfo": {"pg_config": [[[[',
        b'{"distributedInfo": ' + b"[" * 200_000,
        b'{"distributedInfo": {"pg_config": 5}, "host_name": null, "traceEvents": []}',
        b'{"distributedInfo": {"pg_config": [{"ranks": [1e400, {}]}]}, "traceEvents": []}',
    ],
)
def test_what_cannot_be_read_says_nothing(tmp_path: Path, text: bytes) -> None:
    assert origin(tmp_path, "kineto_trace_2.json", text) == RankOrigin(2)


def test_a_file_that_is_gone_says_nothing(tmp_path: Path) -> None:
    assert rank_origins([RankFiles(2, str(tmp_path / "kineto_trace_2.json"), None)]) == [RankOrigin(2)]


def test_a_header_that_is_read_already_says_the_same() -> None:
    assert origin_of_header(2, "kineto_trace_2.json", members()) == RankOrigin(2, "node-7", EXPECTED)
