"""Which files of a folder belong to which rank?"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.builders import Json, et_text, kineto_text, node, op, process_node, write
from tracebraid.errors import InputError
from tracebraid.importers.discovery import (
    ET,
    KINETO,
    Found,
    find_rank_files,
    pair_by_number,
    rank_from_name,
    rank_in_tail,
    trace_files,
)
from tracebraid.importers.sampling import origin_of_header, rank_origins
from tracebraid.model.rank_files import GroupOfRank, RankFiles, RankOrigin

ET_TEXT = et_text([process_node(), node(2, "a", 1)])


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
    paths = [(one.rank, base_name(one.kineto), base_name(one.et)) for one in ranks]
    return paths, sorted(f.code for f in findings)


BOTH = ("kineto_trace", "torch_et")
BOARD = "rank-{}.17356.pt.trace.json.gz"


@pytest.mark.parametrize(
    ("files", "ranks", "codes"),
    [
        pytest.param(
            {f"{kind}_{rank}.json.gz": "" for rank in (10, 0, 2) for kind in BOTH},
            [(rank, f"kineto_trace_{rank}.json.gz", f"torch_et_{rank}.json.gz") for rank in (0, 2, 10)],
            [],
            id="by the ranks in their names",
        ),
        pytest.param(
            {
                name: text
                for n in (0, 1)
                for name, text in ((BOARD.format(n), kineto()), (f"rank-{n}_et.json", ET_TEXT))
            },
            [(n, BOARD.format(n), f"rank-{n}_et.json") for n in (0, 1)],
            [],
            id="TensorBoard's layout",
        ),
        pytest.param(
            {"a.json": kineto({"rank": 1}), "b.json.gz": kineto({"rank": 0}), "rank1.json": ET_TEXT},
            [(0, "b.json.gz", None), (1, "a.json", "rank1.json")],
            ["no-et"],
            id="names that tell nothing are opened",
        ),
        pytest.param(
            {"a.json": kineto({"rank": "1"}), "b.json": kineto({"rank": "0"})},
            [(0, "b.json", None), (1, "a.json", None)],
            [],
            id="a rank as text",
        ),
        *(
            pytest.param(
                {"a.json": kineto(info), "b.json": ET_TEXT},
                [(rank, "a.json", "b.json")],
                [],
                id=f"two files, {info}",
            )
            for info, rank in ((None, 0), ({"rank": 0}, 0), ({"rank": 3}, 3))
        ),
        pytest.param(
            {"a.json": kineto(), "torch_et_2.json": ET_TEXT},
            [(2, "a.json", "torch_et_2.json")],
            [],
            id="two files, the Execution Trace tells the rank",
        ),
        pytest.param(
            {"kineto_trace_0.json": kineto(), "rank-0.pt.trace.json": kineto(), "torch_et_0.json": ET_TEXT},
            [(0, "kineto_trace_0.json", "torch_et_0.json")],
            ["rank-claimed-twice"],
            id="two files of one rank",
        ),
        pytest.param(
            {
                "kineto_trace_0.json": "",
                "torch_et_0.json": "",
                "kineto_trace_1.json": "",
                "torch_et_2.json": "",
            },
            [
                (0, "kineto_trace_0.json", "torch_et_0.json"),
                (1, "kineto_trace_1.json", None),
                (2, None, "torch_et_2.json"),
            ],
            ["no-et", "no-kineto"],
            id="ranks without a partner",
        ),
        pytest.param(
            {"kineto_trace_0.json": "", "kineto_trace_1.json": ""},
            [(0, "kineto_trace_0.json", None), (1, "kineto_trace_1.json", None)],
            [],
            id="Kineto traces alone",
        ),
        pytest.param(
            {
                "kineto_trace_0.json": kineto(),
                "torch_et_0.json": ET_TEXT,
                "notes.txt": "",
                "x.csv": "",
                "et_plus_0.json": ET_TEXT,
                "rank0_et_plus.json": ET_TEXT,
                "manifest.json": "{}",
            },
            [(0, "kineto_trace_0.json", "torch_et_0.json")],
            [],
            id="other files and our own",
        ),
        pytest.param(
            {"kineto_trace_0.json": kineto(), "config.json": '{"lr": 1}', "empty.json": ""},
            [(0, "kineto_trace_0.json", None)],
            ["not-a-trace", "not-a-trace"],
            id="no traces",
        ),
    ],
)
def test_the_files_of_a_folder_belong_to_ranks(
    tmp_path: Path, files: dict[str, str], ranks: list[tuple[int, str | None, str | None]], codes: list[str]
) -> None:
    assert found(tmp_path, files) == (ranks, codes)


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
        ({"torch_et_0.json": ET_TEXT}, "no Kineto trace"),
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
        find_rank_files(write(tmp_path / "et.json", ET_TEXT))


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


# --- Files without a rank are paired by the number in their names, where that is unambiguous ---------


WORKERS = [(f"worker{n}_step_12.16941282{n}00000.pt.trace.json", KINETO, n) for n in (3, 4)]


@pytest.mark.parametrize(
    ("files", "ranks", "findings"),
    [
        pytest.param(
            [*WORKERS, ("dlrm_eg_4.json", ET, None)], [3, 4, 4], 1, id="the number in the other's name"
        ),
        pytest.param(
            [
                (name.format(n), kind, n if kind == KINETO else None)
                for name, kind in (("eg_{}", ET), ("w{}", KINETO))
                for n in range(12)
            ],
            [*range(12), *range(12)],
            12,
            id="each of many its own",
        ),
        pytest.param(
            [("a_5.json", ET, None), ("b_5.json", KINETO, None), ("b_6.json", KINETO, None)],
            [5, 5, None],
            2,
            id="neither says a rank",
        ),
        pytest.param(
            [("eg_4.json", ET, None), ("worker4_a.json", KINETO, 4), ("worker4_b.json", KINETO, 4)],
            [4, 4, 4],
            1,
            id="several windows of a rank",
        ),
        pytest.param(
            [("x_4.json", ET, None), ("y_4.json", ET, None), ("worker4.json", KINETO, 4)],
            [None, None, 4],
            0,
            id="two of a kind have the number",
        ),
        pytest.param(
            [("eg_3_4.json", ET, None), ("worker3.json", KINETO, 3), ("worker4.json", KINETO, 4)],
            [None, 3, 4],
            0,
            id="two such numbers in a name",
        ),
        pytest.param(
            [("eg_1694128201.json", ET, None), ("worker.json", KINETO, 1694128201)],
            [None, 1694128201],
            0,
            id="a time is no number",
        ),
        pytest.param([("et_2.json", ET, 2), ("worker4.json", KINETO, 4)], [2, 4], 0, id="a known rank stays"),
    ],
)
def test_files_are_paired_by_their_numbers(
    files: list[tuple[str, str, int | None]], ranks: list[int | None], findings: int
) -> None:
    """The rank of each file, and how many were paired."""
    found, said = pair_by_number([Found(*file) for file in files])
    assert [one.rank for one in found] == ranks
    assert [one.code for one in said] == ["paired-by-number"] * findings


# --- Which rank does a file's name tell, and when does it tell none ----------------------------------


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("torch_et_3.json", 3),
        ("torch_et_12.json.gz", 12),
        ("kineto_trace_0.json", 0),
        ("kineto_trace_12.json.gz", 12),
        ("nsys_4.nsys-rep", 4),
        ("rank-3.pt.trace.json.gz", 3),
        ("rank-3.1735689600.pt.trace.json.gz", 3),
        ("rank-0_step-5.json", 0),
        ("step_5_rank_3.json", 3),
        ("rank3.json", 3),
        ("rank_3.json", 3),
        ("rank.3.json", 3),
        ("Rank03.json", 3),
        ("RANK_7_et.json", 7),
        ("a100_ddp_nccl_rank0of2.json", 0),
        ("sampled_rank-1.json.gz", 1),
        ("worker5.1735.pt.trace.json", 5),
        ("worker_5.json", 5),
        ("trace-5.json", 5),
        ("trace_r3.json", 3),
        ("r3.json", 3),
        ("et-2.json.gz", 2),
        ("pytorch_et_2.json", 2),
        ("chakra_host_et_3.json", 3),
        ("/runs/a/torch_et_3.json", 3),
        ("/runs/rank_4/trace.json", 4),
        ("/runs/rank_4/rank_5.json", 5),
        ("C:/runs/rank-1/x.json", 1),
    ],
)
def test_a_name_tells_its_rank(name: str, rank: int) -> None:
    assert rank_from_name(name) == rank


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "-",
        "standard input",
        "trace.json",
        "rank.json",
        "rank-.json",
        "host_1234.1735689600.pt.trace.json",
        "frank3.json",
        "crank-3.json",
        "var3.json",
        "v100.json",
        "a100_event_sync.json",
        "step_5.json",
        "resnet_2gpu_1.1.0.json.gz",
        "/rank_3/runs/trace.json",
        "dataset_2.json",
        "target_5.json",
        "my_asset_7.json",
        "budget-3.json",
        "backtrace_5.json",
        "trace_20250101.json",
        "kineto_trace_1735689600123.json",
    ],
)
def test_a_name_without_a_rank_tells_none(name: str) -> None:
    assert rank_from_name(name) is None


# --- Folders as other tools leave them: which files are traces, of which rank ------------------------


def kineto_of_events(info: Json | None = None, tail: Json | None = None) -> str:
    return kineto_text([op("a", 1, 2)], header={"distributedInfo": info}, tail=tail)


def put(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        target = folder / "job" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, text)
    return folder / "job"


def pairs(folder: Path) -> tuple[list[tuple[int, str | None, str | None]], list[str]]:
    ranks, findings = find_rank_files(folder)
    name = lambda path: None if path is None else str(Path(path).relative_to(folder))  # noqa: E731
    return [(one.rank, name(one.kineto), name(one.et)) for one in ranks], [f.code for f in findings]


def test_torchtitan_leaves_a_folder_for_each_iteration(tmp_path: Path) -> None:
    job = put(tmp_path, {f"iteration_10/rank{rank}_trace.json": kineto_of_events() for rank in (0, 1)})
    expected = [(rank, f"iteration_10/rank{rank}_trace.json", None) for rank in (0, 1)]
    assert pairs(job) == (expected, [])
    assert [Path(path).name for path in trace_files([job])] == ["rank0_trace.json", "rank1_trace.json"]


@pytest.mark.parametrize("names", [("iteration_10", "iteration_20"), ("first", "second")])
def test_several_folders_of_traces_are_named_so_that_one_is_chosen(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    job = put(tmp_path, {f"{name}/rank0_trace.json": kineto_of_events() for name in names})
    with pytest.raises(InputError, match=rf"{names[0]}, {names[1]}.* Name one of them"):
        find_rank_files(job)
    assert pairs(job / names[1])[0] == [(0, "rank0_trace.json", None)]


def test_megatron_leaves_both_kinds_in_folders_beside_each_other(tmp_path: Path) -> None:
    files = {f"torch_profile/rank-{rank}.json.gz": kineto_of_events() for rank in (0, 1)}
    files |= {f"chakra/rank-{rank}.json.gz": ET_TEXT for rank in (0, 1)}
    job = put(tmp_path, {**files, "tensorboard/events.out.tfevents.1.host": ""})
    expected = [
        (rank, f"torch_profile/rank-{rank}.json.gz", f"chakra/rank-{rank}.json.gz") for rank in (0, 1)
    ]
    assert pairs(job) == (expected, [])


def test_tensorboards_handler_names_host_process_and_time(tmp_path: Path) -> None:
    files = {
        f"node{n}_41{n}.169900000000{n}000000.pt.trace.json": kineto_of_events({"rank": n, "world_size": 2})
        for n in (0, 1)
    }
    job = put(tmp_path, {**files, "events.out.tfevents.1.host": ""})
    expected = [(n, f"node{n}_41{n}.169900000000{n}000000.pt.trace.json", None) for n in (0, 1)]
    assert pairs(job) == (expected, [])


def test_of_the_cycles_of_tensorboards_handler_the_last_written_is_used(tmp_path: Path) -> None:
    times = ("999999999999999999", "1699000000000000000", "1699000000500000000")
    job = put(tmp_path, {f"rank-0.{time}.pt.trace.json": kineto_of_events() for time in times})
    assert pairs(job) == ([(0, f"rank-0.{times[2]}.pt.trace.json", None)], ["rank-claimed-twice"])


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("quoted", [False, True])
def test_on_demand_traces_tell_their_rank_behind_their_events(
    tmp_path: Path, suffix: str, quoted: bool
) -> None:
    def tail(rank: int) -> Json:
        return {
            "distributedInfo": {"backend": "nccl", "rank": str(rank) if quoted else rank, "world_size": 2}
        }

    job = put(
        tmp_path, {f"libkineto_{pid}{suffix}": kineto_of_events(tail=tail(pid - 70)) for pid in (70, 71)}
    )
    expected = [(rank, f"libkineto_{70 + rank}{suffix}", None) for rank in (0, 1)]
    assert pairs(job) == (expected, [])


def test_a_rank_behind_the_events_is_found_in_large_and_in_damaged_files(tmp_path: Path) -> None:
    info = json.dumps({"distributedInfo": {"rank": 5}})[1:]
    text = '{"traceEvents": [' + " " * 700_000 + "], " + info
    plain = write(tmp_path / "a.json", text)
    packed = write(tmp_path / "a.json.gz", text)
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes(gzip.compress(text.encode())[:-12])
    assert [rank_in_tail(str(path)) for path in (plain, packed)] == [5, 5]
    assert rank_in_tail(str(cut)) in (5, None)
    assert rank_in_tail(str(write(tmp_path / "b.json", '{"traceEvents": [' + " " * 99))) is None


def test_what_capture_writes_beside_the_traces_is_no_trace(tmp_path: Path) -> None:
    ours = (
        "manifest_0.json",
        "torch_et_0_report.json",
        "torch_et_0.json.gz.orig",
        ".torch_et_1.json.gz.77.recording.part",
        ".hidden.json",
    )
    beside = dict.fromkeys(ours, "{}")
    job = put(
        tmp_path, {"torch_et_0.json.gz": ET_TEXT, "kineto_trace_0.json.gz": kineto_of_events(), **beside}
    )
    assert pairs(job) == ([(0, "kineto_trace_0.json.gz", "torch_et_0.json.gz")], [])


def test_an_nsys_export_stands_in_where_there_is_no_kineto_trace(tmp_path: Path) -> None:
    job = put(tmp_path, {"nsys_0.sqlite": "", "nsys_1.sqlite": "", "kineto_trace_1.json": kineto_of_events()})
    assert pairs(job) == (
        [(0, "nsys_0.sqlite", None), (1, "kineto_trace_1.json", None)],
        ["rank-claimed-twice"],
    )


def test_an_nsys_report_that_was_not_exported_is_said(tmp_path: Path) -> None:
    job = put(tmp_path, {"nsys_0.nsys-rep": "", "kineto_trace_0.json": kineto_of_events()})
    assert pairs(job)[1] == ["nsys-not-exported"]
    (job / "kineto_trace_0.json").unlink()
    with pytest.raises(InputError, match="nsys export --type sqlite"):
        find_rank_files(job)


def test_a_timeline_of_perfetto_is_refused_by_name(tmp_path: Path) -> None:
    """As torch's `cupti_monitor` writes it: packets."""
    job = put(tmp_path, {"trace.pftrace": "\n\x20P\x02h\x01\x0f\x05\x01b\x20\n\x0e\x08\x01\x12\nannotation"})
    for path in (job, job / "trace.pftrace"):
        with pytest.raises(InputError, match="this is a timeline of Perfetto") as raised:
            find_rank_files(path)
        assert raised.value.path == str(job / "trace.pftrace")


