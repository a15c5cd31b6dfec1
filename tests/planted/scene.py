"""`Scene`: a Kineto trace whose answers are known by construction."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.builders import Json, et_text, flow, kineto_text, write
from tests.planted.devices import A100, header_of
from tests.planted.events import ANNOTATION, Planted, us
from tests.planted.memory import Allocator
from tests.planted.streams import Stream
from tests.planted.threads import Thread
from tracebraid import link
from tracebraid.model.capture_facts import METADATA
from tracebraid.model.linked_trace import LinkedTrace

PROCESS = 4000
"""The process of rank 0; the others count on from it."""


class Scene:
    """One rank's trace; times are ns since `base_ns`. See the package for an example.

    Args:
        rank: the rank.
        world_size: the number of ranks.
        devices: the properties of its devices (`tests.planted.devices`); none: a trace of the CPU alone.
        base_ns: what the file's times are relative to; at 0, planted times are those of `timeline.events`.
        flows: whether launches have arrows (`ac2g`).
        device_annotations: whether the device has an event for each annotation that launched work on a stream.
    """

    def __init__(
        self,
        rank: int = 0,
        world_size: int = 1,
        devices: Sequence[Json] = (A100,),
        base_ns: int = 0,
        flows: bool = True,
        device_annotations: bool = False,
    ) -> None:
        self.rank, self.world_size, self.base_ns = rank, world_size, base_ns
        self.devices = list(devices)
        self.flows, self.device_annotations = flows, device_annotations
        self.host_name: str | None = None
        self.facts: Json = {}
        """What a capture says of its process (`model.capture_facts`)."""
        self.groups: dict[str, list[int]] = {"0": list(range(world_size))}
        self.events: list[Planted] = []
        self.threads: list[Thread] = []
        self.allocators: dict[int, Allocator] = {}
        self.pid = PROCESS + rank
        self._streams: dict[tuple[int, int], Stream] = {}
        self._raw: list[Json] = []
        self._arrows: list[Json] = []
        self._counts: dict[str, int] = {}

    def thread(self, name: str = "python3", start: int = 0) -> Thread:
        """A new thread whose clock begins at `start`; the first is the main thread, its id that of the process."""
        number = len(self.threads) + 1
        self.threads.append(Thread(self, self.pid + number - 1, number, name, start))
        return self.threads[-1]

    def stream(self, number: int = 7, device: int = 0) -> Stream:
        """The stream of that number, always the same object."""
        return self._streams.setdefault((device, number), Stream(self, number, device))

    @property
    def streams(self) -> list[Stream]:
        """All streams that were asked for."""
        return list(self._streams.values())

    def add(
        self, name: str, category: str, pid: int, tid: int, ts: int, dur: int, args: Json | None = None
    ) -> Planted:
        """Plant an event as it is, times in ns; threads and streams do so for what they know."""
        self.events.append(Planted(len(self.events), name, category, pid, tid, ts, dur, args or {}))
        return self.events[-1]

    def raw(self, event: Json) -> None:
        """Add an event as JSON, times in µs, behind all that are planted: damaged, of another writer, a counter."""
        self._raw.append(event)

    def of(self, name: str) -> list[Planted]:
        """The planted events of that name, in the order in which they began to be planted."""
        return [event for event in self.events if event.name == name]

    def of_category(self, *categories: str) -> list[Planted]:
        """The planted events of these categories."""
        return [event for event in self.events if event.category in categories]

    def new_correlation(self) -> int:
        """A correlation that no other call has; they do not meet the external ids."""
        return 100_000 + self.count("correlation")

    def count(self, what: str) -> int:
        """The next number of some kind, from 1 on."""
        self._counts[what] = self._counts.get(what, 0) + 1
        return self._counts[what]

    def forward_arrow(self, number: int, forward: Planted, backward: Planted) -> None:
        """An arrow from a forward op to its backward op."""
        for phase, event in (("s", forward), ("f", backward)):
            self._arrows.append(flow(phase, number, us(event.ts), event.pid, event.tid, "fwdbwd"))

    def header(self) -> Json:
        """The members of the file beside its events."""
        found = header_of(self.rank, self.world_size, self.devices, self.groups, self.base_ns)
        if self.facts:
            found = {**found, METADATA: self.facts}
        return found if self.host_name is None else {**found, "host_name": self.host_name}

    def json(self) -> list[Json]:
        """All events as the file has them: the planted in their order first, so that their numbers hold."""
        found = [event.json() for event in self.events]
        if self.device_annotations:
            found += [event.json() for event in self._device_annotations()]
        return [
            *found,
            *self._raw,
            *self._arrows,
            *(self._launch_arrows() if self.flows else []),
            *self._names(),
        ]

    def text(self) -> str:
        """The file."""
        return kineto_text(self.json(), self.header())

    def write(self, folder: Path) -> Path:
        """Write the file under the name that a capture gives it."""
        return write(folder / f"kineto_trace_{self.rank}.json", self.text())

    def linked(self, nodes: Sequence[Json] | None = None) -> LinkedTrace:
        """The file, read by the importer and linked; with the nodes of an Execution Trace, if there are any."""
        with tempfile.TemporaryDirectory() as folder:
            kineto = self.write(Path(folder))
            et = Path(folder) / f"torch_et_{self.rank}.json"
            if nodes is not None:
                write(et, et_text(list(nodes)).replace('"pid": 1,', f'"pid": {self.pid},', 1))
            return link(et if nodes is not None else None, kineto, matching="exact")

    def _launch_arrows(self) -> list[Json]:
        launched = [event for event in self.events if event.call is not None]
        calls = {event.call.event_id: event.call for event in launched if event.call is not None}
        starts = [flow("s", c.correlation, us(c.ts), c.pid, c.tid) for c in calls.values()]
        return [*starts, *(flow("f", w.correlation, us(w.ts), w.pid, w.tid) for w in launched)]

    def _device_annotations(self) -> list[Planted]:
        work: dict[tuple[int, int, int], list[Planted]] = {}
        for event in self.events:
            if event.call is not None:
                for around in event.ancestors():
                    if around.category == ANNOTATION:
                        work.setdefault((around.event_id, event.pid, event.tid), []).append(event)
        found = []
        for (number, pid, tid), events in sorted(work.items()):
            start, end = min(e.ts for e in events), max(e.end for e in events)
            annotation = self.events[number]
            args = {"External id": annotation.args["External id"]}
            found.append(
                Planted(-1, annotation.name, "gpu_user_annotation", pid, tid, start, end - start, args)
            )
        return found

    def _names(self) -> list[Json]:
        """Metadata: names of the process and its threads, of devices and streams."""
        rows: list[tuple[str, int, int, Json]] = [
            ("process_name", self.pid, 0, {"name": "python3"}),
            ("process_labels", self.pid, 0, {"labels": "CPU"}),
        ]
        for thread in self.threads:
            name = f"thread {thread.tid} ({thread.name})"
            rows.append(("thread_name", self.pid, thread.tid, {"name": name}))
        for stream in self.streams:
            rows.append(("process_labels", stream.device, 0, {"labels": f"GPU {stream.device}"}))
            rows.append(("thread_name", stream.device, stream.number, {"name": f"stream {stream.number}"}))
        return [
            {"ph": "M", "name": name, "ts": 0, "pid": pid, "tid": tid, "args": args}
            for name, pid, tid, args in rows
        ]


def host_scene(*args: Any, **options: Any) -> tuple[Scene, Thread]:
    """A scene, its arguments those of `Scene`, and its main thread."""
    scene = Scene(*args, **options)
    return scene, scene.thread()


def device_scene(*args: Any, **options: Any) -> tuple[Scene, Thread, Stream]:
    """A scene, its arguments those of `Scene`, its main thread, and stream 7."""
    scene, host = host_scene(*args, **options)
    return scene, host, scene.stream(7)


def write_ranks(folder: Path, scenes: Iterable[Scene]) -> Path:
    """Write the files of several ranks to a folder, for `tracebraid.open`."""
    for scene in scenes:
        scene.write(folder)
    return folder
