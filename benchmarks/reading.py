"""Reading and linking of traces, wherever they lie, beside json.loads and HTA."""

from __future__ import annotations

import gzip
import io
import math
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import linear_regression

import tracebraid
from benchmarks.inputs import Given
from benchmarks.measure import (
    Measured,
    Row,
    Stopwatch,
    Target,
    command,
    in_process,
    side_by_side,
    speed_ratio,
    task,
    typical,
)
from tracebraid.importers.discovery import find_rank_files

_OURS, _JSON, _HTA = "tracebraid", "json.loads", "HTA, load"
_DLRM_REPEATS, _BUNDLED_REPEATS = (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16)
_READ_RATIO, _LARGE_SECONDS, _LARGE_BYTES = 6.0, 4.0, 2.5e9
_LINK_SECONDS, _LINK_TIMES, _LINK_EXPONENT = 3.0, 32, 1.1
_IMPORT_SECONDS = 0.35
_NODES_MB_S, _GRAPH_MB_S = 250.0, 50.0


_Subjects = dict[str, Callable[[], Measured]]


def read(given: Given) -> Iterator[Row]:
    """Read a Kineto trace."""
    return _reading(f"read ({given.timeline_name})", given.timeline, given)


def read_packed(given: Given) -> Iterator[Row]:
    """Read a Kineto trace as gzip."""
    return _reading("read .gz of it", given.inputs.packed_timeline(), given)


def _reading(name: str, path: Path, given: Given) -> Iterator[Row]:
    subjects: _Subjects = {
        _JSON: partial(task, "tasks:json_loads", path),
        _OURS: partial(task, "tasks:read", path),
    }
    runs = side_by_side({**subjects, **_hta(path, given)}, given.rounds)
    for subject, measured in runs.items():
        ratio = speed_ratio(measured, runs[_JSON])
        target = None
        if subject == _OURS and path.suffix != ".gz":
            target = Target(f"{_READ_RATIO:.0f} x json.loads", ratio >= _READ_RATIO)
        yield _row(name, subject, measured, {"x json.loads": ratio}, target)


def read_large(given: Given) -> Iterator[Row]:
    """Read a Kineto trace of 1.25 GB."""
    path = given.inputs.large_timeline()
    size = path.stat().st_size
    subjects: _Subjects = {_OURS: partial(task, "tasks:read", path)}
    runs = side_by_side({**subjects, **_hta(path, given)}, min(given.rounds, 3))
    for subject, measured in runs.items():
        one = typical(measured)
        target = None
        if subject == _OURS:
            met = one.seconds <= _LARGE_SECONDS and one.peak_bytes <= _LARGE_BYTES
            target = Target(f"{_LARGE_SECONDS:.0f} s, {_LARGE_BYTES / 1e6:,.0f} MB", met)
        yield _row(
            f"read ({size / 1e9:.2f} GB)", subject, measured, {"MB/s": size / 1e6 / one.seconds}, target
        )


def read_et(given: Given) -> Iterator[Row]:
    """Read Execution Traces."""
    for schema, path in given.inputs.execution_traces().items():
        size_mb = path.stat().st_size / 1e6
        subjects: _Subjects = {
            _JSON: partial(task, "tasks:json_loads", path),
            _OURS: partial(task, "tasks:read_et", path),
        }
        runs = side_by_side(subjects, given.rounds)
        for subject, measured in runs.items():
            one = typical(measured)
            figures = {
                "x json.loads": speed_ratio(measured, runs[_JSON]),
                "MB/s of a processor": size_mb / one.cpu_seconds,
            }
            target = None
            if "nodes" in one.parts:
                figures["nodes MB/s"] = size_mb / one.parts["nodes"]
                figures["with graph MB/s"] = size_mb / one.seconds
                met = figures["nodes MB/s"] >= _NODES_MB_S and figures["with graph MB/s"] >= _GRAPH_MB_S
                target = Target(f"{_NODES_MB_S:.0f} and {_GRAPH_MB_S:.0f} MB/s", met)
            yield _row(f"Execution Trace, {schema} ({size_mb:.0f} MB)", subject, measured, figures, target)