def test_five_hundred_ranks_are_found_without_opening_a_file(tmp_path: Path) -> None:
    job = put(tmp_path, {"kineto_trace_0.json": "no trace at all"})
    for rank in range(1, 512):
        (job / f"kineto_trace_{rank}.json").symlink_to(job / "kineto_trace_0.json")
    ranks, findings = find_rank_files(job)
    assert (len(ranks), findings) == (512, ())


def test_an_empty_tree_of_folders_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(InputError, match="there is no trace in it"):
        find_rank_files(tmp_path)


# --- On which host a rank ran, and in which groups: from the first source that says so ---------------


EVENTS = [op("aten::add", 0, 5, host_name="an argument", distributedInfo={"rank": 5})]
GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]},
    {"pg_name": "1", "pg_desc": "TENSOR", "ranks": [2, 3]},
    {"pg_name": "2", "pg_desc": "CUT", "ranks": "[2, 3, ..."},
]
EXPECTED = (GroupOfRank("default_pg", (0, 1, 2, 3)), GroupOfRank("TENSOR", (2, 3)))

UNSAID = kineto_text(EVENTS * 10_000).replace('"distributedInfo": {"rank": 0},', "")
"""Neither head nor tail has the members, and events have arguments of their names."""


def members(host: str = "node-7") -> Json:
    return {"distributedInfo": {"rank": 2, "pg_config": GROUPS}, "host_name": host}


