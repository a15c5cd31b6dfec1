"""Settings reach a captured process as they were: as one line of text, in its environment."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracebraid.api import settings_of
from tracebraid.errors import ArgumentError, CaptureError
from tracebraid.recorders.launcher.environment import child_environment
from tracebraid.recorders.session.schedule import Schedule
from tracebraid.recorders.session.settings import BACKENDS, STEPS_BY, Settings

STEPS = st.integers(0, 10**9)
SETTINGS = st.builds(
    Settings,
    out_dir=st.text(),
    schedule=st.builds(
        Schedule,
        skip_first=STEPS,
        wait=STEPS,
        warmup=STEPS,
        active=st.integers(1, 10**9),
        repeat=st.integers(1, 10**9),
    ),
    stacks=st.booleans(),
    memory=st.booleans(),
    overwrite=st.booleans(),
    nsys=st.booleans(),
    recorder=st.sampled_from(BACKENDS),
    new=st.booleans(),
    steps_by=st.sampled_from(STEPS_BY),
)


@given(SETTINGS)
def test_settings_survive_their_text(settings: Settings) -> None:
    assert Settings.from_json(settings.to_json()) == settings


@given(SETTINGS)
def test_the_text_is_one_that_an_environment_can_hold(settings: Settings) -> None:
    text = settings.to_json()
    assert text.isascii()
    assert text.isprintable()


def test_the_text_names_every_setting() -> None:
    assert json.loads(Settings("/traces").to_json()) == {
        "out_dir": "/traces",
        "schedule": {"skip_first": 2, "wait": 3, "warmup": 2, "active": 3, "repeat": 1},
        "stacks": False,
        "memory": False,
        "overwrite": False,
        "nsys": False,
        "recorder": "auto",
        "new": False,
        "steps_by": "auto",
    }


def test_a_schedule_that_makes_no_sense_is_refused_on_the_way_back_too() -> None:
    text = Settings("/traces").to_json().replace('"active": 3', '"active": 0')
    with pytest.raises(ArgumentError, match="active is 0"):
        Settings.from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "{",
            "[]",
            "null",
            "7",
            '"text"',
            "{}",
            '{"schedule": {}}',
            "[" * 100_000,
            '{"schedule": null}',
        ),
        Settings("/traces").to_json().replace('"stacks"', '"of_another_version"'),
        Settings("/traces").to_json().replace('"wait"', '"of_another_version"'),
        Settings("/traces").to_json().replace('"out_dir": "/traces", ', ""),
    ],
    ids=range(13),
)
def test_what_another_version_gave_is_refused(text: str) -> None:
    with pytest.raises(CaptureError):
        Settings.from_json(text)


def test_settings_of_a_call_name_a_folder_that_a_change_of_folders_does_not_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = settings_of("traces", {"active": 5}, {"stacks": True})
    assert settings == Settings(str(tmp_path / "traces"), Schedule(active=5), stacks=True)


def test_a_word_that_no_schedule_has_is_refused_with_those_that_it_has() -> None:
    with pytest.raises(ArgumentError, match="no 'warm_up'; it has skip_first, wait, warmup, active, repeat"):
        settings_of("traces", {"active": 1, "warm_up": 1}, {})


def test_a_recorder_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ArgumentError, match="there is no recorder 'nonsense'; there is auto, native, torch"):
        settings_of("traces", {}, {"recorder": "nonsense"})


@pytest.mark.parametrize("theirs", [None, "", "/a", "/a:/b"])
def test_an_environment_keeps_what_it_had(monkeypatch: pytest.MonkeyPatch, theirs: str | None) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if theirs is not None:
        monkeypatch.setenv("PYTHONPATH", theirs)
    environment = child_environment(Settings("/traces"))
    first, *rest = environment.pop("PYTHONPATH").split(os.pathsep)
    assert (Path(first) / "sitecustomize.py").is_file()
    assert os.pathsep.join(rest) == (theirs or "")
    assert Settings.from_json(environment.pop("TRACEBRAID_CAPTURE")) == Settings("/traces")
    assert environment == {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
