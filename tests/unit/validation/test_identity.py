"""Is it said why the two traces of a rank do not know each other, and only then?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.builders import Json, call, kernel, node, op
from tests.unit.linking.made import et_of, linked_of
from tests.unit.validation.made import EVENTS, NODES, codes, lay, ran, step
from tracebraid import check
from tracebraid.importers.discovery import size_beside
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.validation.identity import identity_findings
from tracebraid.validation.manifest import leftover_findings, manifest_findings


def found(events: Any = EVENTS, nodes: Any = NODES) -> list[Finding]:
    return identity_findings(linked_of(list(events), None if nodes is None else list(nodes)))


def with_ids(shift: int = 0, **args: Any) -> list[Json]:
    """`EVENTS` with these arguments alone, and External ids that are the record functions' plus `shift`."""
    shown = {key.replace("_", " "): value for key, value in args.items()}
    ids = [one["args"]["Record function id"] + shift for one in EVENTS]
    return [{**one, "args": {**shown, "External id": i}} for one, i in zip(EVENTS, ids, strict=True)]


def renamed(**names: str) -> list[Json]:
    return [{**one, "name": names.get(one["name"], one["name"])} for one in EVENTS]


ZERO_IDS = et_of(node(10, "ProfilerStep#1", 1001, rf_id=0), node(11, "outer", 10, rf_id=0))
# It is written before the profiler starts: its id is of another count.
GROUP = node(5, "## process_group:init ##", 1001, rf_id=77)
WITH_77 = [*EVENTS, ran("other", 800, 5, 77)]
LOST = [node(i, name, 1001, tracebraid_missing_parent=11) for i, name in ((12, "inner"), (13, "after"))]
LAUNCHED = [call("launch", 30, 5, 7), kernel("mine", 40, 5, 7)]
UNLAUNCHED = [
    call("out", 5000, 5, 8),
    *(kernel("lost", ts, 5, i) for ts, i in ((5010, 8), (60, 98), (70, 99))),
]


@pytest.mark.parametrize(
    ("events", "nodes", "expected"),
    [
        pytest.param(EVENTS, NODES, [], id="a sound pair"),
        pytest.param(EVENTS, None, [], id="a Kineto trace alone"),
        pytest.param(with_ids(), None, [], id="a Kineto trace alone, without ids"),
        pytest.param(
            with_ids(5, Record_function_id=0), NODES, [("no-record-function-ids", 1)], id="all ids are 0"
        ),
        pytest.param(with_ids(), NODES, [], id="external ids prove every link"),
        pytest.param(EVENTS, ZERO_IDS, [("et-without-ids", 1)], id="all ids of nodes are 0"),
        pytest.param(
            EVENTS,
            et_of(GROUP, node(11, "outer", 1001, rf_id=0)),
            [("et-without-ids", 1)],
            id="but a group's",
        ),
        pytest.param(
            WITH_77, et_of(GROUP, node(90, "x", 1001)), [("no-overlap", 1)], id="a group is no overlap"
        ),
        pytest.param(WITH_77, [*NODES, GROUP], [], id="a group beside a sound pair"),
        pytest.param(
            EVENTS,
            et_of(node(50, "outer", 1001), node(60, "inner", 50)),
            [("no-overlap", 1)],
            id="windows apart",
        ),
        pytest.param(EVENTS, et_of(node(13, "after", 1001), node(60, "later", 1001)), [], id="one common id"),
        pytest.param(
            [*EVENTS, *(ran(f"op{i}", 2000 + i, 0.5, 100 + i) for i in range(20))],
            NODES,
            [],
            id="more events",
        ),
        pytest.param(
            EVENTS, [*NODES, *(node(100 + i, f"op{i}", 1001) for i in range(20))], [], id="more nodes"
        ),
        pytest.param(
            renamed(inner="other", after="another"), NODES, [("not-linked", 2)], id="names contradict ids"
        ),
        pytest.param(
            renamed(inner="in/ner"),
            [{**one, "name": "in\\ner\n" if one["id"] == 12 else one["name"]} for one in NODES],
            [],
            id="a name that Kineto writes otherwise",
        ),
        pytest.param([*EVENTS, ran("after", 800, 5, 13)], NODES, [("not-linked", 1)], id="an id of two ops"),
        pytest.param(
            EVENTS,
            et_of(node(10, "ProfilerStep#1", 1001), *LOST),
            [("parent-never-written", 2)],
            id="no parent",
        ),
        *(
            pytest.param(
                [*EVENTS[:-1], ran("after", 600, 100, 13, **more)],
                NODES,
                [("op-unfinished", 1)] * said,
                id=f"{more}",
            )
            for more, said in (
                *(({"finished": "false"}, 1), ({"finished": False}, 1), ({"finished": True}, 0)),
                *(({"finished": "true"}, 0), ({}, 0)),
            )
        ),
        pytest.param([*EVENTS, *LAUNCHED], NODES, [], id="launched work"),
        pytest.param(
            [*EVENTS, *LAUNCHED, *UNLAUNCHED], NODES, [("launch-unknown", 3)], id="work without an operator"
        ),
    ],
)
def test_what_a_pair_is_told(events: Any, nodes: Any, expected: list[tuple[str, int]]) -> None:
    assert [(one.code.value, one.count) for one in found(events, nodes)] == expected


