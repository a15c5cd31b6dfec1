"""ET+ of real pairs."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from tests.builders import Json
from tests.golden.linked import ADDED, load, pair
from tests.integration.command import run
from tests.peers import check_trace_link, is_device, load_et_plus, read_as_converter, read_as_replay
from tracebraid import link, write_et_plus


@pytest.mark.full
@pytest.mark.parametrize("name", ["resnet_1gpu_1.0.3", "resnet_2gpu_1.1.0"])
def test_every_node_of_a_nested_schema_comes_back_from_et_plus(
    real_traces: Path, tmp_path: Path, name: str
) -> None:
    path = real_traces / f"et/{name}.json.gz"
    linked = link(path, real_traces / "kineto/cpu_only_rank34.json.gz")
    write_et_plus(linked, tmp_path / "et_plus.json.gz")
    found, original = load(tmp_path / "et_plus.json.gz"), load(path)
    assert found["schema"] == original["schema"]
    assert found["nodes"] == sorted(original["nodes"], key=lambda one: one["id"])


FLAT_ATTRS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema")


def nested(flat: Json) -> Json:
    """A node of schema 1.0.1 in the form of 1.0.2."""
    return {
        "id": flat["id"],
        "name": flat["name"],
        "ctrl_deps": flat["parent"],
        "inputs": {"values": flat["inputs"], "shapes": flat["input_shapes"], "types": flat["input_types"]},
        "outputs": {
            "values": flat["outputs"],
            "shapes": flat["output_shapes"],
            "types": flat["output_types"],
        },
        "attrs": {name: flat[name] for name in FLAT_ATTRS},
    }


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", ["simple_add_a100", "dlrm_v100_8rank", "linear_2080ti"])
def test_every_node_of_the_flat_schema_comes_back_from_et_plus(
    real_traces: Path, tmp_path: Path, name: str
) -> None:
    linked = pair(real_traces / "pairs" / name, match="exact")
    write_et_plus(linked, tmp_path / "et_plus.json")
    found = json.loads((tmp_path / "et_plus.json").read_text(), parse_float=Decimal)["nodes"]
    host = [{k: v for k, v in one.items() if k not in ADDED} for one in found if "cat" not in one]
    for one in host:
        one["attrs"] = {attr["name"]: attr["value"] for attr in one["attrs"]}
    original = load(real_traces / f"pairs/{name}/torch_et_0.json.gz")["nodes"]
    assert host == sorted(map(nested, original), key=lambda one: one["id"])
    assert len(found) - len(host) == linked.device_links.height


def test_simple_adds_et_plus_has_the_times_of_the_kineto_file(real_traces: Path, tmp_path: Path) -> None:
    linked = pair(real_traces / "pairs/simple_add_a100")
    write_et_plus(linked, tmp_path / "et_plus.json")
    found = json.loads((tmp_path / "et_plus.json").read_text(), parse_float=Decimal)["nodes"]
    kineto = load(real_traces / "pairs/simple_add_a100/kineto_trace_0.json.gz")["traceEvents"]
    kernels = sorted((e["ts"], e["dur"], e["name"]) for e in kineto if e.get("cat") == "kernel")
    assert [(n["ts"], n["inclusive_dur"], n["name"]) for n in found if n.get("cat") == "kernel"] == kernels
    by_id = {e["args"]["External id"]: e for e in kineto if e.get("cat") in ("cpu_op", "user_annotation")}
    for one in found:
        if "cat" not in one and "ts" in one:
            rf_id = next(attr["value"] for attr in one["attrs"] if attr["name"] == "rf_id")
            assert (one["ts"], one["name"]) == (by_id[rf_id]["ts"], by_id[rf_id]["name"])


def test_the_et_plus_of_dlrm_keeps_all_device_events_with_a_reason(real_traces: Path, tmp_path: Path) -> None:
    """No host op is linked by ids there, so that no device event has a node to hang under."""
    write_et_plus(pair(real_traces / "pairs/dlrm_v100_8rank", 1, "exact"), tmp_path / "et_plus.json")
    found = json.loads((tmp_path / "et_plus.json").read_text())["nodes"]
    why = Counter(one["orphan"] for one in found if "cat" in one)
    assert why == {
        "launcher-without-node": 262,
        "no-call": 64,
    }


def test_simple_adds_measured_ops_wait_for_those_of_the_warm_up(real_traces: Path, tmp_path: Path) -> None:
    write_et_plus(pair(real_traces / "pairs/simple_add_a100"), tmp_path / "et_plus.json")
    found = json.loads((tmp_path / "et_plus.json").read_text())["nodes"]
    by_id = {one["id"]: one for one in found}
    waits = [(one["name"], one["sync_dep"], one["inter_thread_dep"]) for one in found if "sync_dep" in one]
    assert [(name, [by_id[dep]["cat"] for dep in deps], deps == [last]) for name, deps, last in waits] == [
        ("[param|torch.add|0|0|0|measure|forward]", ["kernel"], True)
    ]


# --- The command lines of trace_link and chakra_trace_link on the bundled traces and on real pa ------


ADDED_BY_PEERS = ("ts", "dur", "inclusive_dur", "exclusive_dur")
PAIRS = [("simple_add_a100", 0), *(("dlrm_v100_8rank", rank) for rank in range(4)), ("linear_2080ti", 0)]
CONVERTER = os.environ.get("TRACEBRAID_CHAKRA_PYTHON")
"""A Python that has the `chakra` of mlcommons, with what else that needs in PYTHONPATH."""


@pytest.fixture(
    scope="module", params=[("demo", 0), ("demo", 1), *PAIRS], ids=lambda one: f"{one[0]}-{one[1]}"
)
def traces(request: pytest.FixtureRequest, demo: Path) -> tuple[Path, int]:
    """A folder with a pair, and its rank."""
    name, rank = request.param
    if name == "demo":
        return demo, rank
    return request.getfixturevalue("real_traces") / "pairs" / name, rank


@pytest.fixture(scope="module")
def plus(traces: tuple[Path, int], tmp_path_factory: pytest.TempPathFactory) -> Json:
    """What trace-link writes; tests only read it."""
    folder = tmp_path_factory.mktemp("plus")
    source, rank = traces
    et, kineto = f"torch_et_{rank}.json", f"kineto_trace_{rank}.json.gz"
    (folder / et).write_bytes(gzip.decompress((source / f"{et}.gz").read_bytes()))
    shutil.copyfile(source / kineto, folder / kineto)
    done = run("trace-link", "--et-file", folder / et, "--kineto-file", folder / kineto)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [et, kineto, f"torch_et_{rank}_plus.json"]
    )
    return load_et_plus(folder / f"torch_et_{rank}_plus.json")


@pytest.fixture(scope="module")
def chakra_file(traces: tuple[Path, int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What chakra-trace-link writes; tests only read it."""
    folder = tmp_path_factory.mktemp("chakra")
    source, rank = traces
    inputs: tuple[object, ...] = ("--chakra-host-trace", source / f"torch_et_{rank}.json.gz")
    inputs += ("--chakra-device-trace", source / f"kineto_trace_{rank}.json.gz")
    done = run("chakra-trace-link", *inputs, "--rank", rank, "--output-file", folder / "linked.json")
    assert done.returncode == 0, done.stderr
    return folder / "linked.json"


