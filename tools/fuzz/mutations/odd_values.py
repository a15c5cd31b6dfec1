"""Values that a member of a JSON object can have and that no recorder writes there, as JSON text."""

from __future__ import annotations

import random

__all__ = ["ODD_KEYS", "odd_value"]

_CONSTANTS = ("null", "true", "false", "{}", "[]", '""', "NaN", "Infinity", "-Infinity")
_LIMITS = tuple(
    str(sign * (limit + by))
    for limit in (0, 2**7, 2**15, 2**16, 2**31, 2**32, 2**53, 5 * 10**18, 2**63, 2**64, 10**30)
    for sign in (1, -1)
    for by in (-1, 0, 1)
)
_FLOATS = (
    "-0",
    "-0.0",
    "0.5",
    "1.5",
    "1e3",
    "4e15",
    "1e18",
    "1e19",
    "1e308",
    "1e400",
    "-1e400",
    "1e-320",
    "1.5e-300",
)
_STRINGS = (
    *(
        "0",
        "1",
        "-1",
        "1.5",
        "0x10",
        "1e9",
        "NaN",
        "null",
        "true",
        " ",
        "x",
        "rank 0",
        "[0, 1]",
        "[[",
        "{",
        "stream 7",
    ),
    *(
        r"\u0000",
        r"\ud800",
        r"\udc00\ud800",
        r"\u001b[31m",
        r"\u202eabc",
        r"\u009b1m",
        r"\u007f",
        r"\n\r\t",
        r"\"\\",
    ),
    *(
        "ü€\U0001f600",
        "\ufeff",
        "\u2028",
        "=1+1",
        "@x",
        "<script>x</script>",
        "../../x",
        "/etc/passwd",
        "CON",
    ),
    *(
        "Tensor(float)",
        "GenericList[Tensor(float),Tensor(float)]",
        "ProfilerStep#1",
        "ProfilerStep#99999999999999999999",
    ),
    *(
        "record_param_comms",
        "nccl:all_reduce",
        "## process_group:init ##",
        "Memcpy HtoD",
        "aten::mm",
        "cpu_op",
        "kernel",
    ),
    *("X", "i", "s", "f", "M", "C", "b", "e", "T", "XX"),
    *(r"}, {\"ph\":", r"\"},{\"name\":\"", "a" * 300, "9" * 400),
)
_OBJECTS = (
    *(
        "[null]",
        "[[]]",
        "[1, 2, 3]",
        '["x"]',
        '[0, 0, 0, 0, 0, "cpu"]',
        '[1, 2, 3, 4, 5, "cuda:0", 7]',
        "[{}]",
    ),
    *('{"a": 1}', '{"ph": "X"}', '{"id": 1}', '{"name": "x", "type": "y", "value": 1}', '{"values": []}'),
    *(
        '{"traceEvents": []}',
        '{"nodes": []}',
        '[{"ph": "X", "name": "n", "ts": 1}]',
        '[{"id": 1, "name": "n"}]',
    ),
)
_LARGE = (
    '"' + "ab\\n " * 13_000 + '"',
    "[" * 1000 + "]" * 1000,
    '{"a": ' * 1000 + "1" + "}" * 1000,
    "[" * 200 + "]" * 200,
    "9" * 5000,
    "1." + "0" * 2000 + "1",
    "[" + ", ".join(["1"] * 2000) + "]",
)
ODD_KEYS = (
    "",
    "ph",
    "id",
    "name",
    "ts",
    "args",
    "value",
    "values",
    "External id",
    "\u202e",
    "a" * 100,
    "nodes",
    "traceEvents",
)
"""Names that a member can be given."""


def odd_value(rng: random.Random) -> str:
    """JSON text of a value; not all are strict JSON."""
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(_CONSTANTS)
    if kind < 0.4:
        return rng.choice(_LIMITS)
    if kind < 0.5:
        return rng.choice(_FLOATS)
    if kind < 0.8:
        return f'"{rng.choice(_STRINGS)}"'
    return rng.choice(_OBJECTS if kind < 0.97 else _LARGE)
