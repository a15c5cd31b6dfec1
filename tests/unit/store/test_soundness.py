"""Stores whose hashes fit and whose content does not: somebody made them, and each is one error that names the file."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.integration.command import write_pair
from tracebraid.errors import InputError
from tracebraid.store.parquet import frame_of, values_of

HEAD, BETWEEN, TAIL = b'{"sha256":"', b'",\n"content":', b"}\n"
START = len(HEAD) + 64 + len(BETWEEN)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    write_pair(folder / "traces")
    return Path(tracebraid.pack(folder / "traces", folder / "job.tbstore").path)


@pytest.fixture
def store(packed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packed, tmp_path / "job.tbstore", ignore=shutil.ignore_patterns("answers")))


def reseal(path: Path, change: Callable[[Any], object]) -> None:
    """Change what a sealed file holds, and seal it again."""
    document = json.loads(path.read_bytes()[START : -len(TAIL)])
    change(document)
    write(path, json.dumps(document, separators=(",", ":")).encode())


def write(path: Path, text: bytes) -> None:
    path.write_bytes(HEAD + hashlib.sha256(text).hexdigest().encode() + BETWEEN + text + TAIL)


def rewrite(store: Path, table: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Path:
    """Change a table, with the hash that fits."""
    path = store / f"tables/{table}/rank_000000.parquet"
    frame = change(pl.read_parquet(path))
    frame.write_parquet(path)
    content = path.read_bytes()
    stated = {"rows": frame.height, "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    reseal(store / "ranks/rank_000000.json", lambda document: document["tables"].update({table: stated}))
    return path


def read_all(store: Path) -> None:
    job = tracebraid.open(store)
    for rank in job.ranks:
        linked = job[rank]
        for name in linked.timeline.tables:
            assert linked.timeline.tables[name].width
        assert linked.coverage.host_ops
        assert linked.dependencies.width
        assert linked.host_tree.width
        assert linked.host_links.width + linked.node_links.width + linked.device_links.width
        assert linked.launches.width
        assert linked.et is not None
        assert linked.et.nodes.width
        assert [finding.message for finding in linked.all_findings]


FINDING = {"code": "several-processes", "path": "x", "where": "", "count": 1, "loss": None, "details": {}}
MATCHED = {"agreement": 1, "programs": ["", ""], "ambiguous": 0}
CHOICE = {"$kind": "ChosenIterations", "value": {}}
RANK: dict[str, Callable[[Any], object]] = {
    "a finding without its details": lambda rank: rank["timeline"].update(findings=[FINDING]),
    "a finding of an unknown code": lambda rank: rank["timeline"].update(
        findings=[{**FINDING, "code": "odd"}]
    ),
    "a finding with a kind of nothing": lambda rank: rank["timeline"].update(
        findings=[{**FINDING, "details": {"case": {"$kind": "dict", "value": [[[], 1]]}}}]
    ),
    "a table outside": lambda rank: rank["tables"].update({"../../x": rank["tables"]["events"]}),
    "equal to no table": lambda rank: rank["same"].update(events="odd"),
    "a rank below 0": lambda rank: rank["timeline"].update(rank=-1),
    "a number of 100 digits": lambda rank: rank["timeline"].update(base_time_ns=10**99),
    "no coverage": lambda rank: rank.update(coverage=None, link_error=None),
    "no Execution Trace": lambda rank: rank.update(execution_trace=None),
    "an error of no kind": lambda rank: rank.update(link_error={"kind": "OSError", "values": ["x"]}),
    "findings of one stage": lambda rank: rank.update(findings=[[]]),
    "no choice": lambda rank: rank.update(matched={**MATCHED, "choice": CHOICE}),
}


@pytest.mark.parametrize("case", RANK)
def test_what_describes_a_rank_holds_together(store: Path, case: str) -> None:
    path = store / "ranks/rank_000000.json"
    reseal(path, RANK[case])
    with pytest.raises(InputError, match="damaged") as caught:
        read_all(store)
    assert caught.value.path == str(path)


@pytest.mark.parametrize("text", [b"[" * 100_000, b"", b"{", b"\xff", b"9" * 5000, b'{"format":3}', b"[]"])
def test_a_manifest_that_is_no_json_of_a_store_is_refused(store: Path, text: bytes) -> None:
    write(store / "store.json", text)
    with pytest.raises(InputError, match="damaged") as caught:
        tracebraid.open(store)
    assert caught.value.path == str(store / "store.json")


TABLES: dict[str, tuple[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    "an event twice": ("events", lambda frame: frame.with_columns(event_id=pl.lit(0, pl.Int64))),
    "a lane that is not there": ("events", lambda frame: frame.with_columns(lane=pl.lit(10**9, pl.Int64))),
    "an op that is not there": ("host_ops", lambda frame: frame.with_columns(event_id=pl.lit(-5, pl.Int64))),
    "a circle of events": ("host_tree", lambda frame: frame.with_columns(parent_event=pl.col("event_id"))),
    "a tree of no events": ("host_tree", lambda frame: frame.clear()),
    "a tree without a leaf": ("host_tree", lambda frame: frame.head(-1)),
    "a circle of nodes": ("nodes", lambda frame: frame.with_columns(parent_id=pl.col("node_id"))),
    "a node twice": ("nodes", lambda frame: pl.concat([frame, frame])),
    "another column": ("events", lambda frame: frame.rename({"lane": "track"})),
    "no column": ("events", lambda frame: frame.select()),
    **{
        f"{table} twice": (table, lambda frame: pl.concat([frame, frame]))
        for table in (
            "host_ops",
            "host_calls",
            "device_work",
            "launches",
            "host_links",
            "node_links",
            "device_links",
        )
    },
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_names_rows_that_are_there(store: Path, case: str) -> None:
    path = rewrite(store, *TABLES[case])
    with pytest.raises(InputError, match="damaged") as caught:
        read_all(store)
    assert caught.value.path == str(path)


@pytest.mark.full
def test_a_query_over_a_table_that_is_none_is_an_error_of_its_file(store: Path) -> None:
    path = rewrite(store, "events", lambda frame: frame.rename({"lane": "track"}))
    with pytest.raises(InputError) as caught:
        tracebraid.open(store).sql("SELECT * FROM events")
    assert caught.value.path == str(path)


def test_a_parquet_file_says_how_much_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    pl.DataFrame({"a": [1, 2, 3], "l": [[1], [2, 3], []]}).write_parquet(file, row_group_size=2)
    content = file.getvalue()
    assert values_of(content) == 3 * len(("schema", "a", "l", "list", "element"))
    assert frame_of(content).height == 3
    for cut in range(0, len(content), 7):
        with pytest.raises(ValueError, match=r"(?i)parquet"):
            frame_of(content[:cut])
    monkeypatch.setattr("tracebraid.store.parquet.unpacked_at_most_bytes", lambda size_bytes: 100)
    with pytest.raises(ValueError, match="more than 500 times its size"):
        frame_of(content)
