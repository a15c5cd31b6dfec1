"""Networks as people write them, and ASTRA-sim's files."""

from __future__ import annotations

import json

import pytest

from tests.cases import cases
from tracebraid.chakra import Algorithm, CollectiveCommType, CollectiveSettings, Dimension, Topology
from tracebraid.chakra.running.network import network_of_file, network_of_text, settings_of_file
from tracebraid.errors import ArgumentError, InputError

GIB_S = 2**30 / 1e9
RING_4 = """topology: [ Ring ]
npus_count: [ 4 ]
bandwidth: [ 50.0 ]  # GB/s
latency: [ 500.0 ]  # ns
"""


@pytest.mark.parametrize(
    ("text", "dimensions"),
    [
        ("ring", (Dimension(Topology.RING, 50 * GIB_S, 500),)),
        ("ring,25", (Dimension(Topology.RING, 25 * GIB_S, 500),)),
        (" switch , 100GB/s , 1.5us ", (Dimension(Topology.SWITCH, 100, 1500),)),
        ("fully-connected,400Gbit/s,0", (Dimension(Topology.FULLY_CONNECTED, 50, 0),)),
        (
            "switch:8,400,1us+ring:4,25,2us",
            (Dimension(Topology.SWITCH, 400 * GIB_S, 1000, 8), Dimension(Topology.RING, 25 * GIB_S, 2000, 4)),
        ),
        ("measured", ()),
    ],
)
def test_networks_as_people_write_them(text: str, dimensions: tuple[Dimension, ...]) -> None:
    found = network_of_text(text)
    assert found.name == text.strip()
    assert len(found.dimensions) == len(dimensions)
    for made, wanted in zip(found.dimensions, dimensions, strict=True):
        assert (made.topology, made.ranks) == (wanted.topology, wanted.ranks)
        assert made.bandwidth_bytes_per_ns == pytest.approx(wanted.bandwidth_bytes_per_ns)
        assert made.latency_ns == pytest.approx(wanted.latency_ns)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "torus",
            "ring,",
            "ring,fast",
            "ring,50,",
            "ring,50,5min",
            "ring,50,500,7",
            "ring,-1,5",
            "ring,0,5",
        ),
        *("ring:x,50,500", "ring:1", "ring:4,50,500+", "measured,50", "ring,50MB", "ring,nan", "ring,1e3"),
    ],
)
def test_what_is_no_network_is_refused_in_words(text: str) -> None:
    with pytest.raises(ArgumentError):
        network_of_text(text)


@cases(
    "text, advice",
    {
        "a twisted torus": ("twisted-torus:4x4,50,500", "a twisted torus is not modelled"),
        "in capitals": ("TwistedTorus", "a twisted torus is not modelled"),
        "a torus": ("torus:4x4", "ring:4.ring:4"),
    },
)
def test_a_torus_is_refused_by_its_name(text: str, advice: str) -> None:
    with pytest.raises(ArgumentError, match=advice):
        network_of_text(text)


@cases(
    "line",
    {
        "on": "twisted: true",
        "of each dimension": "twist: [ 0, 2 ]",
        "another key": "  torus_twist : 1 # TPU v4",
    },
)
def test_a_network_file_that_twists_a_torus_is_refused(line: str) -> None:
    with pytest.raises(InputError, match="a twisted torus is not modelled"):
        network_of_file(f"{RING_4}{line}\n", "n.yml")


@cases(
    "line", {"off": "twisted: false", "no offset": "twist: [ 0 , 0 ]  # none", "a comment": "# twisted: true"}
)
def test_a_network_file_that_says_that_nothing_is_twisted_is_taken(line: str) -> None:
    assert network_of_file(f"{RING_4}{line}\n", "n.yml") == network_of_file(RING_4, "n.yml")


def test_the_network_file_of_astra_sim() -> None:
    found = network_of_file(RING_4, "Ring_4npus.yml")
    assert found.dimensions == (Dimension(Topology.RING, 50 * GIB_S, 500.0, 4),)
    several = RING_4.replace("Ring", "Switch, Ring").replace("4 ", "8, 4 ").replace("0.0", "0.0, 25")
    assert [part.ranks for part in network_of_file(several, "n.yml").dimensions] == [8, 4]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("latency", "delay", "no list `latency`"),
        ("[ 4 ]", "[ 4, 2 ]", "not the same length"),
        ("Ring", "Torus", "topology 'Torus'"),
        ("Ring", "TwistedTorus", "topology 'TwistedTorus'; a twisted torus is not modelled"),
        ("50.0", "fast", "is no number"),
        ("[ 4 ]", "[ 1 ]", "a dimension of a single rank"),
        ("50.0", "0", "below a byte a second"),
        ("50.0", "1e-320", "below a byte a second"),
        ("500.0", "inf", "endless"),
        ("[ 4 ]", f"[ {'9' * 400} ]", "a dimension of a single rank"),
    ],
)
def test_a_wrong_network_file_is_located(old: str, new: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as error:
        network_of_file(RING_4.replace(old, new), "n.yml")
    assert error.value.path == "n.yml"


def test_the_system_file_of_astra_sim() -> None:
    content = {
        "preferred-dataset-splits": 8,
        "active-chunks-per-dimension": 2,
        "endpoint-delay": 20,
        "local-mem-bw": 3350,
        "all-reduce-implementation": ["ring", "halvingDoubling"],
        "scheduling-policy": "LIFO",
    }
    found = settings_of_file(json.dumps(content), "s.json")
    kinds = {CollectiveCommType.ALL_REDUCE: (Algorithm.RING, Algorithm.HALVING_DOUBLING)}
    assert found == CollectiveSettings(8, 2, 20, 3350, kinds)
    assert settings_of_file("{}", "s.json") == CollectiveSettings()
    roofline = {"roofline-enabled": 1, "peak-perf": 312.5, "local-mem-bw": 2039}
    found = settings_of_file(json.dumps(roofline), "s.json")
    assert (found.roofline, found.peak_tflops, found.memory_bytes_per_ns) == (True, 312.5, 2039)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "[]",
            "{",
            '{"endpoint-delay": "10"}',
            '{"preferred-dataset-splits": 0}',
            '{"local-mem-bw": NaN}',
        ),
        *('{"endpoint-delay": true}', '{"all-reduce-implementation": "ring"}'),
        *('{"endpoint-delay": 9223372036854775808}', '{"all-reduce-implementation": [["ring"]]}'),
        *('{"all-reduce-implementation": ["doubleBinaryTree"]}', '{"all-reduce-implementation": []}'),
        *('{"roofline-enabled": 1, "peak-perf": 900}', '{"roofline-enabled": 1, "local-mem-bw": 1600}'),
        *('{"peak-perf": 0}', '{"roofline-enabled": "yes"}'),
    ],
)
def test_a_wrong_system_file_is_located(text: str) -> None:
    with pytest.raises(InputError) as error:
        settings_of_file(text, "s.json")
    assert error.value.path == "s.json"
