"""Networks as people write them, and as ASTRA-sim's network and system files have them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.amounts import NUMBER_AND_UNIT, TIME_UNITS_NS
from tracebraid.model.chakra.astra_sim_words import GIB_S, IMPLEMENTATIONS, LEAST_RANKS, TOPOLOGIES
from tracebraid.model.chakra.network import Algorithm, CollectiveSettings, Dimension, Network, Topology

__all__ = ["MEASURED", "network_of_file", "network_of_text", "settings_of_file"]

MEASURED = "measured"
"""The network on which communication takes the time that the files say."""

_BANDWIDTH_UNITS = {
    "": GIB_S,
    "GiB/s": GIB_S,
    "MiB/s": GIB_S / 2**10,
    "TiB/s": GIB_S * 2**10,
    "GB/s": 1.0,
    "MB/s": 1e-3,
    "TB/s": 1e3,
    "Gb/s": 1 / 8,
    "Gbit/s": 1 / 8,
}
"""Units of bandwidth in bytes per ns; a number without a unit is as in ASTRA-sim's files."""
_LATENCY_UNITS = {"": 1.0, **TIME_UNITS_NS}
_DIGITS = 9
"""Digits of a number of ranks at most: Python refuses to convert texts of thousands."""
_LEAST_BYTES_PER_NS = 1e-9
"""A byte a second: no link is slower."""
_MOST = 1 << 62
"""What a number of a system file is at most: times are 64 bits."""
_EXAMPLE_GIB_S, _EXAMPLE_LATENCY_NS = "50", "500"
"""Of a link in ASTRA-sim's own examples (examples/network/analytical/Ring_4npus.yml)."""
_LIST = re.compile(r"^\s*(?P<key>\w+)\s*:\s*\[(?P<values>[^\]]*)\]\s*(#.*)?$")
_EXPECTED = "such as ring,50GB/s,500ns or switch:8,400,1us+ring:4,25,2us or measured"


def network_of_text(text: str) -> Network:
    """A network from `TOPOLOGY[:RANKS][,BANDWIDTH[,LATENCY]]`, the dimensions joined by `+`; or `measured`.

    A bandwidth without a unit is GiB/s and a latency without one ns, as in ASTRA-sim's files; what is not given is that
    of ASTRA-sim's examples, 50 GiB/s and 500 ns.

    Raises:
        ArgumentError: it makes no sense.
    """
    if text.strip() == MEASURED:
        return Network(MEASURED, ())
    return Network(text.strip(), tuple(_dimension(part.strip(), text) for part in text.split("+")))


def _dimension(part: str, text: str) -> Dimension:
    fields = [field.strip() for field in part.split(",")]
    named, _, ranks = fields[0].partition(":")
    topologies = {topology.value: topology for topology in Topology}
    if named not in topologies or len(fields) > len(("topology", "bandwidth", "latency")):
        known = ", ".join(topologies)
        raise ArgumentError(f"{text!r} is no network: name one of {known}, {_EXPECTED}")
    if ranks and not (ranks.isdecimal() and len(ranks) <= _DIGITS and int(ranks) >= LEAST_RANKS):
        raise ArgumentError(f"{text!r}: {ranks!r} is no number of ranks from {LEAST_RANKS} on")
    bandwidth, latency = [*fields[1:], *(_EXAMPLE_GIB_S, _EXAMPLE_LATENCY_NS)[len(fields) - 1 :]]
    per_ns = _amount(bandwidth, _BANDWIDTH_UNITS, f"{text!r}: {bandwidth!r} is no bandwidth")
    if per_ns < _LEAST_BYTES_PER_NS:
        raise ArgumentError(f"{text!r}: a bandwidth is a byte a second at least")
    latency_ns = _amount(latency, _LATENCY_UNITS, f"{text!r}: {latency!r} is no latency")
    return Dimension(topologies[named], per_ns, latency_ns, int(ranks) if ranks else None)