def link(given: Given) -> Iterator[Row]:
    """Read and link pairs of several sizes."""
    name = f"link ({given.inputs.pair_name})"
    repeats = given.times or (_DLRM_REPEATS if given.inputs.real else _BUNDLED_REPEATS)
    subjects: _Subjects = {}
    for times in repeats:
        pair = given.inputs.pair(times)
        subjects[f"{times} times"] = partial(task, "tasks:link", pair.et, pair.kineto)
    linking = []
    runs = side_by_side(subjects, given.rounds)
    for times, (subject, measured) in zip(repeats, runs.items(), strict=True):
        one = typical(measured)
        linking.append(one.parts["linking"])
        target = None
        if times == _LINK_TIMES and given.inputs.real:
            target = Target(f"{_LINK_SECONDS:.0f} s", one.seconds <= _LINK_SECONDS)
        yield _row(name, subject, measured, {"linking s": linking[-1]}, target)
    growth = _exponent(repeats, linking)
    late = _exponent(repeats[-3:], linking[-3:])
    target = Target(f"{_LINK_EXPONENT} at most", late <= _LINK_EXPONENT)
    yield Row(name, "growth of linking", figures={"exponent": growth, "of the last 3": late}, target=target)


def _exponent(sizes: Sequence[int], seconds: list[float]) -> float:
    """The b of seconds = a * size ** b that fits best."""
    return linear_regression([math.log(size) for size in sizes], [math.log(one) for one in seconds]).slope


def summary(given: Given) -> Iterator[Row]:
    """Run `tracebraid summary`."""
    name = f"command ({given.timeline_name})"
    words = [sys.executable, "-m", "tracebraid", "summary", str(given.timeline)]
    runs = side_by_side({"tracebraid summary": partial(command, words)}, given.rounds)
    yield _row(name, "tracebraid summary", runs["tracebraid summary"])


def start(given: Given) -> Iterator[Row]:
    """Start Python, the package, and small commands."""
    small = str(given.inputs.pair(1).kineto)
    subjects: _Subjects = {
        "python alone": partial(command, [sys.executable, "-c", "pass"]),
        "import tracebraid": partial(task, "tasks:start"),
        "tracebraid --help": partial(command, [sys.executable, "-m", "tracebraid", "--help"]),
        "tracebraid info, small file": partial(command, [sys.executable, "-m", "tracebraid", "info", small]),
    }
    for subject, measured in side_by_side(subjects, given.rounds).items():
        one = typical(measured)
        target = None
        if subject == "import tracebraid":
            target = Target(f"{_IMPORT_SECONDS} s", one.seconds < _IMPORT_SECONDS)
        yield _row("start", subject, measured, one.parts, target)


def _row(
    benchmark: str,
    subject: str,
    measured: list[Measured],
    figures: dict[str, float] | None = None,
    target: Target | None = None,
) -> Row:
    one = typical(measured)
    return Row(benchmark, subject, one.seconds, one.cpu_seconds, one.peak_bytes, figures or {}, target)


"""Those that take minutes and gigabytes."""


def _hta(path: Path, given: Given) -> _Subjects:
    if given.hta_python is None:
        return {}
    return {_HTA: partial(task, "hta:hta_load", path, python=given.hta_python)}


_WIDTH, _HEIGHT, _MARGIN = 560, 360, 56


def growth(given: Given) -> Iterator[Row]:
    """Time of linking by alignment alone, by the size of the pair."""
    for times in given.times or ():
        pair = given.inputs.pair(times)
        one = typical([task("tasks:align", pair.et, pair.kineto) for _ in range(given.rounds)])
        nodes, linking_s = one.parts["nodes"], one.parts["linking"]
        yield _row(
            f"growth, {given.inputs.pair_name}", f"{nodes:,.0f} nodes", [one], {"linking s": linking_s}
        )


