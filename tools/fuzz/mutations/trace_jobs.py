"""Changes of nodes, ranks and steps; and all changes of traces."""

from __future__ import annotations

import json
import random
from typing import Any

from tools.fuzz.model import Files, Mutation
from tools.fuzz.mutations.trace_events import (
    ARGS,
    BIG,
    IDS,
    NUMBERS,
    ODD,
    TIMES,
    Change,
    Json,
    complete_events,
    in_one_et,
    in_one_trace,
    of_category,
    one_of,
    some,
)

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


_RANKS = (0, 1, 2, -1, 7, 2**31, 2**63 - 1, 2**63, "0", "x", None, 0.0, 1.5, True, [0])
_COLLECTIVE = (
    "Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "In split size", "Out split size",
    "Global rank start", "Global rank stride", "Process Group Name", "Process Group Description",
    "Process Group Ranks", "Seq", "Comms Id", "Src Rank", "Dst Rank",
)  # fmt: skip
_COLLECTIVE_VALUES = (
    *ODD, *BIG, "allreduce", "_allgather_base", "send", "recv", "all_to_allv", "coalesced", "wait", "Float", "BFloat16",
    "Bool", "[0, 1]", "[0, ...]", "[1, 0]", "[0, 0]", "[9]", "[3, 5]", "[-1]", "[99999999999999999999]",
)  # fmt: skip


def rank(data: Json, rng: random.Random) -> None:
    """The trace is of another rank, of none, or says no rank."""
    info = data.setdefault("distributedInfo", {})
    info["rank"] = rng.choice(_RANKS)
    if rng.random() < 0.1:
        del data["distributedInfo"]


def world(data: Json, rng: random.Random) -> None:
    """The world is of another size than there are ranks."""
    data.setdefault("distributedInfo", {})["world_size"] = rng.choice((*_RANKS, 3, 1_000_000))


def groups(data: Json, rng: random.Random) -> None:
    """The process groups are others than those of the other ranks."""
    config = data.get("distributedInfo", {}).get("pg_config") or [{}]
    key = rng.choice(("pg_name", "pg_desc", "pg_size", "ranks", "backend_config"))
    value = rng.choice(
        (*ODD, [0], [1, 0], [0, 0], [0, 1, 2], ["0"], [-1], [2**63], "0", "pair", list(range(1000)))
    )
    for group in some(config, rng):
        group[key] = value
    data.setdefault("distributedInfo", {})["pg_config"] = config * rng.choice((1, 1, 1, 0, 2))


def _collectives(data: Json) -> list[Json]:
    return [event for event in data["traceEvents"] if "Collective name" in event.get("args", {})]


def collectives(data: Json, rng: random.Random) -> None:
    """Collectives say of themselves what those of other ranks do not."""
    key, value = rng.choice(_COLLECTIVE), rng.choice(_COLLECTIVE_VALUES)
    for event in some(_collectives(data), rng):
        event["args"][key] = value


def collectives_lack(data: Json, rng: random.Random) -> None:
    """Collectives do not say something of themselves."""
    key = rng.choice(_COLLECTIVE)
    for event in some(_collectives(data), rng):
        event["args"].pop(key, None)


def collectives_gone(data: Json, rng: random.Random) -> None:
    """Some collectives were not recorded."""
    gone = [id(event) for event in some(_collectives(data), rng)]
    data["traceEvents"] = [event for event in data["traceEvents"] if id(event) not in gone]


def rank_gone(files: Files, rng: random.Random) -> Files:
    """A file is missing."""
    gone = rng.choice(sorted(files))
    return {path: data for path, data in files.items() if path != gone or len(files) == 1}


def rank_twice(files: Files, rng: random.Random) -> Files:
    """A file is there under the name of another rank, or of another kind of number."""
    path = rng.choice(sorted(files))
    stem = path.rpartition("_")[0]
    return {**files, f"{stem}_{rng.choice((0, 1, 2, 3, 7, '01', 2**63, '-1'))}.json": files[path]}


def swapped_ranks(files: Files, rng: random.Random) -> Files:
    """Two files of a kind have each other's names."""
    kind = rng.choice(("kineto_trace", "torch_et", "manifest"))
    paths = [path for path in sorted(files) if path.startswith(kind)]
    if len(paths) < 2:
        return files
    first, second = rng.sample(paths, 2)
    return {**files, first: files[second], second: files[first]}


def manifest(files: Files, rng: random.Random) -> Files:
    """A manifest says something odd."""
    path = rng.choice([path for path in sorted(files) if path.startswith("manifest")] or [""])
    if not path:
        return files
    data = json.loads(files[path])
    data[rng.choice(sorted(data))] = rng.choice((*ODD, *_RANKS))
    return {**files, path: json.dumps(data).encode()}


