"""PyTorch ends a recording only once no other thread is inside of its callbacks."""

from __future__ import annotations

import gzip
import threading
import time
from pathlib import Path

import pytest

import tracebraid
from tracebraid.recorders.session.settings import Settings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
kineto = pytest.importorskip("tracebraid.recorders.backends.kineto")
grace_period = pytest.importorskip("tracebraid.recorders.backends.grace_period")

Looks = list[dict[str, tuple[int, bool]]]
MS = 1_000_000

ENDED_AFTER: dict[str, Looks] = {
    "there is no other thread": [{}],
    "it sleeps": [{"1": (5, True)}, {"1": (5, True)}],
    "it slept in between only": [{"1": (5, True)}, {"1": (6, True)}, {"1": (6, True)}],
    "it is not scheduled, then runs": [{"1": (5, False)}, {"1": (5, False)}, {"1": (5 + MS, False)}],
    "it has ended": [{"1": (5, False)}, {"2": (0, False)}],
    "one waits for a lock of one that is not scheduled": [
        {"1": (5, False), "2": (7, True)},
        {"1": (5, False), "2": (7, True)},
        {"1": (5 + MS, False), "2": (8, False)},
        {"1": (5 + MS, False), "2": (9, True)},
        {"1": (5 + MS, False), "2": (9, True)},
    ],
}


@pytest.mark.parametrize("name", ENDED_AFTER)
def test_how_long_threads_are_waited_for(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    looks = [{tid: grace_period._Thread(*seen) for tid, seen in look.items()} for look in ENDED_AFTER[name]]
    left = iter(looks)
    monkeypatch.setattr(grace_period, "_other_threads", lambda: next(left))
    grace_period.wait_for_threads()
    assert not list(left)


def test_real_threads_are_waited_for_and_not_for_long() -> None:
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            torch.ones(2)

    threads = [threading.Thread(target=run), threading.Thread(target=over.wait)]
    for thread in threads:
        thread.start()
    busy = str(threads[0].native_id)
    before = grace_period._other_threads()[busy].run_ns
    began_s = time.monotonic()
    grace_period.wait_for_threads()
    took_s = time.monotonic() - began_s
    ran_ns = grace_period._other_threads()[busy].run_ns - before
    over.set()
    for thread in threads:
        thread.join()
    assert ran_ns >= MS or took_s >= grace_period._LIMIT_S


@pytest.mark.parametrize("recorder", ["native", "torch"])
def test_no_operator_that_begins_while_kineto_ends_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorder: str
) -> None:
    end = torch.profiler._KinetoProfile.stop_trace

    def stop_trace(self: object) -> None:
        run_beside("late")
        end(self)

    monkeypatch.setattr(torch.profiler._KinetoProfile, "stop_trace", stop_trace)
    observer = tracebraid.ExecutionTraceObserver(recorder)
    observer.register_callback(tmp_path / "et.json.gz")
    session = kineto.KinetoRecorder(tmp_path / "kineto.json.gz", Settings(str(tmp_path)), observer)
    session.start()
    run_beside("early")
    session.stop()
    observer.unregister_callback()
    session.write({})
    for name in ("kineto.json.gz", "et.json.gz"):
        text = gzip.decompress((tmp_path / name).read_bytes())
        assert (b'"early"' in text, b'"late"' in text) == (True, False), name


def run_beside(name: str) -> None:
    """Run an annotation on a thread of its own."""

    def run() -> None:
        with torch.profiler.record_function(name):
            torch.ones(2)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