def _amount(text: str, units: Mapping[str, float], problem: str) -> float:
    # A unit of a rate holds a slash, which amounts do not know.
    match = re.fullmatch(NUMBER_AND_UNIT.pattern.replace("%]", "%/]"), text)
    if match is None or match[2] not in units or not math.isfinite(float(match[1])):
        raise ArgumentError(f"{problem}; the units are {', '.join(filter(None, units))}")
    return float(match[1]) * units[match[2]]


def network_of_file(text: str, path: str) -> Network:
    """The network of ASTRA-sim's analytical network file.

    Args:
        text: of the file.
        path: as messages name it.

    Raises:
        InputError: it is no such file.
    """
    rows = {}
    for line in text.splitlines():
        match = _LIST.match(line)
        if match is not None:
            rows[match["key"]] = [value.strip().strip("\"'") for value in match["values"].split(",")]
    keys = ("topology", "npus_count", "bandwidth", "latency")
    missing = [key for key in keys if key not in rows]
    if missing:
        raise _no_network(path, f"it has no list `{missing[0]}`")
    if len({len(rows[key]) for key in keys}) > 1:
        raise _no_network(path, "its lists have not the same length: one entry for each dimension")
    return Network(
        path,
        tuple(_dimension_of_file(values, path) for values in zip(*(rows[key] for key in keys), strict=True)),
    )


def _dimension_of_file(values: Sequence[str], path: str) -> Dimension:
    topology, ranks, bandwidth, latency = values
    if topology not in TOPOLOGIES:
        raise _no_network(path, f"it names the topology {topology!r}; known: {', '.join(TOPOLOGIES)}")
    try:
        found = Dimension(TOPOLOGIES[topology], float(bandwidth) * GIB_S, float(latency), int(ranks))
    except ValueError:
        raise _no_network(path, f"one of {', '.join(values[1:])} is no number") from None
    is_possible = (
        _LEAST_BYTES_PER_NS <= found.bandwidth_bytes_per_ns < math.inf and 0 <= found.latency_ns < _MOST
    )
    if not is_possible or not LEAST_RANKS <= (found.ranks or 0) < 10**_DIGITS:
        raise _no_network(
            path,
            "a bandwidth is below a byte a second, a latency below 0 or endless, or a dimension of a single rank, "
            "or of a billion",
        )
    return found


def _no_network(path: str, problem: str) -> InputError:
    return InputError(path, problem, "Name a network file of ASTRA-sim's analytical backend")


def settings_of_file(text: str | bytes, path: str) -> CollectiveSettings:
    """How collectives are done, from ASTRA-sim's system file.

    Args:
        text: of the file.
        path: as messages name it.

    Raises:
        InputError: it is no such file, or names an algorithm that is not known here.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _no_system(path, f"it is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise _no_system(path, "it is no JSON object")
    plain = CollectiveSettings()
    return CollectiveSettings(
        chunks=int(_number(found, "preferred-dataset-splits", plain.chunks, 1, path)),
        active_chunks=int(_number(found, "active-chunks-per-dimension", plain.active_chunks, 1, path)),
        endpoint_delay_ns=int(_number(found, "endpoint-delay", plain.endpoint_delay_ns, 0, path)),
        memory_bytes_per_ns=_number(found, "local-mem-bw", plain.memory_bytes_per_ns, 1e-3, path),
        algorithms={
            kind: _algorithms(found[key], key, path) for key, kind in IMPLEMENTATIONS.items() if key in found
        },
    )


def _number(found: Mapping[str, object], key: str, default: float, least: float, path: str) -> float:
    value = found.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < _MOST:
        raise _no_system(path, f"its {key} is {value!r}, and not a number from {least:g} to {_MOST:,}")
    return value


def _algorithms(value: object, key: str, path: str) -> tuple[Algorithm, ...]:
    known = {algorithm.value: algorithm for algorithm in Algorithm}
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(name, str) and name in known for name in value)
    ):
        raise _no_system(path, f"its {key} is {value!r}, and not a list of: {', '.join(known)}")
    return tuple(known[name] for name in value)


def _no_system(path: str, problem: str) -> InputError:
    return InputError(path, problem, "Name a system file of ASTRA-sim, with algorithms that are known here")