_OBJECTS = 100_000


def _create_bucket(endpoint: str) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=endpoint, region_name=os.environ["AWS_REGION"])
    client.create_bucket(Bucket="traces")
    client.close()


def remote(given: Given) -> Iterator[Row]:
    """FILE from moto's server, on this machine and its cores, and from disk; then the listing of many objects."""
    from tests.servers import s3_environment, stub_server
    from tracebraid.filesystem.choose import file_system_of

    if not given.paths:
        raise SystemExit("name a trace")
    yield from _reading_of(given.paths[0], given)
    with stub_server(listed=[f"many/step_{number:06d}.txt" for number in range(_OBJECTS)]) as stub:
        os.environ.update(s3_environment(stub.address))
        watch = Stopwatch()
        found = len(file_system_of("s3://bucket/many").entries("s3://bucket/many"))
        figures = {"objects": float(found), "requests": float(len(stub.requests))}
        yield _row("remote", "listing", [watch.stop()], figures)


def _reading_of(file: Path, given: Given) -> Iterator[Row]:
    import obstore
    from obstore.store import from_url

    from tests.servers import moto_server, s3_environment

    with moto_server() as endpoint:
        os.environ.update(s3_environment(endpoint))
        _create_bucket(endpoint)
        packed = given.folder / "trace.json.gz"
        packed.write_bytes(gzip.compress(file.read_bytes(), 6))
        subjects = {}
        for name, path in (("plain", file), ("gzip", packed)):
            obstore.put(from_url("s3://traces", client_options={"allow_http": True}), path.name, path)
            subjects[f"{name}, disk"] = partial(task, "tasks:read", path)
            subjects[f"{name}, S3"] = partial(task, "tasks:read", f"s3://traces/{path.name}")
        for name, found in side_by_side(subjects, given.rounds).items():
            yield _row("remote", name, found)


_FILES, _TRACES, _MEMBERS = 100_000, 1_024, 10_000


def _tables(path: Path, cache: bool) -> int:
    job = tracebraid.open(path, cache=cache, engine="in-process")
    return sum(table.height for table in job[0].timeline.tables.values())


def _huge_folder(folder: Path) -> Path:
    folder.mkdir()
    for number in range(_FILES - _TRACES):
        (folder / f"log_{number}.txt").touch()
    for rank in range(_TRACES // 2):
        (folder / f"kineto_trace_{rank}.json").touch()
        (folder / f"torch_et_{rank}.json").touch()
    return folder


def _tar(path: Path) -> Path:
    with tarfile.open(path, "w") as tar:
        for rank in range(_MEMBERS):
            member = tarfile.TarInfo(f"kineto_trace_{rank}.json")
            member.size = 1000
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def places(given: Given) -> list[Row]:
    """Huge folders and archives of many members, without reading; FILE without cache, from the cache and from a tar."""
    folder = given.folder
    huge, members = _huge_folder(folder / "huge"), _tar(folder / "job.tar")
    subjects: dict[str, Callable[[], object]] = {
        f"a folder of {_FILES:,} files": lambda: find_rank_files(huge),
        f"a tar of {_MEMBERS:,} members": lambda: find_rank_files(members),
    }
    if given.paths:
        traces = folder / "traces"
        traces.mkdir()
        shutil.copy(given.paths[0], traces / "kineto_trace_0.json")
        with tarfile.open(folder / "one.tar", "w") as tar:
            tar.add(traces / "kineto_trace_0.json", "kineto_trace_0.json")
        subjects["reading without cache"] = lambda: _tables(traces, False)
        subjects["reading from the cache"] = lambda: _tables(traces, True)
        subjects["reading from a tar"] = lambda: _tables(folder / "one.tar", False)
    return [_row("places", name, [took]) for name, took in in_process(subjects, given.rounds).items()]
