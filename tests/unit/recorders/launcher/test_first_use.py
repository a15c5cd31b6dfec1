"""Nothing of a capture is loaded before the program uses torch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.callbacks import never
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

    FirstUse(set_up, never).watch()
    assert not set(before) & set(of_classes())
    use()
    use()
    assert seen[0] == "set up"
    assert seen.count("set up") == 1
    assert len(seen) >= 3


def test_a_worker_of_a_data_loader_does_not_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    FirstUse(lambda: pytest.fail("set up"), never).watch()
    with monkeypatch.context() as patch:
        patch.setattr(torch.utils.data._utils.worker, "_worker_info", object())
        assert called().tolist() == [1, 1]


def test_what_the_program_has_wrapped_is_called_once_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    FirstUse(lambda: calls.append("set up"), never).watch()
    ours = torch.nn.Module.__call__

    def wrapper(*args: Any) -> Any:
        calls.append("call")
        return ours(*args)

    monkeypatch.setattr(torch.nn.Module, "__call__", wrapper)
    called()
    called()
    assert calls == ["call", "set up", "call"]
    assert torch.nn.Module.__call__ is wrapper


def test_a_failure_to_set_up_does_not_reach_the_program() -> None:
    before = of_classes()
    errors: list[BaseException] = []

    def fail() -> None:
        raise ImportError("no")

    FirstUse(fail, errors.append).watch()
    assert called().tolist() == [1, 1]
    assert of_classes() == before
    assert [str(error) for error in errors] == ["no"]


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
