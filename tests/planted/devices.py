"""The header of a trace: devices, ranks, process groups."""

from __future__ import annotations

from tests.builders import Json


def _device(name: str, major: int, minor: int, multiprocessors: int, memory: int) -> Json:
    return {
        "id": 0,
        "name": name,
        "totalGlobalMem": memory,
        "computeMajor": major,
        "computeMinor": minor,
        "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiprocessor": 2048,
        "regsPerBlock": 65536,
        "warpSize": 64 if name.startswith("AMD") else 32,
        "sharedMemPerBlock": 49152,
        "numSms": multiprocessors,
    }


V100 = _device("Tesla V100-SXM2-32GB", 7, 0, 80, 34_089_730_048)
A100 = _device("NVIDIA A100-SXM4-80GB", 8, 0, 108, 85_097_971_712)
H100 = _device("NVIDIA H100 80GB HBM3", 9, 0, 132, 85_018_279_936)
MI300X = _device("AMD Instinct MI300X", 9, 4, 304, 206_141_652_992)


def header_of(
    rank: int, world_size: int, devices: list[Json], groups: dict[str, list[int]], base_ns: int
) -> Json:
    """The members of the file beside its events.

    Args:
        rank: the rank.
        world_size: the number of ranks.
        devices: properties of each device; none for a trace of the CPU alone.
        groups: the ranks of each process group.
        base_ns: what the file's times are relative to.
    """
    config = [
        {
            "pg_name": name,
            "pg_desc": "default_pg" if name == "0" else "undefined",
            "backend_config": "cuda:nccl" if devices else "cpu:gloo",
            "pg_size": len(ranks),
            "ranks": ranks,
        }
        for name, ranks in groups.items()
    ]
    return {
        "deviceProperties": [{**device, "id": number} for number, device in enumerate(devices)],
        "record_shapes": 1,
        "distributedInfo": {
            "backend": "nccl" if devices else "gloo",
            "rank": rank,
            "world_size": world_size,
            "pg_count": len(config),
            "pg_config": config,
        },
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base_ns,
    }