def test_findings_name_the_file_and_the_place() -> None:
    (ids,) = found(with_ids(5, Record_function_id=0))
    assert ids.path.endswith("kineto_trace_0.json")
    (nodes,) = found(nodes=ZERO_IDS)
    assert nodes.path.endswith("torch_et_0.json")
    (apart,) = found(nodes=et_of(node(50, "outer", 1001), node(60, "inner", 50)))
    assert "50 to 60 here, 10 to 13 in the Kineto trace" in apart.message
    (lost,) = found(nodes=et_of(node(10, "ProfilerStep#1", 1001), *LOST))
    assert lost.where.startswith("node 12")


def test_one_op_with_an_id_is_enough_to_look_further() -> None:
    events = [*with_ids(5, Record_function_id=0)[:-1], EVENTS[-1]]
    assert "no-record-function-ids" not in codes(found(events))


def test_the_advice_for_a_file_without_the_argument_is_not_that_for_ids_that_are_all_zero(
    tmp_path: Any,
) -> None:
    """Torch before 2.4 writes no such argument, whether an observer ran or not: then to start one is no advice."""
    zero = check(lay(tmp_path / "zero", events=with_ids(5, Record_function_id=0)), matching="exact")
    absent = check(lay(tmp_path / "absent", events=with_ids(5)), matching="exact")
    assert not zero.links
    assert not absent.links
    texts = [(one.diagnoses[0].finding.message, one.diagnoses[0].advice) for one in (zero, absent)]
    assert texts[0] != texts[1]


def test_windows_that_hardly_overlap_do_not_pass_without_a_word(tmp_path: Any) -> None:
    events = [step(1, Record_function_id=10), *(ran(f"op{i}", 10 * i, 5, 100 + i) for i in range(50))]
    nodes = et_of(*(node(100 + i, f"op{i}", 1001) for i in range(49, 99)))
    checked = check(lay(tmp_path, events=events, nodes=nodes))
    assert checked.ranks[0].coverage is not None
    assert checked.ranks[0].coverage.share < 0.05
    assert checked.diagnoses


def test_a_timeline_without_any_host_op_does_not_link(tmp_path: Any) -> None:
    """Recorded with the device's activities alone."""
    checked = check(lay(tmp_path, events=[call("launch", 1, 1, 7), kernel("gemm", 5, 9, 7)]))
    assert checked.ranks[0].coverage is not None
    assert checked.ranks[0].coverage.et_nodes.linked == 0
    assert not checked.links


def test_of_unfinished_ops_the_first_three_names_are_told_and_all_are_counted() -> None:
    still = [
        ran(name, 700 + i, 5, 20 + i, finished=False) for i, name in enumerate(["c", "a", "c", "b", "d"])
    ]
    (one,) = found([*EVENTS, *still], None)
    assert one.message.endswith("stopped: c, a, b")
    assert one.count == 5


def test_a_launch_outside_of_any_op_is_not_blamed_on_the_profiler(tmp_path: Any) -> None:
    """Nothing was dropped there: no warm-up makes an op around the call."""
    outside = [step(1), call("launch", 5000, 5, 7), kernel("mine", 5010, 5, 7)]
    lost = [step(1), op("aten::mm", 1, 5), kernel("lost", 60, 5, 99)]
    one, other = (
        check(lay(tmp_path / name, events=events, nodes=None)).diagnoses
        for name, events in (("outside", outside), ("lost", lost))
    )
    assert [d.advice for d in one] != [d.advice for d in other]


# --- Is it said what a manifest tells of, and where it does not tell the truth -----------------------


NAME = "torch_et_0.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(b"12345")
    return tmp_path


