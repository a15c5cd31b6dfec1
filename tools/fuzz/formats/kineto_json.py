"""Kineto traces as JSON, in the layouts of their writers, plain and compressed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import zstandard

from tests.builders import Json, kineto_text
from tools.fuzz.calls.commands import INFO
from tools.fuzz.calls.traces import READ_TIMELINE
from tools.fuzz.model import Format, Sample
from tools.fuzz.mutations.json_texts import JSON_TEXT, JSON_VALUES
from tools.fuzz.mutations.raw_bytes import RAW_BYTES, STREAMS
from tools.fuzz.sample_traces import demo_rank, gpu_rank, without_metadata


def _samples(_: Path) -> list[Sample]:
    gpu, demo = gpu_rank(0), demo_rank(0)
    old = [
        {**event, "cat": _OLD_CATEGORIES.get(event.get("cat", ""), event.get("cat"))} for event in gpu.events
    ]
    made = [
        _sample("gpu", gpu.events, gpu.kineto),
        _sample("demo", demo.events, demo.kineto),
        _sample("one line", gpu.events, json.dumps({**gpu.header, "traceEvents": gpu.events}).encode()),
        _sample(
            "compact", demo.events, json.dumps({"traceEvents": demo.events}, separators=(",", ":")).encode()
        ),
        _sample("bare list", gpu.events, json.dumps(gpu.events).encode()),
        _sample("header behind", gpu.events, json.dumps({"traceEvents": gpu.events, **gpu.header}).encode()),
        _sample("old", old, kineto_text(old, {"schemaVersion": 0}).encode()),
    ]
    packed = [
        ("gzip", ".gz", gzip.compress(gpu.kineto, mtime=0)),
        ("zstd", ".zst", zstandard.ZstdCompressor().compress(gpu.kineto)),
    ]
    return [*made, *(_sample(name, gpu.events, data, end) for name, end, data in packed)]


_OLD_CATEGORIES = {
    "cpu_op": "Operator",
    "kernel": "Kernel",
    "cuda_runtime": "Runtime",
    "gpu_memcpy": "Memcpy",
}


def _sample(name: str, events: list[Json], data: bytes, end: str = "") -> Sample:
    return Sample(name, {f"kineto_trace_0.n{without_metadata(events)}.json{end}": data})


FORMAT = Format(
    "kineto_json",
    _samples,
    (*JSON_VALUES, *JSON_VALUES, *JSON_TEXT, *STREAMS, *RAW_BYTES),
    [READ_TIMELINE],
    [INFO],
)
