"""ET+: linked traces as Tracebraid, trace_link and Chakra's chakra_trace_link write them."""

from __future__ import annotations

import json
from pathlib import Path

import tracebraid
from tools.fuzz.calls.commands import run_command
from tools.fuzz.calls.traces import CONVERT, READ_ET, READ_ET_PLUS
from tools.fuzz.model import Format, Sample
from tools.fuzz.mutations.json_texts import JSON_TEXT, JSON_VALUES
from tools.fuzz.mutations.raw_bytes import RAW_BYTES
from tools.fuzz.sample_traces import demo_rank, gpu_rank


def _samples(folder: Path) -> list[Sample]:
    found = []
    for name, traces in (("gpu", gpu_rank(0)), ("demo", demo_rank(0))):
        et, kineto = folder / f"{name}_et.json", folder / f"{name}_kineto.json"
        et.write_bytes(traces.et)
        kineto.write_bytes(traces.kineto)
        ours, chakra = folder / f"{name}_ours.json", folder / f"{name}_chakra.json"
        tracebraid.write_et_plus(tracebraid.link(et, kineto), ours)
        run_command("trace-link", "--et-file", et, "--kineto-file", kineto)
        pair = ("--chakra-host-trace", et, "--chakra-device-trace", kineto)
        run_command("chakra-trace-link", *pair, "--rank", 0, "--output-file", chakra)
        written = {"ours": ours, "trace_link": folder / f"{name}_et_plus.json", "chakra": chakra}
        found += [_sample(f"{name} {writer}", path.read_bytes()) for writer, path in written.items()]
    return found


def _sample(name: str, data: bytes) -> Sample:
    return Sample(name, {f"et_plus_0.n{len(json.loads(data)['nodes'])}.json": data})


FORMAT = Format(
    "et_plus",
    _samples,
    (*JSON_VALUES, *JSON_VALUES, *JSON_TEXT, *RAW_BYTES),
    [READ_ET_PLUS],
    [READ_ET, CONVERT],
)
