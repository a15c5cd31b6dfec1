"""ET+ of real pairs."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from tests.builders import Json
from tests.golden.linked import ADDED, load, pair
from tracebraid.api import link, write_et_plus


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