def origin(folder: Path, name: str, text: str | bytes) -> RankOrigin:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (found,) = rank_origins([RankFiles(2, str(path), None)])
    return found


def test_the_head_says_it_plain_and_compressed(tmp_path: Path) -> None:
    text = kineto_text(EVENTS, members())
    expected = RankOrigin(2, "node-7", EXPECTED)
    assert origin(tmp_path, "kineto_trace_2.json", text) == expected
    assert origin(tmp_path, "kineto_trace_2.json.gz", gzip.compress(text.encode())) == expected


def test_the_tail_says_it_where_the_head_does_not(tmp_path: Path) -> None:
    text = kineto_text(EVENTS * 10_000, {"distributedInfo": None}, members())
    assert len(text) > 1 << 21
    text = text.replace('"distributedInfo": null,', "")
    assert origin(tmp_path, "kineto_trace_2.json", text) == RankOrigin(2, "node-7", EXPECTED)


def test_arguments_of_events_are_no_header(tmp_path: Path) -> None:
    assert origin(tmp_path, "kineto_trace_2.json", UNSAID) == RankOrigin(2)


def test_the_name_of_tensorboards_handler_has_the_host(tmp_path: Path) -> None:
    name = "gpu-node_12.cluster_4711.1700000000000000000.pt.trace.json"
    assert origin(tmp_path, name, kineto_text(EVENTS)).host == "gpu-node_12.cluster"