RANKS: tuple[Change, ...] = (
    rank,
    world,
    groups,
    collectives,
    collectives,
    collectives_lack,
    collectives_gone,
)
FILES: tuple[Mutation, ...] = (rank_gone, rank_twice, swapped_ranks, manifest)


_NUMBERS = (
    "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#", "ProfilerStep#-1", "ProfilerStep#99999999999999999999",
    "ProfilerStep#1.5", "ProfilerStep#x", "ProfilerStep", "ProfilerStep*", "ProfilerStep#02", "ProfilerStep#2 ",
)  # fmt: skip
_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}


def _steps(data: Json) -> list[Json]:
    return [event for event in complete_events(data) if str(event.get("name", "")).startswith("ProfilerStep")]


def step_names(data: Json, rng: random.Random) -> None:
    """Steps have the number of another, or none."""
    name = rng.choice(_NUMBERS)
    for event in some(_steps(data), rng):
        event["name"] = name


def step_times(data: Json, rng: random.Random) -> None:
    """Steps overlap, nest, are empty, long, or elsewhere."""
    steps = _steps(data)
    for event in some(steps, rng):
        other, how = rng.choice(steps), rng.randrange(5)
        event["ts"] = (other["ts"], other["ts"] + other["dur"] / 2, event["ts"] + 1e6, event["ts"], 0)[how]
        event["dur"] = (event["dur"], event["dur"] * 2, event["dur"], 0, 1e9)[how]


def steps_gone(data: Json, rng: random.Random) -> None:
    """Some steps are missing."""
    gone = [id(event) for event in some(_steps(data), rng)]
    data["traceEvents"] = [event for event in data["traceEvents"] if id(event) not in gone]


def more_steps(data: Json, rng: random.Random) -> None:
    """Other events are steps, too; also of another thread or on a device."""
    for event in some(complete_events(data), rng)[:9]:
        event["name"], event["cat"] = rng.choice(_NUMBERS), rng.choice(("user_annotation", event.get("cat")))


def only_device(data: Json, rng: random.Random) -> None:
    """Nothing of the host was recorded, or nothing of the device."""
    keeps = rng.random() < 0.5
    data["traceEvents"] = [event for event in data["traceEvents"] if (event.get("cat") in _DEVICE) == keeps]


def only_one_kind(data: Json, rng: random.Random) -> None:
    """Only events of one category, or none of it."""
    kinds = sorted({str(event.get("cat")) for event in data["traceEvents"]})
    kind, keeps = rng.choice(kinds or [""]), rng.random() < 0.5
    data["traceEvents"] = [event for event in data["traceEvents"] if (str(event.get("cat")) == kind) == keeps]


def few(data: Json, rng: random.Random) -> None:
    """Keep a few events, one, or none."""
    events = data["traceEvents"]
    kept = rng.sample(range(len(events)), min(len(events), rng.choice((0, 1, 2, 5, 20))))
    data["traceEvents"] = [events[number] for number in sorted(kept)]


def first_events(data: Json, rng: random.Random) -> None:
    """The recording began late, or ended early."""
    events = complete_events(data)
    if events:
        moment, keeps = rng.choice(events)["ts"], rng.random() < 0.5
        data["traceEvents"] = [
            event for event in data["traceEvents"] if (event.get("ts", 0) < moment) == keeps
        ]


def repeated(data: Json, rng: random.Random) -> None:
    """Some events are there twice; or one is there hundreds of times."""
    events = some(complete_events(data), rng)
    times = 200 if len(events) == 1 and rng.random() < 0.3 else 1
    data["traceEvents"] += [{**event, "args": dict(event.get("args", {}))} for event in events * times]


def nested_deep(data: Json, rng: random.Random) -> None:
    """An event holds hundreds of others, each in the one before."""
    for event in one_of(of_category(data, "cpu_op", "user_annotation", "python_function"), rng):
        for depth in range(rng.choice((10, 300))):
            inner = {"ts": event["ts"] + depth * 0.001, "dur": event["dur"] - depth * 0.002}
            data["traceEvents"].append({**event, **inner, "args": dict(event.get("args", {}))})


STEPS: tuple[Change, ...] = (
    step_names, step_times, steps_gone, more_steps, only_device, only_one_kind, few, first_events, repeated,
    nested_deep,
)  # fmt: skip


TRACE_MUTATIONS: tuple[Mutation, ...] = (
    *(in_one_trace(change) for change in (*TIMES, *IDS, *ARGS, *RANKS, *STEPS)),
    *(in_one_et(change) for change in NODES),
    *FILES,
)
