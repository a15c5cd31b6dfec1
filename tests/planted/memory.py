"""Allocations and releases of a thread, with running totals for each device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.planted.events import MEMORY, Planted

if TYPE_CHECKING:
    from tests.planted.scene import Scene

CPU = -1
"""The device id of the CPU."""

SEGMENT_BYTES = 2 * 1024 * 1024
"""The allocator reserves multiples of it."""


@dataclass(frozen=True)
class Block:
    """Memory that was allocated.

    Args:
        address: its address; that of a released block of the same size is used again, the last first.
        size: bytes.
        device: the device; `CPU`.
        event: the instant of its allocation.
    """

    address: int
    size: int
    device: int
    event: Planted


@dataclass
class Allocator:
    """The state of a device's allocator: bytes allocated and reserved so far, and their peaks."""

    next_address: int
    allocated: int = 0
    reserved: int = 0
    peak: int = 0
    free: dict[int, list[int]] = field(default_factory=dict)

    def take(self, size: int) -> int:
        """The address of a new block."""
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        if self.free.get(size):
            return self.free[size].pop()
        self.next_address += size
        return self.next_address - size

    def give(self, address: int, size: int) -> None:
        """Release a block."""
        self.allocated -= size
        self.free.setdefault(size, []).append(address)


class Memory:
    """The `[memory]` instants of a thread."""

    if TYPE_CHECKING:
        scene: Scene
        now: int
        tid: int

        def _begin(self, name: str, category: str, args: dict[str, object]) -> Planted: ...
        def call(self, api: str, ns: int = ...) -> Planted: ...
        def spend(self, ns: int) -> None: ...
        def until(self, ns: int) -> None: ...

    def allocate(self, size: int, device: int = 0, malloc_ns: int = 0) -> Block:
        """Allocate bytes now. Where too little is reserved, `cudaMalloc` reserves more, if `malloc_ns` is not 0."""
        state = self.scene_allocator(device)
        address = state.take(size)
        if device != CPU and state.allocated > state.reserved:
            more = -(-(state.allocated - state.reserved) // SEGMENT_BYTES) * SEGMENT_BYTES
            state.reserved += more
            if malloc_ns:
                self.call("cudaMalloc", malloc_ns)
        return Block(address, size, device, self._instant(state, size, address, device))

    def release(self, block: Block) -> Planted:
        """Release a block now."""
        state = self.scene_allocator(block.device)
        state.give(block.address, block.size)
        return self._instant(state, -block.size, block.address, block.device)

    def scene_allocator(self, device: int = 0) -> Allocator:
        """The allocator of a device, whose peak and totals are the truth."""
        first = 0x7F00_0000_0000 if device != CPU else 0x5500_0000_0000
        return self.scene.allocators.setdefault(device, Allocator(first))

    def _instant(self, state: Allocator, size: int, address: int, device: int) -> Planted:
        return self._begin(
            "[memory]",
            MEMORY,
            {
                "Total Reserved": state.reserved,
                "Total Allocated": state.allocated,
                "Bytes": size,
                "Addr": address,
                "Device Id": device,
                "Device Type": 0 if device == CPU else 1,
            },
        )
