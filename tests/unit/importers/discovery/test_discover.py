"""Which files of a folder belong to which rank?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import Json, et_text, kineto_text, node, op, process_node, write
from tracebraid.errors import InputError
from tracebraid.importers.discovery.discover import find_rank_files, trace_files

ET = et_text([process_node(), node(2, "a", 1)])


def kineto(info: Json | None = None) -> str:
    return kineto_text([op("a", 1, 2)], header={"distributedInfo": info})


def base_name(path: str | Path | None) -> str | None:
    return None if path is None else Path(path).name


def found(folder: Path, files: dict[str, str]) -> tuple[list[tuple[int, str | None, str | None]], list[str]]:
    """((rank, Kineto file, ET file) of each rank, codes of findings) of a folder with these files."""
    inside = folder / "job"
    inside.mkdir()
    for name, text in files.items():
        write(inside / name, text)
    ranks, findings = find_rank_files(inside)
    return [(one.rank, base_name(one.kineto), base_name(one.et)) for one in ranks], [f.code for f in findings]


def test_files_are_paired_by_the_ranks_in_their_names(tmp_path: Path) -> None:
    files = {f"{kind}_{rank}.json.gz": "" for rank in (10, 0, 2) for kind in ("torch_et", "kineto_trace")}
    assert found(tmp_path, files) == (
        [(rank, f"kineto_trace_{rank}.json.gz", f"torch_et_{rank}.json.gz") for rank in (0, 2, 10)],
        [],
    )


def test_the_tensorboard_layout_with_traces_ending_in_et(tmp_path: Path) -> None:
    files = {f"rank-{rank}.17356.pt.trace.json.gz": kineto() for rank in (0, 1)}
    files |= {f"rank-{rank}_et.json": ET for rank in (0, 1)}
    assert found(tmp_path, files) == (
        [(rank, f"rank-{rank}.17356.pt.trace.json.gz", f"rank-{rank}_et.json") for rank in (0, 1)],
        [],
    )


def test_files_whose_names_tell_nothing_are_opened(tmp_path: Path) -> None:
    files = {"a.json": kineto({"rank": 1}), "b.json.gz": kineto({"rank": 0}), "rank1.json": ET}
    assert found(tmp_path, files) == ([(0, "b.json.gz", None), (1, "a.json", "rank1.json")], ["no-et"])


def test_a_rank_that_a_file_has_as_text_is_a_rank(tmp_path: Path) -> None:
    files = {"a.json": kineto({"rank": "1"}), "b.json": kineto({"rank": "0"})}
    assert found(tmp_path, files) == ([(0, "b.json", None), (1, "a.json", None)], [])


@pytest.mark.parametrize("info", [None, {"rank": 0}, {"rank": 3}])
def test_the_only_two_files_belong_together(tmp_path: Path, info: Json | None) -> None:
    rank = info["rank"] if info else 0
    assert found(tmp_path, {"a.json": kineto(info), "b.json": ET}) == ([(rank, "a.json", "b.json")], [])


def test_the_only_two_files_belong_together_if_only_the_execution_trace_tells_its_rank(
    tmp_path: Path,
) -> None:
    assert found(tmp_path, {"a.json": kineto(), "torch_et_2.json": ET}) == (
        [(2, "a.json", "torch_et_2.json")],
        [],
    )


def test_two_files_of_one_rank_are_said_and_the_first_is_used(tmp_path: Path) -> None:
    files = {"kineto_trace_0.json": kineto(), "rank-0.pt.trace.json": kineto(), "torch_et_0.json": ET}
    ranks, codes = found(tmp_path, files)
    assert ranks == [(0, "kineto_trace_0.json", "torch_et_0.json")]
    assert codes == ["rank-claimed-twice"]


def test_ranks_without_a_partner_are_said(tmp_path: Path) -> None:
    files = {
        "kineto_trace_0.json": "",
        "torch_et_0.json": "",
        "kineto_trace_1.json": "",
        "torch_et_2.json": "",
    }
    ranks, codes = found(tmp_path, files)
    assert ranks == [
        (0, "kineto_trace_0.json", "torch_et_0.json"),
        (1, "kineto_trace_1.json", None),
        (2, None, "torch_et_2.json"),
    ]
    assert sorted(codes) == ["no-et", "no-kineto"]


def test_kineto_traces_alone_are_no_finding(tmp_path: Path) -> None:
    assert found(tmp_path, {"kineto_trace_0.json": "", "kineto_trace_1.json": ""})[1] == []


def test_what_we_wrote_ourselves_and_other_files_are_not_looked_at(tmp_path: Path) -> None:
    files = {"kineto_trace_0.json": kineto(), "torch_et_0.json": ET}
    others = {
        "et_plus_0.json": ET,
        "rank0_et_plus.json": ET,
        "manifest.json": "{}",
        "notes.txt": "",
        "x.csv": "",
    }
    assert found(tmp_path, files | others) == ([(0, "kineto_trace_0.json", "torch_et_0.json")], [])


def test_a_file_that_is_no_trace_is_said_and_left_out(tmp_path: Path) -> None:
    files = {"kineto_trace_0.json": kineto(), "config.json": '{"lr": 1}', "empty.json": ""}
    ranks, codes = found(tmp_path, files)
    assert ranks == [(0, "kineto_trace_0.json", None)]
    assert codes == ["not-a-trace", "not-a-trace"]


def test_a_folder_inside_with_the_name_of_a_trace_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "kineto_trace_1.json").mkdir()
    write(tmp_path / "job" / "kineto_trace_0.json", kineto())
    assert [one.rank for one in find_rank_files(tmp_path / "job")[0]] == [0]


def test_several_traces_of_which_none_tells_its_rank_are_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rank") as caught:
        found(tmp_path, {"a.json": kineto(), "b.json": kineto()})
    assert "Execution Trace" not in caught.value.problem


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({}, "there is no trace in it"),
        ({"a.json": '{"b": 1}'}, "there is no trace in it"),
        ({"torch_et_0.json": ET}, "no Kineto trace"),
    ],
)
def test_a_folder_without_a_kineto_trace_is_refused(tmp_path: Path, files: dict[str, str], word: str) -> None:
    with pytest.raises(InputError, match=word):
        found(tmp_path, files)


def test_one_kineto_file_is_a_job_of_one_rank(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    for name, info, rank in (("t.json", {"rank": 5}, 5), ("t.json", {}, 0), ("kineto_trace_3.json", {}, 3)):
        path = write(tmp_path / "plain" / name, kineto(info))
        ranks, findings = find_rank_files(path)
        assert [(one.rank, one.kineto, one.et) for one in ranks] == [(rank, str(path), None)]
        assert findings == ()


def test_one_execution_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Execution Trace, which has no times"):
        find_rank_files(write(tmp_path / "et.json", ET))


@pytest.mark.parametrize("text", ["", "hello", '{"a": 1}'])
def test_one_file_that_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        find_rank_files(write(tmp_path / "t.json", text))


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        find_rank_files(tmp_path / "gone")


def test_the_files_of_folders_are_listed_in_order(tmp_path: Path) -> None:
    for name in ("b.json", "a.json.gz", "c.txt", "et_plus_0.json"):
        (tmp_path / name).touch()
    expected = [str(tmp_path / name) for name in ("c.txt", "a.json.gz", "b.json")]
    assert trace_files([tmp_path / "c.txt", tmp_path]) == expected


def test_a_folder_without_trace_files_cannot_be_listed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.json"):
        trace_files([tmp_path])
