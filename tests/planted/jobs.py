"""`PlannedJob`: the traces of all ranks of a job whose answers are known by construction.

    job = PlannedJob(4, hosts=[Host("a"), Host("b", ahead_ns=5_000_000, drift_ppm=20.0)])   # ranks 0, 1 on a
    pair = job.group("pair", [0, 2], renamed={2: "7"})
    for number in range(1, 6):
        with job.step(number):
            job.compute(100_000)
            job.delay(3, Cause.KERNEL, 400_000)
            reduced = job.collective("allreduce", transfer=50_000, skew={1: 2_000})
            job.send(0, 2, pair)
    parts = job.parts()                    # read by the importer; or `job.write(folder)` for `tracebraid.open`
    assert reduced.late == 3 and reduced.causes == {3: (Cause.KERNEL,)}

Times are true times, in ns since `BASE_NS`; each rank's trace has them on its host's clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.builders import Json
from tests.planted.devices import A100
from tests.planted.events import Planted
from tests.planted.hosts import BASE_NS, Cause, Host, TrueCollective, on_clock
from tests.planted.scene import Scene
from tests.planted.threads import Thread
from tracebraid.analysis.collectives.members import members
from tracebraid.analysis.ranks.rank_facts import rank_facts
from tracebraid.model.linked_ranks import Gather, RankParts
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP, step_name

WORLD = "0"
"""The group of all ranks."""

_COMPUTE, _NETWORK = 7, 20
_TYPES = {
    "allreduce": "all_reduce",
    "_allgather_base": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "all_to_all": "all_to_all",
    "broadcast": "broadcast",
    "barrier": "barrier",
}
_GLOO = {"allreduce": "all_reduce", "_allgather_base": "all_gather", "_reduce_scatter_base": "reduce_scatter"}
_OF_GROUP = ("Process Group Name", "Process Group Ranks", "Seq", "Comms Id")


class PlannedJob:
    """A job of several ranks. Without devices it communicates by gloo, whose ranges are on a thread of their own.

    Args:
        world_size: the number of ranks.
        hosts: ranks are spread over them in order, in equal numbers.
        devices: properties of each rank's devices; none: a job on CPUs.
        without: arguments that the traces lack, of `Process Group Name`, `Process Group Ranks`, `Seq`, `Comms Id`.
        windows: the first and last step that a rank recorded; others recorded all.
    """

    def __init__(
        self,
        world_size: int,
        hosts: Sequence[Host] = (Host(),),
        devices: Sequence[Json] = (A100,),
        without: Sequence[str] = (),
        windows: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self.world_size, self.without, self.windows = world_size, tuple(without), dict(windows or {})
        self.host_of = [hosts[rank * len(hosts) // world_size] for rank in range(world_size)]
        self.scenes = [self._scene(rank, devices) for rank in range(world_size)]
        self.threads = [scene.thread(start=1_000_000) for scene in self.scenes]
        self.backend = [] if devices else [scene.thread("pt_gloo_runner") for scene in self.scenes]
        self.groups: dict[str, tuple[int, ...]] = {WORLD: tuple(range(world_size))}
        self.collectives: list[TrueCollective] = []
        self._names: dict[tuple[str, int], str] = {}
        self._causes: dict[int, list[Cause]] = defaultdict(list)
        self._ends: dict[int, int] = {}
        self._step: str | None = None
        self._written = False

    def _scene(self, rank: int, devices: Sequence[Json]) -> Scene:
        scene = Scene(rank, self.world_size, devices, BASE_NS + self.host_of[rank].ahead_ns)
        scene.host_name = self.host_of[rank].name
        return scene

    def group(self, name: str, ranks: Sequence[int], renamed: Mapping[int, str] | None = None) -> str:
        """A process group; gives its name in the plan.

        Args:
            name: its name.
            ranks: its ranks.
            renamed: the name that it has in the traces of some ranks, where that differs.
        """
        self.groups[name] = tuple(ranks)
        for rank in ranks:
            own = self._names[name, rank] = (renamed or {}).get(rank, name)
            self.scenes[rank].groups[own] = list(ranks)
        return name

    @contextmanager
    def step(self, number: int) -> Iterator[None]:
        """A step on all ranks; at its end each host waits for its device."""
        self._step = step_name(number)
        for rank, scene in enumerate(self.scenes):
            if self.windows.get(rank, (number, number))[0] == number:
                self._forget(rank, scene)
        with ExitStack() as steps:
            for thread in self.threads:
                steps.enter_context(thread.step(number))
            yield
            for scene, thread in zip(self.scenes, self.threads, strict=True):
                if scene.streams:
                    thread.synchronize()
        for rank, scene in enumerate(self.scenes):
            if self.windows.get(rank, (0, -1))[1] == number:
                self._ends[rank] = len(scene.events)
        self._step = None

    def _forget(self, rank: int, scene: Scene) -> None:
        """The rank's window begins: what was planted before was not recorded."""
        if rank in self.windows:
            scene.events.clear()
            for collective in self.collectives:
                collective.event_ids.pop(rank, None)

    def compute(self, ns: int, ranks: Sequence[int] | None = None, name: str = "sgemm_128x64_nn") -> None:
        """A matmul on each rank: a kernel of `ns`, or where there is no device an op of `ns`."""
        for rank in range(self.world_size) if ranks is None else ranks:
            thread, scene = self.threads[rank], self.scenes[rank]
            with thread.op("aten::mm", dims=[[64, 64], [64, 64]]):
                if scene.devices:
                    thread.launch(scene.stream(_COMPUTE), name, ns)
                else:
                    thread.spend(ns)

    def delay(self, rank: int, cause: Cause, ns: int) -> None:
        """Let a rank lose `ns` before its next collective.

        The host's causes begin when its device has nothing left to do, so that all of `ns` counts.
        """
        thread, scene = self.threads[rank], self.scenes[rank]
        self._causes[rank].append(cause)
        if cause is Cause.KERNEL:
            self.compute(ns, [rank])
            return
        thread.until(max((stream.free for stream in scene.streams), default=0))
        if cause is Cause.OP:
            thread.run("aten::nonzero", ns, dims=[[1024]])
        elif cause is Cause.DATA_LOADER:
            thread.load_data(ns)
        else:
            thread.spend(ns)

    def collective(
        self,
        name: str = "allreduce",
        group: str = WORLD,
        transfer: int = 50_000,
        nelems: int = 1024,
        skew: Mapping[int, int] | None = None,
        jitter: Mapping[int, int] | None = None,
        lost: Sequence[int] = (),
        overlaps: bool = False,
    ) -> TrueCollective:
        """A collective of all ranks of a group.

        Args:
            name: as of `Thread.collective`.
            group: the group.
            transfer: from the last arrival to the end.
            nelems: elements, of 4 bytes.
            skew: how much later a rank's kernel starts than its stream would let it.
            jitter: how much later than that it ends on a rank; below 0 for earlier.
            lost: the ranks that did not record it.
            overlaps: whether computing goes on beside it; else what comes next waits for it.
        """
        ranks = self.groups[group]
        found = TrueCollective(len(self.collectives), _TYPES[name], group, ranks, transfer, self._step)
        begun = {rank: self._begin(rank, name, group, nelems) for rank in ranks}
        for rank, event in begun.items():
            event.ts += (skew or {}).get(rank, 0)
            found.arrival[rank] = event.ts
        last = max(found.arrival.values())
        found.end = {rank: last + transfer + (jitter or {}).get(rank, 0) for rank in ranks}
        return self._finish(found, begun, lost, overlaps)

    def send(
        self, source: int, destination: int, group: str = WORLD, transfer: int = 20_000, nelems: int = 1024
    ) -> TrueCollective:
        """A rank sends to another, of one group; both kernels end when both have arrived and `transfer` has passed."""
        ranks = (source, destination)
        found = TrueCollective(len(self.collectives), "send_recv", group, ranks, transfer, self._step)
        begun = {source: self._begin(source, "send", group, nelems)}
        begun[destination] = self._begin(destination, "recv", group, nelems)
        begun[source].args["Dst Rank"] = destination
        begun[destination].args["Src Rank"] = source
        found.arrival = {rank: event.ts for rank, event in begun.items()}
        found.end = dict.fromkeys(ranks, max(found.arrival.values()) + transfer)
        return self._finish(found, begun, (), False)

    def _begin(self, rank: int, name: str, group: str, nelems: int) -> Planted:
        """The rank's event, not yet ended."""
        thread, scene, own = self.threads[rank], self.scenes[rank], self._names.get((group, rank), group)
        if not scene.devices:
            return self._begin_on_host(self.backend[rank], thread, name, nelems)
        network, compute = scene.stream(_NETWORK), scene.stream(_COMPUTE)
        network.free = max(network.free, compute.free)
        event = thread.collective(network, 0, name, nelems, own)
        for args in (event.args, *(around.args for around in event.ancestors())):
            if "Collective name" in args:
                args["Comms Id"] = str(1000 + list(self.groups).index(group))
                for argument in (name for name in _OF_GROUP if name in self.without):
                    del args[argument]
        return event

    def _begin_on_host(self, backend: Thread, thread: Thread, name: str, nelems: int) -> Planted:
        thread.run(f"c10d::{name}_", 5_000, dims=[[[nelems]], [], [], [], [], []])
        backend.until(thread.now + 3_000)
        with backend.annotation(f"gloo:{_GLOO.get(name, name)}") as event:
            pass
        event.args |= {"Input Dims": [[nelems]], "Input type": ["float"]}
        return event

    def _finish(
        self, found: TrueCollective, begun: dict[int, Planted], lost: Sequence[int], overlaps: bool
    ) -> TrueCollective:
        for rank, event in begun.items():
            scene, thread = self.scenes[rank], self.threads[rank]
            event.dur = found.end[rank] - event.ts
            if not scene.devices:
                self.backend[rank].until(event.end)
                thread.until(event.end)
            else:
                network, compute = scene.stream(_NETWORK), scene.stream(_COMPUTE)
                network.free = max(network.free, event.end)
                compute.free = compute.free if overlaps else max(compute.free, event.end)
            if rank in lost:
                scene.events.remove(event)
            elif rank not in self._ends:
                found.event_ids[rank] = event.event_id
            found.causes[rank] = tuple(self._causes.pop(rank, ()))
        found.causes = {rank: causes for rank, causes in found.causes.items() if causes}
        self.collectives.append(found)
        return found

    def finished(self) -> list[Scene]:
        """The scenes of all ranks, on their hosts' clocks; nothing can be planted from now on."""
        if not self._written:
            self._written = True
            for rank, scene in enumerate(self.scenes):
                del scene.events[self._ends.get(rank, len(scene.events)) :]
                on_clock(scene.events, self.host_of[rank])
        return self.scenes

    def write(self, folder: Path, missing: Sequence[int] = ()) -> Path:
        """Write the traces to a folder, without those of some ranks."""
        for scene in self.finished():
            if scene.rank not in missing:
                scene.write(folder)
        return folder

    def linked(self, rank: int) -> LinkedTrace:
        """The trace of a rank, read by the importer."""
        return self.finished()[rank].linked()

    def parts(
        self, missing: Sequence[int] = (), gathers: Sequence[Gather] = (), annotation: str = PROFILER_STEP
    ) -> list[RankParts]:
        """What is kept of each rank for `link_ranks`."""
        found = []
        for rank in range(self.world_size):
            if rank not in missing:
                linked = self.linked(rank).with_annotation(annotation)
                gathered = {gather: gather(linked) for gather in gathers}
                found.append(RankParts(rank_facts(linked), members(linked), gathered))
        return found
