"""Captures that cannot work are refused before the loop; what goes wrong later costs a window, not the loop."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracebraid
from tests.integration.captured import QUIET, assert_sound, files_of, manifest_of
from tracebraid.errors import ArgumentError, CaptureError, CaptureWarning, OutputError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def work() -> None:
    torch.ones(3) + 1


def run_disturbed(folder: Path, disturb: Callable[[], None], **options: Any) -> None:
    """A loop in whose step 8 something happens."""
    with tracebraid.capture(folder, check=False, **options) as cap:
        for step in range(18):
            if step == 8:
                disturb()
            work()
            cap.step()


def run(folder: Path, steps: int = 10) -> tracebraid.capture:  # type: ignore[valid-type]
    with tracebraid.capture(folder) as cap:
        for _ in range(steps):
            work()
            cap.step()
    return cap


def test_step_outside_of_the_context(tmp_path: Path) -> None:
    cap = tracebraid.capture(tmp_path)
    with pytest.raises(CaptureError, match="step\\(\\) belongs inside `with"):
        cap.step()
    with pytest.warns(CaptureWarning), cap:
        pass
    with pytest.raises(CaptureError, match="step\\(\\) belongs inside"):
        cap.step()


def test_two_captures_in_one_process(tmp_path: Path) -> None:
    with tracebraid.capture(tmp_path / "a") as cap:
        with pytest.raises(CaptureError, match="a capture is active in this process already"):
            tracebraid.capture(tmp_path / "b").__enter__()
        for _ in range(10):
            work()
            cap.step()
    assert_sound(tmp_path / "a")
    assert not (tmp_path / "b").exists()
    run(tmp_path / "b")
    assert_sound(tmp_path / "b")


def test_a_profiler_around_the_capture(tmp_path: Path) -> None:
    with torch.profiler.profile(), pytest.raises(CaptureError, match="a profiler is active in this process"):
        tracebraid.capture(tmp_path / "a").__enter__()
    assert not (tmp_path / "a").exists()
    run(tmp_path / "a")
    assert_sound(tmp_path / "a")


def test_a_profiler_inside_the_window_costs_the_window(tmp_path: Path) -> None:
    def disturb() -> None:
        with torch.profiler.profile():
            work()

    with pytest.warns(CaptureWarning, match="another profiler was started inside the window"):
        run_disturbed(tmp_path, disturb, repeat=2)
    first, second = manifest_of(tmp_path)["windows"]
    assert "another profiler" in first["failure"]
    assert (first["files"], second["failure"], second["steps"]) == ([], None, [15, 16, 17])
    assert files_of(tmp_path) == [
        "manifest_0.json", "window_1/kineto_trace_0.json.gz", "window_1/torch_et_0.json.gz"
    ]  # fmt: skip
    assert "window-lost" in [one.finding.code for one in tracebraid.check(tmp_path).diagnoses]


def test_an_observer_that_is_registered_costs_the_window(tmp_path: Path) -> None:
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "theirs.json"))
    with pytest.warns(CaptureWarning, match="another ExecutionTraceObserver is registered"):
        run(tmp_path / "a")
    observer.unregister_callback()
    assert files_of(tmp_path / "a") == ["manifest_0.json"]
    run(tmp_path / "b")
    assert_sound(tmp_path / "b")


def test_a_schedule_that_never_records(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="nothing would ever be recorded"):
        tracebraid.capture(tmp_path, active=0)
    with pytest.raises(ArgumentError, match="a schedule has no 'cycles'; it has skip_first, wait"):
        tracebraid.capture(tmp_path, cycles=3)


def test_files_of_another_run_are_refused_before_the_loop(tmp_path: Path) -> None:
    run(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)}
    with pytest.raises(OutputError, match="is there already, from another run"):
        run(tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in files_of(tmp_path)} == before
    with tracebraid.capture(tmp_path, overwrite=True) as cap:
        for _ in range(11):
            work()
            cap.step()
    assert_sound(tmp_path)
    assert manifest_of(tmp_path)["steps_seen"] == 11


def test_files_that_appear_during_the_loop_are_kept(tmp_path: Path) -> None:
    theirs = tmp_path / "kineto_trace_0.json.gz"
    with pytest.warns(CaptureWarning, match="is there already"):
        run_disturbed(tmp_path, lambda: theirs.write_text("another's") and None)
    assert (tmp_path / "kineto_trace_0.json.gz").read_text() == "another's"
    assert "is there already" in manifest_of(tmp_path)["windows"][0]["failure"]


@pytest.mark.parametrize("place", ["file/traces", "x" * 300])
def test_a_folder_that_cannot_be_written_is_refused_before_the_loop(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        tracebraid.capture(tmp_path / place).__enter__()
    run(tmp_path / "a")


def test_a_folder_that_is_gone_costs_the_window(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with pytest.warns(CaptureWarning) as warned:
        run_disturbed(folder, lambda: shutil.rmtree(folder))
    assert "the window of steps [7, 8, 9] is lost" in str(warned[0].message)
    assert "the manifest is lost" in str(warned[-2].message)
    assert not folder.exists()


@pytest.mark.parametrize("limit_bytes", [2_000, 20_000, 60_000])
def test_a_disk_that_fills_up_costs_the_window_and_leaves_no_half_file(
    tmp_path: Path, limit_bytes: int
) -> None:
    """A limit on the size of a file stands in for the disk: writing beyond it fails as well."""
    code = f"""
        import resource, signal, torch, tracebraid
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        model = torch.nn.Linear(8, 8)
        with tracebraid.capture("traces", check=False) as cap:
            resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes}, resource.RLIM_INFINITY))
            for _ in range(12):
                for _ in range(20):
                    model(torch.ones(2, 8)).sum().backward()
                cap.step()
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print("the loop ended", cap.steps_seen)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, env={**os.environ, **QUIET},
    )  # fmt: skip
    assert done.stdout == "the loop ended 12\n", done.stderr
    (window,) = manifest_of(tmp_path / "traces")["windows"]
    assert window["failure"]
    for name in files_of(tmp_path / "traces"):
        assert not name.endswith(".part")
        if name.startswith("torch_et_0.json"):
            tracebraid.read_execution_trace(tmp_path / "traces" / name)
    assert "kineto_trace_0.json.gz" not in files_of(tmp_path / "traces")
    assert not tracebraid.check(tmp_path / "traces").links


WITHOUT_TORCH = """
    import sys
    class Hidden:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] == "torch":
                raise ModuleNotFoundError("No module named 'torch'", name="torch")
    sys.meta_path.insert(0, Hidden())
    import tracebraid
"""


@pytest.mark.parametrize("use", ["tracebraid.capture('traces')", "tracebraid.ExecutionTraceObserver()"])
def test_without_torch_capturing_says_how_to_install_it(tmp_path: Path, use: str) -> None:
    code = textwrap.dedent(WITHOUT_TORCH) + textwrap.dedent(
        f"""
        try:
            {use}
        except tracebraid.MissingLibraryError as error:
            assert isinstance(error, ImportError)
            print(error)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.endswith("Install it with: pip install 'tracebraid[capture]'\n")


def test_without_torch_everything_else_works(tmp_path: Path) -> None:
    code = textwrap.dedent(WITHOUT_TORCH) + textwrap.dedent(
        """
        demo = tracebraid.demo_path()
        assert tracebraid.check(demo).links
        print(tracebraid.open(demo)[0].coverage.share)
        from tracebraid.cli.main import run
        sys.argv = ["tracebraid", "check", str(demo)]
        run()
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout.split("\n")[0]) == (0, "1.0"), done.stderr
