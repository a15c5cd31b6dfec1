"""Annotations that end out of order, in coroutines, generators, futures and thread pools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from tools.stress.model import Scenario
from tools.stress.run import Run, digest_of


def work(run: Run) -> None:
    """A loop of coroutines is the program's loop."""
    left: list[Any] = []
    with run.captured() as step, ThreadPoolExecutor(3) as pool:
        asyncio.run(_loop(run, step, pool))
        for _ in range(3):
            generator = _generate()
            next(generator)
            left.append(generator)
            step()
    for generator in left:
        generator.close()


async def _loop(run: Run, step: Callable[[], None], pool: ThreadPoolExecutor) -> None:
    for number in range(12):
        tasks = [asyncio.create_task(_compute(place, number)) for place in range(6)]
        cancelled = asyncio.create_task(_compute(9, 1000))
        elsewhere = asyncio.get_running_loop().run_in_executor(pool, lambda: digest_of(torch.ones(3) * 2))
        run.note(*await asyncio.gather(*tasks), await elsewhere)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        step()


async def _compute(place: int, number: int) -> str:
    with torch.profiler.record_function(f"coroutine {place}"):
        value = torch.full((4,), float(place + number), requires_grad=True)
        for _ in range(place % 3 if number < 1000 else 1000):
            await asyncio.sleep(0)
        value.sin().sum().backward()
        return digest_of(value.grad)


def _generate() -> Iterator[None]:
    with torch.profiler.record_function("generator"):
        torch.ones(2)
        yield


SCENARIO = Scenario("annotations that cross in coroutines, generators and thread pools", work)
