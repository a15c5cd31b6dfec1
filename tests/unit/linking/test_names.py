"""Is a node's name the same as its event's, although Kineto does not write every character?"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import polars as pl
import pytest

from tracebraid.linking.nesting import SAME_NAME, as_kineto_writes

WRITTEN = {
    "plain": "plain",
    "": "",
    " !~": " !~",
    'say "x"': "say 'x'",
    "it's": "it's",
    'both \\"': "both /'",
    "a\\b": "a/b",
    "C:\\x\\y": "C:/x/y",
    "a\nb": "ab",
    "x\n": "x",
    "a\n\\\nb": "a/b",
    "a\tb": "unknown",
    "a\rb": "unknown",
    "a\x7fb": "unknown",
    "é": "unknown",
    "new\né": "unknown",
    "日本": "unknown",
}
"""Names, and what torch 2.14 makes of them in a Kineto trace; 2.13 leaves `"` as it is."""


def as_written(*names: str) -> list[str]:
    frame = pl.DataFrame({"name": names}, schema={"name": pl.String})
    return frame.select(as_kineto_writes(pl.col("name"))).to_series().to_list()


def same(name: str, node_name: str) -> bool:
    frame = pl.DataFrame({"name": [name], "node_name": [node_name], "kineto_name": as_written(node_name)})
    return frame.select(SAME_NAME).item() is True


def test_names_are_written_as_kineto_writes_them() -> None:
    assert dict(zip(WRITTEN, as_written(*WRITTEN), strict=True)) == WRITTEN


def test_an_event_has_its_nodes_name_as_it_stands_or_as_kineto_writes_it() -> None:
    assert [name for name in WRITTEN if not same(WRITTEN[name], name) or not same(name, name)] == []
    before = {name: name.replace("\\", "/") for name in WRITTEN if '"' in name}
    assert [name for name in before if not same(before[name], name)] == []


@pytest.mark.parametrize(
    ("name", "node_name"), [("a", "b"), ("a\\b", "a/b"), ("unknown", "plain"), ("a", "A"), ("a ", "a")]
)
def test_other_names_are_not_the_same(name: str, node_name: str) -> None:
    assert not same(name, node_name)


@pytest.mark.full
@pytest.mark.torch
def test_torch_writes_names_as_the_table_says(tmp_path: Path) -> None:
    """Before 2.14 quotes are left out: they make Kineto's file invalid JSON."""
    quotes = tuple(map(int, version("torch").split(".")[:2])) >= (2, 14)
    names = [name for name in WRITTEN if name and (quotes or '"' not in name)]
    code = (
        "import json, sys, torch\n"
        "from torch.profiler import ProfilerActivity, profile, record_function\n"
        "with profile(activities=[ProfilerActivity.CPU]) as prof:\n"
        "    for name in json.loads(sys.argv[1]):\n"
        "        with record_function(name): torch.ones(1)\n"
        "prof.export_chrome_trace(sys.argv[2])\n"
    )
    path = tmp_path / "trace.json"
    command = [sys.executable, "-c", code, json.dumps(names), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    events = json.loads(path.read_bytes())["traceEvents"]
    marks = [event for event in events if event.get("cat") == "user_annotation"]
    assert [one["name"] for one in sorted(marks, key=lambda one: one["ts"])] == [
        WRITTEN[name] for name in names
    ]
