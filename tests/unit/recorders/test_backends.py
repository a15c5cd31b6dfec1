"""Which recorder is used: the one that was asked for, or else PyTorch's where the native one cannot be had."""

from __future__ import annotations

import gzip
import re
import sys
import textwrap
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.running import run_command
from tests.waiting import let_others_run
from tracebraid.errors import ArgumentError, CaptureError, OutputError
from tracebraid.model.analysis import Switch
from tracebraid.recorders.session.overhead import StepTimes
from tracebraid.recorders.session.process_facts import ProcessFacts
from tracebraid.recorders.session.settings import Settings

pytest.importorskip("torch")

from tracebraid.recorders.backends import choose
from tracebraid.recorders.backends.pytorch import TorchRecorder

pytestmark = pytest.mark.torch

ERRORS = [
    CaptureError("no compiler\nand more"),
    CaptureError("c++ " + "-isystem folder " * 1000),
    OutputError("/cache", "it cannot be written", "Choose another"),
]


@pytest.mark.parametrize("switch", Switch)
def test_advice_names_switches_with_the_versions_that_have_them(switch: Switch) -> None:
    name, version = switch.value.partition("=")[0], _version(torch.__version__)
    known = torch._C._profiler._ExperimentalConfig.__init__.__doc__ or ""
    is_ignored = re.search(rf"{name}\s*:\s*DEPRECATED and ignored", known) is not None
    has_it = _version(switch.since or "0") <= version < _version(switch.until or "99")
    assert (name in known and not is_ignored) is has_it
    assert all(one in switch.advice for one in (switch.value, switch.since, switch.until))


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def break_library(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def load() -> None:
        raise error

    monkeypatch.setattr(choose, "load", load)


@pytest.mark.parametrize("backend", ["nonsense", "", "Native", "kineto"])
def test_a_backend_that_there_is_not_is_refused_with_those_that_there_are(backend: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        choose.check_backend(backend)
    assert str(caught.value) == f"there is no backend {backend!r}; there is auto, native, torch"


@pytest.mark.parametrize("backend", ["auto", "native", "torch"])
def test_a_backend_that_there_is_passes(backend: str) -> None:
    choose.check_backend(backend)


@pytest.mark.parametrize("backend", ["auto", "native"])
def test_where_the_library_can_be_loaded_it_is_the_native_one(
    monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr(choose, "load", lambda: None)
    assert choose.choose(backend, pytest.fail) == "native"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_where_it_cannot_auto_is_pytorchs_with_one_line_that_says_why(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    break_library(monkeypatch, error)
    said: list[str] = []
    assert choose.choose("auto", said.append) == "torch"
    (line,) = said
    assert "\n" not in line
    assert line.startswith("using PyTorch's recorder instead of the native one")
    assert str(error)[:11] in line
    assert len(line) < 600
    assert line.endswith("shows all)") == isinstance(error, CaptureError)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_where_it_cannot_and_was_asked_for_by_name_that_is_an_error(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    break_library(monkeypatch, error)
    with pytest.raises(type(error)) as caught:
        choose.choose("native", pytest.fail)
    assert caught.value is error


def test_pytorchs_is_had_without_a_look_at_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_library(monkeypatch, AssertionError("it was loaded"))
    assert choose.choose("torch", pytest.fail) == "torch"
    assert isinstance(choose.recorder("torch", tmp_path / "et.json"), TorchRecorder)


def test_other_errors_are_not_taken_for_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    break_library(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        choose.choose("auto", pytest.fail)


# --- A window imports no compiler into the program: another thread may be importing it ---------------


PROGRAM = """
import sys
import torch
import tracebraid

mode = sys.argv[2]
if mode == "under way":
    # As Python has it while another thread executes the module.
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    module = ModuleType("torch._inductor.config")
    module.__spec__ = ModuleSpec(module.__name__, None)
    module.__spec__._initializing = True
    sys.modules[module.__name__] = module
elif mode == "there":
    import torch._inductor.config
with tracebraid.capture(sys.argv[1], skip_first=0, wait=0, warmup=1, active=1, check=False) as capture:
    for _ in range(3):
        torch.ones(2)
        capture.step()
print(capture.is_complete, "torch._inductor" in sys.modules)
"""


@pytest.mark.since_torch("2.8")
@pytest.mark.full
@pytest.mark.parametrize(("mode", "is_there"), [("absent", False), ("under way", False), ("there", True)])
def test_a_window_imports_no_compiler(tmp_path: Path, mode: str, is_there: bool) -> None:
    done = run_command(sys.executable, "-c", PROGRAM, tmp_path / "traces", mode)
    assert (done.returncode, done.stdout) == (0, f"True {is_there}\n"), done.stderr[-2000:]


# --- PyTorch ends a recording only once no other thread is inside of its callbacks -------------------


torch = pytest.importorskip("torch")
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


def test_real_threads_are_waited_for_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    polls_s: list[float] = []

    def sleep(pause_s: float) -> None:
        polls_s.append(pause_s)
        let_others_run()

    monkeypatch.setattr(grace_period, "sleep", sleep)

    def run() -> None:
        while not over.is_set():
            torch.ones(2)

    threads = [threading.Thread(target=run), threading.Thread(target=over.wait)]
    for thread in threads:
        thread.start()
    busy = str(threads[0].native_id)
    before = grace_period._other_threads()[busy].run_ns
    grace_period.wait_for_threads()
    ran_ns = grace_period._other_threads()[busy].run_ns - before
    over.set()
    for thread in threads:
        thread.join()
    assert ran_ns >= MS or sum(polls_s) >= grace_period._LIMIT_S - grace_period._POLL_S


@pytest.mark.since_torch("2.8")
@pytest.mark.parametrize("recorder", ["native", "torch"])
def test_no_operator_that_begins_while_kineto_ends_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorder: str
) -> None:
    """From torch 2.14 on PyTorch waits for other threads itself; what Kineto records until then has no node."""
    waits = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)
    end = torch.profiler._KinetoProfile.stop_trace

    def stop_trace(self: object) -> None:
        run_beside("late")
        end(self)

    monkeypatch.setattr(torch.profiler._KinetoProfile, "stop_trace", stop_trace)
    observer = tracebraid.ExecutionTraceObserver(recorder)
    observer.register_callback(tmp_path / "et.json.gz")
    settings = Settings(str(tmp_path))
    session = kineto.KinetoRecorder(
        tmp_path / "kineto.json.gz", settings, observer, ProcessFacts(StepTimes(settings.schedule))
    )
    session.start()
    run_beside("early")
    session.stop()
    observer.unregister_callback()
    session.write({})
    for name in ("kineto.json.gz", "et.json.gz"):
        text = gzip.decompress((tmp_path / name).read_bytes())
        assert (b'"early"' in text, b'"late"' in text) == (True, waits and name == "kineto.json.gz"), name


def run_beside(name: str) -> None:
    """Run an annotation on a thread of its own."""

    def run() -> None:
        with torch.profiler.record_function(name):
            torch.ones(2)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_a_profiler_that_warns_while_it_is_prepared_warns_nobody(recwarn: pytest.WarningsRecorder) -> None:
    """As that of torch 2.11, which warns of cycles by `_warn_once`, or older ones by `warn`."""
    done: list[str] = []
    space: dict[str, Any] = {"done": done, "warn": warnings.warn, "torch": torch}
    source = """
        def _warn_once(message):
            warn(message)

        class Profiler:
            def prepare_trace(self):
                _warn_once("Profiler clears events at the end of each cycle.")
                warn("and so on")
                done.append(type(torch).__name__)
    """
    exec(textwrap.dedent(source), space)
    kineto._prepare(space["Profiler"]())
    assert len(done) == 1
    assert not recwarn.list
