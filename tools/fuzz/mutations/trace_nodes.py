"""Changes of Execution Traces: parents, ids, tensors, attributes."""

from __future__ import annotations

import random
from typing import Any

from tools.fuzz.mutations.trace_files import NUMBERS, ODD, Change, Json, some

__all__ = ["NODES"]

_SHAPES: tuple[Any, ...] = (
    [], [[]], [[2**62, 4]], [[-1]], [[0, 0]], ["x"], [None], [[1, 2], [3]], None, 3, [[[1], [2]]], [[1.5]],
)  # fmt: skip
_TENSORS: tuple[Any, ...] = (
    [1, 1, 0, 1, 4, "cpu"], [1, 2, 0, 9, 8, "cuda:0"], [0, 0, 0, 0, 0, ""], [-1, -1, -1, -1, -1, "x"],
    [2**63, 2**63, 2**63, 2**63, 2**63, "cuda:99"], [1, 1], [], None, [1, 1, 2**62, 2**62, 8, "cuda:0"],
    [[1, 1, 0, 1, 4, "cpu"], [1, 1, 0, 1, 4, "cpu"]], "", 7, 1e300, [1.5, 1, 0, 1, 4, "cpu"],
)  # fmt: skip


def _ids(data: Json) -> list[Any]:
    return [node["id"] for node in data["nodes"]]


def parents(data: Json, rng: random.Random) -> None:
    """Nodes have another parent: themselves, a child, a later node, none."""
    ids = _ids(data)
    for node in some(data["nodes"], rng):
        node["ctrl_deps"] = rng.choice((node["id"], rng.choice(ids), rng.choice(ids), rng.choice(NUMBERS)))


def cycle(data: Json, rng: random.Random) -> None:
    """Nodes are each other's parents, round in a circle."""
    nodes = rng.sample(data["nodes"], min(len(data["nodes"]), rng.randint(1, 9)))
    for node, parent in zip(nodes, nodes[1:] + nodes[:1], strict=True):
        node["ctrl_deps"] = parent["id"]


def node_ids(data: Json, rng: random.Random) -> None:
    """Nodes have the id of another, or an odd one."""
    ids = _ids(data)
    for node in some(data["nodes"], rng):
        node["id"] = rng.choice((rng.choice(ids), rng.choice(NUMBERS)))


def attributes(data: Json, rng: random.Random) -> None:
    """An attribute of nodes is odd, or that of another node."""
    found = [attr for node in data["nodes"] for attr in node["attrs"]]
    name = rng.choice(sorted({attr["name"] for attr in found}) or [""])
    found = [attr for attr in found if attr["name"] == name]
    value, others = rng.choice(ODD), rng.random() < 0.5
    for attr in some(found, rng):
        attr["value"] = rng.choice(found)["value"] if others else value


def without_attributes(data: Json, rng: random.Random) -> None:
    """Nodes lack an attribute: the thread, the record function id."""
    name = rng.choice(("rf_id", "tid", "fw_tid", "seq_id", "scope", "op_schema", "fw_parent"))
    for node in some(data["nodes"], rng):
        node["attrs"] = [attr for attr in node["attrs"] if attr["name"] != name]


def node_names(data: Json, rng: random.Random) -> None:
    """Nodes have another name."""
    names = [node["name"] for node in data["nodes"]]
    odd = (
        "",
        "x",
        "[pytorch|profiler|execution_trace|process]",
        "## process_group:init ##",
        "record_param_comms",
    )
    for node in some(data["nodes"], rng):
        node["name"] = rng.choice((*odd, rng.choice(names)))


def tensors(data: Json, rng: random.Random) -> None:
    """Inputs or outputs are odd tensors: of one id and several shapes, of no storage, of lists."""
    value, side = rng.choice(_TENSORS), rng.choice(("inputs", "outputs"))
    for node in some(data["nodes"], rng):
        count = len(node[side]["values"]) or 1
        node[side]["values"] = [value] * rng.choice((count, 1, 0, count + 1))
        if rng.random() < 0.7:
            node[side]["types"] = [
                rng.choice(("Tensor(float)", "GenericList[Tensor(float)]", "Int", ""))
            ] * count


def node_shapes(data: Json, rng: random.Random) -> None:
    """Shapes or types of inputs or outputs are odd, or of another number than they."""
    side, key = rng.choice(("inputs", "outputs")), rng.choice(("shapes", "types", "strides"))
    value = rng.choice(_SHAPES)
    for node in some(data["nodes"], rng):
        node[side][key] = value


def nodes_gone(data: Json, rng: random.Random) -> None:
    """Some nodes are missing, roots among them."""
    gone = [id(node) for node in some(data["nodes"], rng)]
    data["nodes"] = [node for node in data["nodes"] if id(node) not in gone]


def nodes_repeated(data: Json, rng: random.Random) -> None:
    """Some nodes are there twice."""
    data["nodes"] += some(data["nodes"], rng)


def nodes_shuffled(data: Json, rng: random.Random) -> None:
    """Nodes stand in another order."""
    rng.shuffle(data["nodes"])


def et_header(data: Json, rng: random.Random) -> None:
    """The head is odd: another process, schema, time."""
    key = rng.choice(("schema", "pid", "time", "start_ts", "finish_ts"))
    data[key] = rng.choice((*ODD, "1.0.1", "1.0.2-chakra.0.0.4", "1.1.1-chakra.0.0.4", "2262-04-11 23:47:16"))


NODES: tuple[Change, ...] = (
    parents, cycle, node_ids, attributes, without_attributes, node_names, tensors, node_shapes, nodes_gone,
    nodes_repeated, nodes_shuffled, et_header,
)  # fmt: skip
