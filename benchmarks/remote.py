"""What it costs to read a trace from an S3 server, beside the same file on disk: `python -m benchmarks.remote FILE`.

The server is moto's, on this machine and its cores: what it takes of them counts against the remote reading.
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import time
from pathlib import Path

import obstore
from obstore.store import from_url

from benchmarks.measure import Measured, task, typical
from tests.servers import moto_server, s3_environment, stub_server
from tracebraid.filesystem.choose import file_system_of

__all__: list[str] = []

_ROUNDS = 3
_OBJECTS = 100_000


def _create_bucket(endpoint: str) -> None:
    import boto3

    client = boto3.client("s3", endpoint_url=endpoint, region_name=os.environ["AWS_REGION"])
    client.create_bucket(Bucket="traces")
    client.close()


def _read(path: str) -> Measured:
    return task(["-m", "benchmarks.task", "read", path, "1"])


def _reading(file: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, moto_server() as endpoint:
        os.environ.update(s3_environment(endpoint))
        _create_bucket(endpoint)
        plain = file.read_bytes()
        packed = Path(folder, "trace.json.gz")
        packed.write_bytes(gzip.compress(plain, 6))
        for name, path in (("plain", file), ("gzip", packed)):
            obstore.put(from_url("s3://traces", client_options={"allow_http": True}), path.name, path)
            both: list[tuple[Measured, Measured]] = [
                (_read(str(path)), _read(f"s3://traces/{path.name}")) for _ in range(_ROUNDS)
            ]
            here, there = (typical([pair[side] for pair in both]) for side in (0, 1))
            for where, found in (("disk", here), ("S3", there)):
                print(f"{name} {where}: {found.seconds:.2f} s, {found.peak_bytes / 1e6:.0f} MB")


def _listing() -> None:
    with stub_server(listed=[f"many/step_{number:06d}.txt" for number in range(_OBJECTS)]) as stub:
        os.environ.update(s3_environment(stub.address))
        begin = time.perf_counter()
        found = len(file_system_of("s3://bucket/many").entries("s3://bucket/many"))
        print(
            f"listing {found:,} objects in {len(stub.requests)} requests: {time.perf_counter() - begin:.1f} s"
        )


if __name__ == "__main__":
    _reading(Path(sys.argv[1]))
    _listing()
