"""Traces whose answers are known by construction.

A `Scene` is one rank. Its threads have a clock each, in ns; what a `with` block does lies inside its event. Work
runs on streams in the order of the queue. Every function gives back what it planted, with its times:

    scene, host, stream = device_scene()                        # a Scene, its main thread and stream 7
    with host.step(1):
        host.spend(10_000)                                      # the host computes, outside of any op
        with host.op("aten::mm", dims=[[2, 3], [3, 4]]) as mm:
            gemm = host.launch(stream, "gemm", 50_000)          # a call of CALL_NS, then LATENCY_NS, then the kernel
        host.synchronize(stream)                                # until RETURN_NS after the stream's last work
    linked = scene.linked()                                     # through the importer: a LinkedTrace
    assert gemm.op is mm and gemm.ts == gemm.call.end + LATENCY_NS
    # `gemm.event_id` is its row in `linked.timeline.events`

Also: `annotation`, `frame`, `module`, `backward`, `collective`, `copy`, `fill`, `replay` (a graph), `record`,
`wait_event`, `synchronize_event`, `allocate`, `release`, `load_data`, `call` (any API), `Stream.run` (work without a
launch), `Scene.add` and `Scene.raw` (anything). `scenes.clean()` has nothing wrong, `random_scenes.scenes()` is a
hypothesis strategy, `nodes.nodes_of(scene)` makes the Execution Trace's nodes, `write_ranks` a folder of several ranks.

A `PlannedJob` (jobs.py) is several ranks that wait for each other: hosts whose clocks differ, process groups, steps,
collectives with skews, sends, delays of a known `Cause`, lost events, windows. It gives back each collective as a
`TrueCollective`: arrivals, ends, waits, who was late and why. `wide_job(WidePlan(...))` (wide_jobs.py) makes the
members of a big job at once, by columns, without files.
"""

from __future__ import annotations

from tests.planted.calls import CALL_NS, LATENCY_NS, RETURN_NS, Copy
from tests.planted.devices import A100, H100, MI300X, V100
from tests.planted.events import Planted
from tests.planted.hosts import Cause, Host, TrueCollective
from tests.planted.jobs import WORLD, PlannedJob
from tests.planted.memory import CPU, SEGMENT_BYTES, Block
from tests.planted.scene import Scene, device_scene, host_scene, write_ranks
from tests.planted.streams import Recorded, Stream
from tests.planted.threads import Thread
from tests.planted.wide_jobs import WideJob, WidePlan, wide_job

__all__ = [
    "A100",
    "CALL_NS",
    "CPU",
    "H100",
    "LATENCY_NS",
    "MI300X",
    "RETURN_NS",
    "SEGMENT_BYTES",
    "V100",
    "WORLD",
    "Block",
    "Cause",
    "Copy",
    "Host",
    "PlannedJob",
    "Planted",
    "Recorded",
    "Scene",
    "Stream",
    "Thread",
    "TrueCollective",
    "WideJob",
    "WidePlan",
    "device_scene",
    "host_scene",
    "wide_job",
    "write_ranks",
]
