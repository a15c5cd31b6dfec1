"""The command lines of trace_link and chakra_trace_link on the bundled traces and on real pairs."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.builders import Json
from tests.golden.linked import load, pair
from tests.integration.command import run
from tests.peers import check_trace_link, is_device, load_et_plus, read_as_converter, read_as_replay

ADDED = ("ts", "dur", "inclusive_dur", "exclusive_dur")
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


def test_host_nodes_are_those_of_the_execution_trace_with_their_times(
    traces: tuple[Path, int], plus: Json
) -> None:
    found = [node for node in plus["nodes"] if not is_device(node)]
    bare = [{key: value for key, value in node.items() if key not in ADDED} for node in found]
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
