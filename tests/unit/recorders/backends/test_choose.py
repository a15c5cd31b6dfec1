"""Which recorder is used: the one that was asked for, or else PyTorch's where the native one cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracebraid.errors import ArgumentError, CaptureError, OutputError

pytest.importorskip("torch")

from tracebraid.recorders.backends import choose
from tracebraid.recorders.backends.pytorch import TorchRecorder

pytestmark = pytest.mark.torch

ERRORS = [
    CaptureError("no compiler\nand more"),
    CaptureError("c++ " + "-isystem folder " * 1000),
    OutputError("/cache", "it cannot be written", "Choose another"),
]


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
    assert line.startswith("PyTorch's recorder takes the place of the native one")
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