@pytest.mark.full(keep=1)
def test_host_nodes_are_those_of_the_execution_trace_with_their_times(
    traces: tuple[Path, int], plus: Json
) -> None:
    found = [node for node in plus["nodes"] if not is_device(node)]
    bare = [{key: value for key, value in node.items() if key not in ADDED_BY_PEERS} for node in found]
    original = json.loads(json.dumps(load(traces[0] / f"torch_et_{traces[1]}.json.gz"), default=float))
    assert bare == sorted(original["nodes"], key=lambda node: node["id"])
    linked = pair(*traces)
    timed = [node for node in found if "ts" in node and not node["name"].startswith("[pytorch|profiler|")]
    assert len(timed) == linked.coverage.et_nodes.linked


def test_all_device_events_are_there_as_scripts_read_them(traces: tuple[Path, int], plus: Json) -> None:
    check_trace_link(plus)
    linked = pair(*traces)
    device = [node for node in plus["nodes"] if is_device(node)]
    is_part = linked.matched is not None and bool(linked.matched.why)
    assert len(device) == (261 if is_part else linked.device_links.height)
    under_ops = linked.device_links.get_column("node_id").drop_nulls()
    assert sorted(node["parent"] for node in device if "orphan" not in node) == sorted(under_ops)


def test_device_nodes_have_the_times_and_arguments_of_their_events(
    traces: tuple[Path, int], plus: Json
) -> None:
    found = [node for node in plus["nodes"] if is_device(node)]
    kineto = json.loads(gzip.decompress((traces[0] / f"kineto_trace_{traces[1]}.json.gz").read_bytes()))
    cats = {node["cat"] for node in found}
    events = [event for event in kineto["traceEvents"] if event.get("cat") in cats and event["ph"] == "X"]
    written, there = (
        Counter(str(as_event(one)) for one in found),
        Counter(str(as_event(one)) for one in events),
    )
    assert written <= there
    assert written == there or traces[0].name == "linear_2080ti"


def as_event(one: Json) -> Json:
    keys = ("name", "cat", "ph", "pid", "tid")
    numbers = {key: round(float(one[key]), 3) for key in ("ts", "dur")}
    args = {key: float(v) if isinstance(v, int | float) else v for key, v in sorted(one["args"].items())}
    return {**{key: one[key] for key in keys}, **numbers, "args": args}


@pytest.mark.full(keep=1)
def test_et_replay_can_read_both_forms(plus: Json, chakra_file: Path) -> None:
    read_as_replay(plus)
    read_as_replay(load_et_plus(chakra_file))


def test_chakras_converter_can_read_its_form(chakra_file: Path) -> None:
    read_as_converter(load_et_plus(chakra_file))


@pytest.mark.skipif(
    CONVERTER is None, reason="needs a Python with chakra: name it in TRACEBRAID_CHAKRA_PYTHON"
)
def test_chakras_converter_writes_a_trace_of_it(chakra_file: Path, tmp_path: Path) -> None:
    assert CONVERTER is not None
    command = [CONVERTER, "-m", "chakra.src.converter.converter", "PyTorch"]
    command += ["--input", str(chakra_file), "--output", str(tmp_path / "out.et")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "out.et").stat().st_size > 0
