"""`chakra-generator` and `chakra-visualizer`: what Chakra's own commands write."""

from __future__ import annotations

import hashlib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.integration.command import run
from tests.unit.chakra.showing.made_rank import MISSING, NAMES, made_rank
from tracebraid.chakra.wire.writing import write_rank

THEIRS = "30c5b1806e28bdb4a45b5ebf6e8ec1fdbc25c97034f06509ee9ff873ca807e95"
"""SHA-256 over names and bytes of the files that Chakra's generator writes with `--num_npus 2` (commit 21585d8)."""


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def test_the_generator_writes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # what is there is replaced
        done = run("chakra-generator", "--num_npus", "2")
        assert done.returncode == 0, done.stderr
        assert digest(tmp_path) == THEIRS


def test_the_generator_takes_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--default_runtime", "6", "--default_tensor_size", "8", "--default_comm_size", "9")
    assert run("chakra-generator", "--num_npus", "2", *options).returncode == 0
    assert len(list(tmp_path.iterdir())) == 28
    assert digest(tmp_path) != THEIRS
    assert run("chakra-generator", "--num_npus", "0").returncode == 2


@pytest.fixture
def et(tmp_path: Path) -> Path:
    path = tmp_path / "made.0.et"
    write_rank(path, made_rank())
    return path


def visualize(et: Path, name: str) -> Path:
    out = et.with_name(name)
    done = run("chakra-visualizer", "--input_filename", str(et), "--output_filename", str(out))
    assert done.returncode == 0, done.stderr
    return out


def test_the_visualizer_s_graphml_has_its_attributes(et: Path) -> None:
    root = ET.fromstring(visualize(et, "g.graphml").read_bytes())
    prefix = "{http://graphml.graphdrawing.org/xmlns}"
    assert [key.get("attr.name") for key in root.iter(f"{prefix}key")] == ["label", "dependency"]
    labels = {node.get("id"): [data.text for data in node] for node in root.iter(f"{prefix}node")}
    assert labels["10"] == [NAMES[0]]
    assert labels[str(MISSING)] == []
    edges = {(e.get("source"), e.get("target")): e[0].text for e in root.iter(f"{prefix}edge")}
    assert edges["10", "12"] == edges[str(MISSING), "12"] == "control"
    assert sum(kind == "data" for kind in edges.values()) == 15


def test_the_visualizer_s_dot_has_its_arrows(et: Path) -> None:
    lines = visualize(et, "g.dot").read_text().splitlines()
    assert lines[0] == "digraph {"
    assert "\t999 -> 12 [arrowhead=tee]" in lines
    assert "\t14 -> 10 [arrowhead=normal]" in lines
    assert sum("label=" in line for line in lines) == 11
    visualize(et, "g.dot")


def test_the_visualizer_says_what_to_do_for_a_pdf(et: Path) -> None:
    out = et.with_name("g.pdf")
    done = run("chakra-visualizer", "--input_filename", str(et), "--output_filename", str(out))
    assert done.returncode == 2
    assert ".svg" in done.stderr
    assert not out.exists()
    assert visualize(et, "g.svg").read_bytes().startswith(b"<svg")
