"""Networks and collective algorithms that Chakra's traces are run on, in the words of ASTRA-sim's files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from enum import Enum

from msgspec import Struct, field
from msgspec.structs import force_setattr

from tracebraid.chakra.codes import CollectiveCommType
from tracebraid.errors import ArgumentError, InputError
from tracebraid.model.amounts import BANDWIDTH_UNITS, NUMBER_AND_UNIT, TIME_UNITS_NS
from tracebraid.model.choices import choice


class Topology(Enum):
    """Topology of links between ranks, which messages pass."""

    RING = "ring"
    """Each rank to its two neighbours: as many links as it is away, the shorter way round."""
    SWITCH = "switch"
    """All ranks to a switch: two links."""
    FULLY_CONNECTED = "fully-connected"
    """Each rank to each other: one link."""


class Algorithm(Enum):
    """Algorithm of a collective, by the names of ASTRA-sim's system files."""

    RING = "ring"
    DIRECT = "direct"
    HALVING_DOUBLING = "halvingDoubling"


class Lanes(Enum):
    """Concurrency within a rank."""

    ASTRA_SIM = "astra-sim"
    """One lane of the host, one of compute, one of communication, as ASTRA-sim has them; receives take none."""
    STREAMS = "streams"
    """One lane for each stream and for each thread that the nodes name."""
    UNLIMITED = "unlimited"
    """Nodes wait for their dependencies alone."""


class Dimension(Struct, frozen=True):
    """One dimension of a network.

    Args:
        topology: how its ranks are linked; its text will do.
        bandwidth_bytes_per_ns: of a link, in one direction.
        latency_ns: of a link.
        ranks: how many ranks it has; None: all of the job.

    Raises:
        ArgumentError: there is no such topology.
    """

    topology: Topology
    bandwidth_bytes_per_ns: float
    latency_ns: float
    ranks: int | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "topology", choice(Topology, self.topology, "topology"))


class Network(Struct, frozen=True):
    """Network of messages.

    Args:
        name: what the user calls it.
        dimensions: the innermost first; none: communication takes the time that the files say.
    """

    name: str
    dimensions: tuple[Dimension, ...]

    @property
    def is_measured(self) -> bool:
        """Return whether communication takes the time that the files say."""
        return not self.dimensions


class CollectiveSettings(Struct, frozen=True):
    """Settings of collectives and work that ASTRA-sim reads from its system file, with defaults of its ring example.

    Args:
        chunks: parts that a collective is cut into (`preferred-dataset-splits`).
        active_chunks: of these, how many are under way at once in a dimension (`active-chunks-per-dimension`).
        endpoint_delay_ns: before each message (`endpoint-delay`).
        memory_bytes_per_ns: what reductions, and work with a roofline, read and write with (`local-mem-bw`, GB/s).
        algorithms: for each dimension, of each kind of collective (`all-reduce-implementation`, ...); a kind that is
            missing uses the ring.
        roofline: whether work of the device takes what its `num_ops` and `tensor_size` need, and not its duration
            (`roofline-enabled`).
        peak_tflops: peak of a device, for the roofline (`peak-perf`).
    """

    chunks: int = 4
    active_chunks: int = 1
    endpoint_delay_ns: int = 10
    memory_bytes_per_ns: float = 1600.0
    algorithms: Mapping[CollectiveCommType, tuple[Algorithm, ...]] = field(default_factory=dict)
    roofline: bool = False
    peak_tflops: float = 900.0

    def algorithm(self, kind: CollectiveCommType, dimension: int) -> Algorithm:
        """The algorithm of a kind of collective in a dimension."""
        named = self.algorithms.get(kind, ())
        return named[min(dimension, len(named) - 1)] if named else Algorithm.RING


GIB_S = 2**30 / 10**9
"""Bytes in a ns of a bandwidth of 1 in its network files, whose unit is GiB/s although they call it GB/s."""
LEAST_RANKS = 2
"""Minimum ranks of a network dimension for ASTRA-sim."""
TOPOLOGIES = {
    "Ring": Topology.RING,
    "Switch": Topology.SWITCH,
    "FullyConnected": Topology.FULLY_CONNECTED,
}
IMPLEMENTATIONS = {
    "all-reduce-implementation": CollectiveCommType.ALL_REDUCE,
    "all-gather-implementation": CollectiveCommType.ALL_GATHER,
    "reduce-scatter-implementation": CollectiveCommType.REDUCE_SCATTER,
    "all-to-all-implementation": CollectiveCommType.ALL_TO_ALL,
}
"""Members of its system file: the algorithm of each collective."""


MEASURED = "measured"
"""The network on which communication takes the time that the files say."""