def sizes_in(folder: Path) -> Callable[[str], int | None]:
    """The sizes of the files beside a manifest, as `check` asks for them."""
    return partial(size_beside, str(folder / "manifest_0.json"))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def window(**more: Any) -> dict[str, Any]:
    """A window as a capture tells of it."""
    files = [{"path": NAME, "size_bytes": 5}]
    return {"steps": [7, 8, 9], "complete": True, "failure": None, "files": files, "findings": [], **more}


def found_with_manifest(folder: Path, *windows: Any, **more: Any) -> list[Finding]:
    told = {"steps_seen": 10, "ended_by": "end", "windows": list(windows), **more}
    return manifest_findings(told, str(folder / "manifest_0.json"), sizes_in(folder))


def test_a_true_manifest_of_a_whole_window_has_nothing_to_say(folder: Path) -> None:
    assert found_with_manifest(folder, window()) == []


@pytest.mark.parametrize("windows", [[], [window(files=[])]], ids=["none", "empty"])
def test_a_run_that_recorded_nothing_is_an_error_with_its_number_of_steps(folder: Path, windows: Any) -> None:
    (one,) = found_with_manifest(folder, *windows)
    assert (one.code, one.message) == ("nothing-recorded", "nothing was recorded in 10 steps")
    assert one.path == str(folder / "manifest_0.json")


def test_one_window_with_files_is_something_recorded(folder: Path) -> None:
    assert found_with_manifest(folder, window(files=[]), window()) == []


def test_a_window_that_failed_is_lost_with_its_reason_and_is_not_called_incomplete_too(folder: Path) -> None:
    (one,) = found_with_manifest(folder, window(failure="the disk is full", complete=False))
    assert one.code == "window-lost"
    assert "steps [7, 8, 9]" in one.message
    assert "the disk is full" in one.message


def test_a_window_that_the_loop_left_early_is_incomplete_with_what_ended_it(folder: Path) -> None:
    (one,) = found_with_manifest(folder, window(complete=False), ended_by="SIGTERM")
    assert one.code == "window-incomplete"
    assert "(SIGTERM)" in one.message


@pytest.mark.parametrize(
    ("ended_by", "advised"), [("end", True), ("RuntimeError", False), ("SIGTERM", False)]
)
@pytest.mark.parametrize("windows", [[], [window(complete=False)]], ids=["before", "inside"])
def test_more_steps_are_advised_where_nothing_stopped_the_loop(
    folder: Path, windows: Any, ended_by: str, advised: bool
) -> None:
    (one,) = found_with_manifest(folder, *windows, ended_by=ended_by)
    assert ("more steps" in one.advice) == advised


@pytest.mark.parametrize(
    ("shown", "advised"),
    [
        ({}, False),
        ({"cat": "user_annotation"}, True),
        ({"cat": "user_annotation", "name": "gloo:all_reduce"}, False),
        ({"cat": "user_annotation", "name": "ProfilerStep#1"}, False),
    ],
    ids=["op", "annotation", "backend", "step"],
)
def test_advice_about_annotations_comes_where_the_program_opened_them(shown: Json, advised: bool) -> None:
    still_open = {**ran("after", 600, 100, 13, finished="false"), **shown}
    unfinished = [one for one in found([*EVENTS[:-1], still_open]) if one.code == "op-unfinished"]
    assert ["annotations of your own" in one.advice for one in unfinished] == [advised]


def test_an_open_step_of_another_profiler_is_reported_once() -> None:
    """It is among the steps of another profiler, and nothing that the program could end."""
    step = ran("ProfilerStep#1", 100, 600, 10, cat="user_annotation")
    other = {**ran("ProfilerStep#39", 200, 500, 13, finished="false"), "cat": "user_annotation"}
    codes = [one.code for one in found([{**step, "cat": "user_annotation"}, other, *EVENTS[1:]])]
    assert FindingCode.OP_UNFINISHED not in codes


@pytest.mark.parametrize("code", ["execution-trace-unfinished", "execution-trace-empty"])
def test_what_a_capture_lost_is_found_in_its_manifest_again(folder: Path, code: str) -> None:
    """The file itself was made whole, and shows nothing of it."""
    lost = {"code": code, "message": "ended early", "where": "byte 7", "count": 1, "file": NAME}
    (one,) = found_with_manifest(folder, window(findings=[lost]))
    assert (one.code, one.path, one.where) == (code, str(folder / NAME), "byte 7")
    assert one.message == lost["message"]


def test_what_a_capture_mended_is_not_said_again(folder: Path) -> None:
    mended = {"code": "name-escaped", "message": "x", "where": "", "count": 1, "file": NAME}
    assert found_with_manifest(folder, window(findings=[mended])) == []


