"""Nothing of a capture is loaded before the program uses torch."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.callbacks import never
from tests.waiting import HANG_S
from tracebraid.recorders.launcher.first_use import FirstUse
from tracebraid.recorders.launcher.launch import child_environment
from tracebraid.recorders.session.settings import Settings

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

MEMBERS = (
    (torch.nn.Module, "__call__"),
    *((torch.optim.Optimizer, n) for n in ("__init__", "profile_hook_step")),
)


def of_classes() -> list[Any]:
    return [vars(owner)[name] for owner, name in MEMBERS]


@pytest.fixture(autouse=True)
def classes_stay_torch_s_own() -> Iterator[None]:
    before = of_classes()
    yield
    for (owner, name), original in zip(MEMBERS, before, strict=True):
        setattr(owner, name, original)


def called() -> Any:
    return torch.nn.ReLU()(torch.ones(2))


def made() -> Any:
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])


def read_back() -> Any:
    """As `pickle` makes it, with no `__init__`."""

    class Unpickled(torch.optim.Optimizer):  # type: ignore[name-defined]
        def step(self) -> None:
            """Nothing."""

    optimizer = Unpickled.__new__(Unpickled)
    optimizer.__setstate__({"defaults": {}})
    return optimizer


@pytest.mark.parametrize("use", [called, made, read_back])
def test_the_first_use_sets_up_once_and_goes_on_with_what_that_has_put_in_place(
    use: Callable[[], Any],
) -> None:
    before = of_classes()
    seen: list[str] = []

    def set_up() -> None:
        assert of_classes() == before
        for owner, name in MEMBERS:
            original = getattr(owner, name)

            def noted(*args: Any, _original: Any = original, _name: str = name, **kwargs: Any) -> Any:
                seen.append(_name)
                return _original(*args, **kwargs)

            setattr(owner, name, staticmethod(noted) if name == "profile_hook_step" else noted)
        seen.append("set up")

    FirstUse(lambda: set_up, never).watch()
    assert not set(before) & set(of_classes())
    use()
    use()
    assert seen[0] == "set up"
    assert seen.count("set up") == 1
    assert len(seen) >= 3


def test_a_worker_of_a_data_loader_does_not_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    FirstUse(lambda: pytest.fail("loaded"), never).watch()
    with monkeypatch.context() as patch:
        patch.setattr(torch.utils.data._utils.worker, "_worker_info", object())
        assert called().tolist() == [1, 1]


def test_what_the_program_has_wrapped_is_called_once_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    FirstUse(lambda: lambda: calls.append("set up"), never).watch()
    ours = torch.nn.Module.__call__

    def wrapper(*args: Any) -> Any:
        calls.append("call")
        return ours(*args)

    monkeypatch.setattr(torch.nn.Module, "__call__", wrapper)
    called()
    called()
    assert calls == ["call", "set up", "call"]
    assert torch.nn.Module.__call__ is wrapper


def fail() -> Callable[[], None]:
    raise ImportError("no")


@pytest.mark.parametrize("load", [fail, lambda: fail], ids=["to load", "to set up"])
def test_a_failure_does_not_reach_the_program(load: Callable[[], Callable[[], None]]) -> None:
    before = of_classes()
    errors: list[BaseException] = []
    FirstUse(load, errors.append).watch()
    assert called().tolist() == [1, 1]
    assert of_classes() == before
    assert [str(error) for error in errors] == ["no"]


def test_other_threads_wait_until_it_is_set_up() -> None:
    """A pool may have called a module for all its requests before the capture is loaded."""
    calls: list[str] = []
    others = [threading.Thread(target=called) for _ in range(3)]

    def set_up() -> None:
        original = torch.nn.Module.__call__

        def counted(*args: Any) -> Any:
            calls.append("call")
            return original(*args)

        torch.nn.Module.__call__ = counted

    def load() -> Callable[[], None]:
        for thread in others:
            thread.start()
        assert calls == []
        return set_up

    FirstUse(load, never).watch()
    called()
    for thread in others:
        thread.join(HANG_S)
    assert calls == ["call"] * 4


def test_what_the_program_has_kept_is_torch_s_own_later() -> None:
    FirstUse(lambda: lambda: None, never).watch()
    kept = torch.nn.Module.__call__
    called()
    torch.nn.Module.__call__ = lambda *args: kept(*args)
    assert called().tolist() == [1, 1]


@pytest.mark.full
def test_a_process_that_imports_torch_and_does_no_more_loads_a_dozen_modules(tmp_path: Path) -> None:
    """As a worker of a DataLoader: the capture itself needs three hundred."""
    environment = child_environment(Settings(str(tmp_path / "traces")), tmp_path)
    code = "import sys, torch; print(*sys.modules)"
    loaded = [
        set(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split())
        for command, env in (
            ([sys.executable, "-c", code], environment),
            ([sys.executable, "-c", code], None),
        )
    ]
    ours = loaded[0] - loaded[1]
    assert "tracebraid.recorders.launcher.first_use" in ours
    assert {name for name in ours if not name.startswith("tracebraid")} == set()
    assert len(ours) <= 14
