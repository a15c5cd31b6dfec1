"""Kineto traces as JSON."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import tracebraid
from tools.fuzz.model import Call, Format, Sample
from tools.fuzz.mutations.raw_bytes import RAW_BYTES

__all__ = ["FORMAT"]


def _samples(_: Path) -> list[Sample]:
    """A part of the demo's first rank."""
    data = json.loads(gzip.decompress((tracebraid.demo_path() / "kineto_trace_0.json.gz").read_bytes()))
    data["traceEvents"] = data["traceEvents"][:150]
    return [Sample("demo", {"kineto_trace_0.json": json.dumps(data).encode()})]


def _read(folder: Path, _: random.Random) -> None:
    tracebraid.read_timeline(folder / "kineto_trace_0.json")


FORMAT = Format("kineto_json", _samples, RAW_BYTES, [Call("tracebraid.read_timeline", _read)])
