"""Prefill and decode of a model that runs here and now, by the shapes that torch records."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.integration.running import run_command
from tracebraid.analysis.inference.inference_phases import inference_phases
from tracebraid.api import link

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]

SCRIPT = """
import sys
import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

torch.manual_seed(0)
torch.set_num_threads(1)
layers, heads, width = 2, 2, 16
embedding = torch.nn.Embedding(50, width)
projections = [torch.nn.Linear(width, 3 * width) for _ in range(layers)]
head = torch.nn.Linear(width, 50)
cache = [None] * layers


def forward(tokens):
    hidden = embedding(tokens)
    batch, length, _ = hidden.shape
    for layer, projection in enumerate(projections):
        parts = projection(hidden).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        query, new = parts[0], parts[1:]
        cache[layer] = new if cache[layer] is None else torch.cat([cache[layer], new], dim=3)
        found = functional.scaled_dot_product_attention(query, *cache[layer], is_causal=length > 1)
        hidden = hidden + found.transpose(1, 2).reshape(batch, length, width)
    return head(hidden[:, -1:]).argmax(-1)


with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
    tokens = forward(torch.randint(0, 50, (3, 7)))
    for _ in range(4):
        tokens = forward(tokens)
profiler.export_chrome_trace(sys.argv[1])
"""


def test_a_generation_is_a_prefill_and_its_decodes(tmp_path: Path) -> None:
    path = tmp_path / "kineto_trace_0.json"
    done = run_command(sys.executable, "-c", SCRIPT, path)
    assert done.returncode == 0, done.stderr
    found = inference_phases(link(None, path, processes=1))
    assert found.select("phase", "requests", "tokens").rows() == [("prefill", 3, 21), *[("decode", 3, 3)] * 4]
    assert (found.get_column("host_ns") > 0).all()
