"""Changes of every kind for what-if, usual and odd."""

from __future__ import annotations

import random
from dataclasses import fields

from tools.fuzz.calls.values import odd_text
from tracebraid.model.graph.change import Verb, Where

__all__ = ["odd_change"]

_VALUES = {
    Verb.SCALE: ("0", "0.5", "1", "2", "50%", "1e3", "3x", "100000000000000000000", "0.0000001"),
    Verb.SET: ("0us", "10us", "1ns", "1.5ms", "3s", "9223372036854775807ns", "100000000000000s"),
    Verb.SPLIT: ("1", "2", "3", "1000", "1000000", "100000000000000000000"),
    Verb.MOVE: ("0", "7", "20", "99", "9223372036854775807", "9223372036854775808"),
    Verb.BANDWIDTH: ("0.5", "2", "1000000000000", "0.000000000001", "200%"),
    Verb.LATENCY: ("0", "0.5", "2", "1000000000000"),
    Verb.MERGE: ("1B", "25MB", "1kB", "100GB", "100000000000000000000GB"),
    Verb.OFFLOAD: ("", "1", "2", "1000", "100000000000000000000"),
    Verb.FUSE: ("1", "2", "4", "1000", "100000000000000000000"),
    Verb.RANKS: ("1", "2", "3", "4", "64", "1000000", "100000000000000000000"),
}
_WHERE = {
    "rank": ("0", "1", "0-1", "5", "0-99999999999"),
    "step": ("1", "2", "1-2", "ProfilerStep#1", "ProfilerStep*"),
    "kind": ("op", "kernel", "call", "communication", "collective", "thread", "copy", "python", "annotation"),
    "name": ("*", "aten::*", "cuda*", "/.*/", "/(/", "nccl*", "sgemm*"),
    "op": ("*", "aten::mm", "aten::*", "c10d::*"),
    "within": ("*", "aten::*", "ProfilerStep*"),
    "module": ("*", "Model_0", "Linear*"),
    "shapes": ("[[64, 1024], [1024, 1024]]", "[]", "*"),
    "family": ("gemm", "communication", "elementwise", "copy", "other"),
    "stream": ("7", "0-100", "20"),
    "group": ("0", "*", "pair", "default_pg"),
}
_ODD = 0.08
"""Share of values and keys that are anything at all."""


def odd_change(rng: random.Random) -> str:
    """A change: most are such as people ask for, at limits; some are not."""
    verb = rng.choice(list(Verb))
    words = [verb.value, rng.choice(_VALUES.get(verb, ("",)))]
    keys = rng.sample([key.name for key in fields(Where)], rng.choice((0, 0, 1, 1, 2)))
    words += [f'{key}="{rng.choice(_WHERE[key])}"' for key in keys]
    if verb is Verb.FUSE and rng.random() < 0.3:
        words.append(f"factor={rng.choice(('0', '0.5', '1', '2', '100000000000000000000'))}")
    if rng.random() < _ODD:
        words[rng.randrange(len(words))] = odd_text(rng)
    return " ".join(word for word in words if word)