_PER_NS = {"": GIB_S, **{unit: bytes_per_s / 1e9 for unit, bytes_per_s in BANDWIDTH_UNITS.items()}}
"""Units of bandwidth in bytes per ns; a number without a unit is as in ASTRA-sim's files."""
_LATENCY_UNITS = {"": 1.0, **TIME_UNITS_NS}
_DIGITS = 9
"""Digits of a number of ranks at most: Python refuses to convert texts of thousands."""
_LEAST_BYTES_PER_NS = 1e-9
"""A byte a second: no link is slower."""
_LEAST_TFLOPS = 1e-6
"""A million operations a second: no device is slower."""
_MOST = 1 << 62
"""Maximum number in a system file: times have 64 bits."""
_EXAMPLE_GIB_S = "50"
_EXAMPLE_LATENCY_NS = "500"
"""Link in ASTRA-sim's own examples (examples/network/analytical/Ring_4npus.yml)."""
_LIST = re.compile(r"^\s*(?P<key>\w+)\s*:\s*\[(?P<values>[^\]]*)\]\s*(#.*)?$")
_TWIST = re.compile(r"^\s*\w*twist\w*\s*:(?!\s*(false|no|off|0|\[\s*(0[\s,]*)*\])\s*(#.*)?$)", re.I)
"""A line that twists a torus, of files for other simulators."""
_EXPECTED = "such as ring,50GB/s,500ns or switch:8,400,1us+ring:4,25,2us or measured"


def network_of_text(text: str) -> Network:
    """A network from `TOPOLOGY[:RANKS][,BANDWIDTH[,LATENCY]]`, the dimensions joined by `+`; or `measured`.

    A bandwidth without a unit is GiB/s and a latency without one ns, as in ASTRA-sim's files; what is not given is that
    of ASTRA-sim's examples, 50 GiB/s and 500 ns.
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
        raise ArgumentError(
            f"{text!r} is not a network: {_torus_advice(named, ': ')}name one of {known}, {_EXPECTED}"
        )
    if ranks and not (ranks.isdecimal() and len(ranks) <= _DIGITS and int(ranks) >= LEAST_RANKS):
        raise ArgumentError(f"{text!r}: {ranks!r} is not a number of ranks from {LEAST_RANKS} on")
    bandwidth, latency = [*fields[1:], *(_EXAMPLE_GIB_S, _EXAMPLE_LATENCY_NS)[len(fields) - 1 :]]
    per_ns = _amount(bandwidth, _PER_NS, f"{text!r}: {bandwidth!r} is no bandwidth")
    if per_ns < _LEAST_BYTES_PER_NS:
        raise ArgumentError(f"{text!r}: the minimum bandwidth is a byte per second")
    latency_ns = _amount(latency, _LATENCY_UNITS, f"{text!r}: {latency!r} is no latency")
    return Dimension(topologies[named], per_ns, latency_ns, int(ranks) if ranks else None)


def _torus_advice(name: str, end: str) -> str:
    """Say of a torus, twisted or not, how it is modelled; "" for other topologies."""
    if "twist" in name.lower():
        return f"a twisted torus is not modelled, as its links are no product of dimensions{end}"
    return (
        f"a torus is a ring for each dimension, as in ring:4+ring:4{end}" if "torus" in name.lower() else ""
    )


def _amount(text: str, units: Mapping[str, float], problem: str) -> float:
    match = NUMBER_AND_UNIT.fullmatch(text)
    if match is None or match[2] not in units or not math.isfinite(float(match[1])):
        raise ArgumentError(f"{problem}; the units are {', '.join(filter(None, units))}")
    return float(match[1]) * units[match[2]]


def network_of_file(text: str, path: str) -> Network:
    """The network of ASTRA-sim's analytical network file."""
    rows = {}
    for line in text.splitlines():
        match = _LIST.match(line)
        if match is not None:
            rows[match["key"]] = [value.strip().strip("\"'") for value in match["values"].split(",")]
    twisted = next((line for line in text.splitlines() if _TWIST.match(line)), None)
    if twisted is not None:
        raise _no_network(path, f"its line {twisted.strip()!r} says: {_torus_advice('twisted', '')}")
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
        advice = _torus_advice(topology, "; ")
        raise _no_network(path, f"it names the topology {topology!r}; {advice}known: {', '.join(TOPOLOGIES)}")
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
    """Read the settings of collectives from ASTRA-sim's system file."""
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
        roofline=_has_roofline(found, path),
        peak_tflops=_number(found, "peak-perf", plain.peak_tflops, _LEAST_TFLOPS, path),
    )


def _has_roofline(found: Mapping[str, object], path: str) -> bool:
    """Return whether work takes what its operations need; ASTRA-sim takes 0 for a peak that is missing."""
    is_enabled = _number(found, "roofline-enabled", 0, 0, path) != 0
    missing = [key for key in ("peak-perf", "local-mem-bw") if key not in found]
    if is_enabled and missing:
        raise _no_system(path, f"it has roofline-enabled and no {missing[0]}")
    return is_enabled


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
