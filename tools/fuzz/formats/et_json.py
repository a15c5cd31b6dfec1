"""Execution Traces as JSON, of all schemas that are read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import zstandard

from tests.builders import Json, et_text, flattened
from tools.fuzz.calls.commands import INFO
from tools.fuzz.calls.traces import READ_ET, READ_ET_PLUS
from tools.fuzz.model import Format, Sample
from tools.fuzz.mutations.json_texts import JSON_TEXT, JSON_VALUES
from tools.fuzz.mutations.raw_bytes import RAW_BYTES, STREAMS
from tools.fuzz.sample_traces import demo_rank, gpu_rank
from tracebraid.importers.execution_trace.tables import KNOWN_SCHEMAS


def _samples(_: Path) -> list[Sample]:
    gpu, demo = gpu_rank(0).nodes, demo_rank(0).nodes
    flat = [flattened(one) for one in gpu]
    bare = [{**one, "inputs": _without(one["inputs"]), "outputs": _without(one["outputs"])} for one in gpu]
    compact = json.dumps({"nodes": gpu, "schema": KNOWN_SCHEMAS[3], "pid": 1}, separators=(",", ":"))
    return [
        _sample("1.0.1", flat, et_text(flat, "1.0.1").encode()),
        _sample("1.0.2", bare, et_text(bare, KNOWN_SCHEMAS[1]).encode()),
        _sample("1.1.0", gpu, et_text(gpu, KNOWN_SCHEMAS[4]).encode()),
        _sample("demo", demo, et_text(demo, KNOWN_SCHEMAS[5]).encode()),
        _sample("newer", gpu, et_text(gpu, "1.2.0-chakra.0.0.5").encode()),
        _sample("one line", gpu, compact.encode()),
        _sample("gzip", demo, gzip.compress(et_text(demo).encode(), mtime=0), ".gz"),
        _sample("zstd", gpu, zstandard.ZstdCompressor().compress(et_text(gpu).encode()), ".zst"),
    ]


def _without(arguments: Json) -> Json:
    """Arguments without strides, which came later."""
    return {key: value for key, value in arguments.items() if key != "strides"}


def _sample(name: str, nodes: list[Json], data: bytes, end: str = "") -> Sample:
    return Sample(name, {f"torch_et_0.n{len(nodes)}.json{end}": data})


FORMAT = Format(
    "et_json",
    _samples,
    (*JSON_VALUES, *JSON_VALUES, *JSON_TEXT, *STREAMS, *RAW_BYTES),
    [READ_ET],
    [INFO, READ_ET_PLUS],
)