def test_the_manifest_has_host_and_groups_also_from_above_a_window(tmp_path: Path) -> None:
    manifest = {"rank": 2, "host": "node-9", "process_groups": GROUPS}
    (tmp_path / "manifest_2.json").write_text(json.dumps(manifest))
    window = tmp_path / "window_0"
    window.mkdir()
    expected = RankOrigin(2, "node-9", EXPECTED)
    assert origin(tmp_path, "kineto_trace_2.json", kineto_text(EVENTS)) == expected
    assert origin(window, "kineto_trace_2.json", kineto_text(EVENTS)) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"\x1f\x8b" + bytes(100),
        b'{"distributedInfo": {"pg_config": [[[[',
        b'{"distributedInfo": ' + b"[" * 200_000,
        b'{"distributedInfo": {"pg_config": 5}, "host_name": null, "traceEvents": []}',
        b'{"distributedInfo": {"pg_config": [{"ranks": [1e400, {}]}]}, "traceEvents": []}',
    ],
)
def test_what_cannot_be_read_says_nothing(tmp_path: Path, text: bytes) -> None:
    assert origin(tmp_path, "kineto_trace_2.json", text) == RankOrigin(2)


def test_a_file_that_is_gone_says_nothing(tmp_path: Path) -> None:
    assert rank_origins([RankFiles(2, str(tmp_path / "kineto_trace_2.json"), None)]) == [RankOrigin(2)]


def test_a_header_that_is_read_already_says_the_same() -> None:
    assert origin_of_header(2, "kineto_trace_2.json", members()) == RankOrigin(2, "node-7", EXPECTED)
