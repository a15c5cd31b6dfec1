"""Chakra's own jsonizer, visualizer and feeder read what Tracebraid writes, where `CHAKRA` names a checkout of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tracebraid
from tests.captures import CAPTURES
from tests.integration.captured import SCRIPTS
from tracebraid.chakra import Detail

CHECKOUT = os.environ.get("CHAKRA")
JOBS = ("full", "device", "merged", "synthetic")

pytestmark = [
    pytest.mark.skipif(CHECKOUT is None, reason="CHAKRA names no checkout of mlcommons/chakra"),
    pytest.mark.skipif(shutil.which("protoc") is None, reason="protoc is not installed"),
]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with Chakra as the package `chakra`, its messages compiled."""
    folder = tmp_path_factory.mktemp("peer")
    for name in ("src", "schema"):
        shutil.copytree(Path(CHECKOUT or "") / name, folder / "chakra" / name)
    schema = folder / "chakra" / "schema" / "protobuf"
    subprocess.run(["protoc", "--python_out=.", "--cpp_out=.", "et_def.proto"], cwd=schema, check=True)
    return folder


@pytest.fixture(scope="module", params=JOBS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `.et` files: of a captured pipeline, and of a synthetic job with all kinds of communication."""
    folder = tmp_path_factory.mktemp("written") / "job"
    if request.param == "synthetic":
        sizes = "--layers 2 --hidden 64 --heads 2 --sequence 16 --vocab 100"
        words = f"chakra generate transformer {sizes} --data 2 --tensor 2 --pipeline 2 --micro-batches 2"
        command = [sys.executable, "-m", "tracebraid", *words.split()]
        subprocess.run([*command, "-o", folder], check=True)
        return folder
    options = tracebraid.chakra.ChakraOptions(Detail(request.param))
    job = tracebraid.open(CAPTURES / "pipeline2")
    tracebraid.export(job, folder, "chakra", tracebraid.ExportOptions(chakra=options))
    return folder


def run_peer(peer: Path, tool: str, source: Path, target: Path) -> None:
    names: list[str | Path] = ["--input_filename", source, "--output_filename", target]
    subprocess.run([sys.executable, "-m", f"chakra.src.{tool}.{tool}", *names], cwd=peer, check=True)


def messages_of(text: str) -> list[dict[str, Any]]:
    """Messages that stand one behind the other."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text):
        message, at = decoder.raw_decode(text, at)
        found.append(message)
    return found


def test_the_jsonizer_sees_every_node(peer: Path, written: Path, tmp_path: Path) -> None:
    for path in sorted(written.glob("*.et")):
        run_peer(peer, "jsonizer", path, tmp_path / "out.json")
        _, *nodes = messages_of((tmp_path / "out.json").read_text())
        ours = tracebraid.chakra.read(path)
        assert [int(node.get("id", 0)) for node in nodes] == ours.nodes.get_column("node_id").to_list()
        assert [node["type"] for node in nodes] == ours.nodes.get_column("type").cast(pl.String).to_list()
        assert [
            int(dep) for node in nodes for dep in node.get("dataDeps", [])
        ] == ours.data_deps.node_id.tolist()


def test_the_visualizer_draws_every_node(peer: Path, written: Path, tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    pytest.importorskip("graphviz")
    path = written / "job.0.et"
    run_peer(peer, "visualizer", path, tmp_path / "out.graphml")
    ours = tracebraid.chakra.read(path)
    assert len(networkx.read_graphml(tmp_path / "out.graphml")) == ours.nodes.height


@pytest.fixture(scope="module")
def feeder(peer: Path) -> Path:
    """A program that walks through a file with Chakra's feeder."""
    source, utilities = peer / "chakra" / "src" / "feeder", peer / "chakra" / "src" / "third_party" / "utils"
    schema = peer / "chakra" / "schema" / "protobuf"
    files: list[str | Path] = [
        SCRIPTS / "chakra_feeder.cpp",
        source / "et_feeder.cpp",
        source / "et_feeder_node.cpp",
        utilities / "protoio.cc",
        schema / "et_def.pb.cc",
    ]
    # Its sources lack these two headers.
    flags: list[str | Path] = ["-w", "-std=c++14", "-include", "string", "-include", "stdexcept"]
    folders: list[str | Path] = [f"-I{folder}" for folder in (source, utilities, schema)]
    libraries: list[str | Path] = ["-lprotobuf", "-lpthread", "-lz", "-o", peer / "feeder"]
    subprocess.run(["g++", *flags, *folders, *files, *libraries], check=True)
    return peer / "feeder"


@pytest.mark.slow
def test_the_feeder_hands_out_every_node(feeder: Path, written: Path) -> None:
    for path in sorted(written.glob("*.et")):
        done = subprocess.run([feeder, path], check=True, capture_output=True, text=True)
        nodes = tracebraid.chakra.read(path).nodes
        totals = nodes.height, nodes.get_column("duration_micros").sum(), nodes.get_column("comm_size").sum()
        assert tuple(map(int, done.stdout.split())) == totals
