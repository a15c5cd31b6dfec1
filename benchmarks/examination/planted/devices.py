"""Devices of planted traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["A100", "H100", "MI300X", "V100", "Device"]


@dataclass(frozen=True)
class Device:
    """A device: its name in traces, and its dense peaks as its vendor states them."""

    name: str
    major: int
    minor: int
    units: int
    memory: int
    bytes_per_s: float
    flops_per_s: dict[str, float] = field(default_factory=dict)

    def properties(self) -> dict[str, Any]:
        """The entry of `deviceProperties`."""
        return {
            "id": 0,
            "name": self.name,
            "totalGlobalMem": self.memory,
            "computeMajor": self.major,
            "computeMinor": self.minor,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 2048,
            "regsPerBlock": 65536,
            "warpSize": 64 if self.name.startswith("AMD") else 32,
            "sharedMemPerBlock": 49152,
            "numSms": self.units,
        }


V100 = Device(
    "Tesla V100-SXM2-32GB", 7, 0, 80, 34_089_730_048, 900e9, {"float": 15.7e12, "c10::Half": 125e12}
)
A100 = Device(
    "NVIDIA A100-SXM4-80GB",
    8,
    0,
    108,
    85_097_971_712,
    2039e9,
    {"float": 19.5e12, "tf32": 156e12, "c10::Half": 312e12, "c10::BFloat16": 312e12},
)
H100 = Device(
    "NVIDIA H100 80GB HBM3",
    9,
    0,
    132,
    85_018_279_936,
    3350e9,
    {"float": 67e12, "tf32": 494e12, "c10::Half": 989e12, "c10::BFloat16": 989e12},
)
MI300X = Device(
    "AMD Instinct MI300X",
    9,
    4,
    304,
    206_141_652_992,
    5300e9,
    {"float": 163e12, "c10::Half": 1307e12, "c10::BFloat16": 1307e12},
)