@pytest.mark.parametrize("findings", [5, None, "abc", {"code": "x"}, [5, None, "x", {}], True], ids=str)
def test_findings_that_are_none_break_nothing(folder: Path, findings: Any) -> None:
    assert found_with_manifest(folder, window(findings=findings)) == []


def test_each_window_speaks_for_itself(folder: Path) -> None:
    windows = [window(), window(complete=False), window(failure="x")]
    assert codes(found_with_manifest(folder, *windows)) == ["window-incomplete", "window-lost"]


def test_a_file_that_is_not_there_is_named(folder: Path) -> None:
    (one,) = found_with_manifest(folder, window(files=[{"path": "gone.json", "size_bytes": 5}]))
    assert (one.code, one.where) == ("manifest-untrue", "gone.json")


@pytest.mark.parametrize("size", [4, 6])
def test_a_file_of_another_size_is_told_with_both_sizes(folder: Path, size: int) -> None:
    (one,) = found_with_manifest(folder, window(files=[{"path": NAME, "size_bytes": size}]))
    assert (one.code, one.message) == ("manifest-untrue", f"{NAME} has 5 bytes, not {size}")


def test_files_of_windows_are_looked_for_in_their_folders(folder: Path) -> None:
    (folder / "window_1").mkdir()
    (folder / "window_1" / NAME).write_bytes(b"123")
    files = [{"path": f"window_1/{NAME}", "size_bytes": 3}, {"path": f"window_2/{NAME}", "size_bytes": 3}]
    found = found_with_manifest(folder, window(files=files))
    assert [(one.code, one.where) for one in found] == [("manifest-untrue", f"window_2/{NAME}")]


@pytest.mark.parametrize(
    "windows",
    [5, None, "abc", {"a": 1}, [1, None, "x"], [[]], True],
    ids=str,
)
def test_windows_that_are_no_windows_break_nothing(folder: Path, windows: Any) -> None:
    told = manifest_findings({"windows": windows}, str(folder / "manifest_0.json"), sizes_in(folder))
    assert "nothing-recorded" in codes(told)


@pytest.mark.parametrize("files", [5, None, "abc", {"path": NAME}, [5, None, "x"], True], ids=str)
def test_files_that_are_no_files_break_nothing(folder: Path, files: Any) -> None:
    told = found_with_manifest(folder, window(), window(files=files))
    assert set(codes(told)) <= {"manifest-untrue", "nothing-recorded"}


@pytest.mark.parametrize(
    "path",
    [None, "", "/", "..", 5, ["a"], "a\0b", "x" * 5000, "a/" * 3000, "\ud800", "torch_et_0.json/below"],
    ids=lambda path: str(path)[:12].encode("ascii", "backslashreplace").decode(),
)
def test_a_path_that_is_no_file_beside_the_manifest_is_not_there(folder: Path, path: Any) -> None:
    assert codes(found_with_manifest(folder, window(files=[{"path": path, "size_bytes": 5}]))) == [
        "manifest-untrue"
    ]


@pytest.mark.parametrize("path", ["../outside.json", "/etc/passwd", "window_1/../../outside.json"])
def test_a_path_that_leads_out_of_the_folder_is_untrue_whatever_lies_there(folder: Path, path: str) -> None:
    """Captures are handed around: a manifest must not ask about the files of whoever checks it."""
    inside = folder / "capture"
    (inside / "window_1").mkdir(parents=True)
    (folder / "outside.json").write_bytes(b"12345")
    size = Path("/etc/passwd").stat().st_size if path.startswith("/") else 5
    told = manifest_findings(
        {"windows": [window(files=[{"path": path, "size_bytes": size}])]},
        str(inside / "manifest_0.json"),
        sizes_in(inside),
    )
    assert codes(told) == ["manifest-untrue"]


def test_a_size_that_is_text_is_untrue_in_words_that_do_not_contradict_themselves(folder: Path) -> None:
    (one,) = found_with_manifest(folder, window(files=[{"path": NAME, "size_bytes": "5"}]))
    assert one.code == "manifest-untrue"
    assert "5 bytes, not 5" not in one.message


def test_files_that_a_killed_process_left_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    assert leftover_findings(str(tmp_path), names_in(tmp_path)) == []
    for name in (
        ".torch_et_1.json.gz.77-ab.whole.part",
        ".kineto_trace_1.json.77-ab.recording.json",
        "mine.part",
    ):
        (tmp_path / name).write_bytes(b"1")
    (one,) = leftover_findings(str(tmp_path), names_in(tmp_path))
    assert (one.code, one.count) == ("part-left", 2)
    assert one.path == str(tmp_path / ".kineto_trace_1.json.77-ab.recording.json")
