"""`tracebraid chakra check` on files."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import tracebraid
from tests.cases import cases
from tests.chakra_ranks import collective, compute, rank_of, receive, send
from tests.integration.command import fail, run
from tests.integration.running import run_command
from tests.planted.chakra_rank import MISSING, NAMES, made_rank
from tests.planted.synthetic import GOLDEN, deps_of, small_jobs, transformer
from tests.unit.chakra.test_files import RANK
from tracebraid.chakra import LintCode, Parallelism, TrainingSteps
from tracebraid.chakra.generating.generate import comm_groups, generated_ranks
from tracebraid.errors import ArgumentError, InputError, OutputError, WrongTraceError

_STEP = [compute(0, us=100), collective(1, 0, size=1 << 20), compute(2, 1, us=50)]


def job(folder: Path, *ranks: list[dict[str, object]]) -> Path:
    for number, nodes in enumerate(ranks):
        tracebraid.chakra.write(folder / f"job.{number}.et", rank_of(number, nodes))
    return folder


def crossed(folder: Path) -> Path:
    groups = (("1", "2"), ("2", "1"))
    job(folder, *([collective(0, group=a), collective(1, 0, group=b)] for a, b in groups))
    (folder / "comm_group.json").write_text('{"1": [0, 1], "2": [0, 1]}')
    return folder


def test_a_sound_job_ends_with_0(tmp_path: Path) -> None:
    done = run("chakra", "check", job(tmp_path, _STEP, _STEP))
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 ranks, 6 nodes" in done.stdout


def test_warnings_end_with_0(tmp_path: Path) -> None:
    used = [collective(0, group="1")]
    done = run("chakra", "check", job(tmp_path, used, used))
    assert (done.returncode, str(LintCode.GROUPS_NOT_GIVEN) in done.stdout) == (0, True)


def test_a_deadlock_ends_with_1_and_names_the_nodes_as_json_too(tmp_path: Path) -> None:
    folder = crossed(tmp_path)
    done = run("chakra", "check", folder)
    assert (done.returncode, str(LintCode.DEADLOCK) in done.stdout) == (1, True)
    data = json.loads(run("chakra", "check", folder, "--json").stdout)
    (found,) = data["findings"]
    assert (found["code"], found["severity"], data["runs"]) == ("deadlock", "error", False)
    assert found["nodes"] == [{"rank": 0, "node_id": 0}, {"rank": 1, "node_id": 0}]


def test_what_a_deadlock_waits_for_stands_in_lines(tmp_path: Path) -> None:
    done = run("chakra", "run", crossed(tmp_path), "--network", "ring,50GB/s,500ns")
    assert (done.returncode, "\\n" in done.stderr) == (1, False)
    assert len(done.stderr.splitlines()) > 2


@cases(
    "size, expected",
    {
        "as large as the sends": ("64MiB", (1, "waits for a receive of rank 1")),
        "all sends": ("0", (1, "sends of 0 bytes or more wait for their receive")),
        "beyond them": ("65MiB", (0, "No send is of that size")),
        "negative": ("-1", (2, "'-1' is not a size")),
        "no number": ("abc", (2, "'abc' is not a size")),
        "beyond 64 bits": ("100000000000000000000", (2, "out of range")),
    },
)
def test_sends_that_wait_for_their_receive_are_simulated(
    tmp_path: Path, size: str, expected: tuple[int, str]
) -> None:
    ranks = [
        [send(0, to=1 - own, size=1 << 26), receive(1, 0, source=1 - own, size=1 << 26)] for own in (0, 1)
    ]
    done = run("chakra", "run", job(tmp_path, *ranks), "--network", "ring", "--rendezvous", size)
    assert (done.returncode, expected[1] in done.stdout + done.stderr) == (expected[0], True)


def test_a_job_of_stage_runs_with_the_roofline_of_the_system_file(tmp_path: Path) -> None:
    work = compute(0, us=0, num_ops=9 * 10**9, tensor_size=10**6)
    first = [work, collective(1, 0, group="1")]
    job(tmp_path, first, first, [{**work, "num_ops": 9 * 10**10}])
    (tmp_path / "job.json").write_text('{"1": [0, 1]}')
    assert "roofline-enabled" in fail("chakra", "run", tmp_path)
    system = tmp_path / "system"
    system.write_text('{"roofline-enabled": 1, "peak-perf": 900, "local-mem-bw": 1600}')
    done = run("chakra", "run", tmp_path, "--system", system, "--json")
    assert [row["end_ns"] for row in json.loads(done.stdout)["ranks"]] == [11_000, 11_000, 100_000]


def test_an_attribute_that_chakra_reads_as_0_is_named_in_the_file_that_has_it(tmp_path: Path) -> None:
    typed = {"attributes": '{"comm_size":{"type":"uint64_val"}}'}
    done = run("chakra", "check", job(tmp_path, *[[{**collective(0), **typed}]] * 8))
    assert (done.returncode, done.stdout.count(str(LintCode.ATTRIBUTE_TYPE))) == (0, 1)
    assert "comm_size is uint64_val and not int64_val" in done.stdout


def test_all_waiting_ranks_of_a_run_are_named_whatever_is_printed(tmp_path: Path) -> None:
    once = [collective(0)]
    done = run("chakra", "run", job(tmp_path, *[once] * 12, *[[*once, collective(1, 0)]] * 8), "--top", "1")
    assert (done.returncode, "8 nodes of ranks 12-19:" in done.stderr) == (1, True)
    assert "waits for ranks 0-11, which have ended" in done.stderr


def test_a_single_file_is_checked_without_the_other_ranks(tmp_path: Path) -> None:
    folder = crossed(tmp_path)
    assert tracebraid.chakra.check(folder / "job.1.et").findings == ()
    assert not tracebraid.chakra.check(folder / "job").runs
    assert not tracebraid.chakra.check([folder / "job.0.et", folder / "job.1.et"]).runs


def test_a_file_that_is_cut_or_no_et_file_is_a_finding_and_the_others_are_checked(tmp_path: Path) -> None:
    folder = job(tmp_path, _STEP, _STEP, _STEP)
    whole = (folder / "job.1.et").read_bytes()
    (folder / "job.1.et").write_bytes(whole[: len(whole) // 2])
    (folder / "job.2.et").write_bytes(b"\x89PNG\r\n" * 50)
    check = tracebraid.chakra.check(folder)
    found = {finding.code: finding.path for finding in check.findings}
    assert found[LintCode.FILE_UNREADABLE] == str(folder / "job.2.et")
    assert found[LintCode.FILE_DAMAGED] == str(folder / "job.1.et")
    assert [rank.rank for rank in check.ranks] == [0, 1]
    assert not check.runs


def test_a_rank_with_two_files_is_found(tmp_path: Path) -> None:
    folder = job(tmp_path, _STEP, _STEP)
    tracebraid.chakra.write(folder / "other.1.et", rank_of(1, _STEP))
    found = [finding.code for finding in tracebraid.chakra.check(folder).findings]
    assert found == [LintCode.RANK_TWICE]


def test_wrong_usage_is_an_error_that_says_what_is_wrong(tmp_path: Path) -> None:
    assert "no .et files" in fail("chakra", "check", tmp_path)
    assert "no such file" in fail("chakra", "check", tmp_path / "job")
    job(tmp_path, _STEP, _STEP)
    (tmp_path / "comm_group.json").write_text("[]")
    assert "comm_group.json" in fail("chakra", "check", tmp_path)
    assert run("chakra", "check", tmp_path, "--simulator", "gpgpu").returncode == 2
    with pytest.raises(tracebraid.ArgumentError):
        tracebraid.chakra.check(tmp_path, simulator="gpgpu")


# --- `tracebraid chakra json` and `tracebraid chakra-jsonizer`, as they are typed --------------------


MODULE = [sys.executable, "-m", "tracebraid", "chakra", "json"]


@pytest.fixture
def et_file(tmp_path: Path) -> Path:
    tracebraid.chakra.write(tmp_path / "job.0.et", RANK)
    return tmp_path / "job.0.et"


@pytest.mark.parametrize("lines", [[], ["--lines"]])
def test_a_file_goes_there_and_back(et_file: Path, lines: list[str]) -> None:
    text, again = et_file.with_name("job.json.gz"), et_file.with_name("again.0.et")
    assert run("chakra", "json", et_file, "-o", text, *lines) == (0, "", "")
    content = gzip.decompress(text.read_bytes())
    first = json.loads(content.splitlines()[0] if lines else content)
    assert (first if lines else first["metadata"])["version"] == "0.0.4"
    assert run("chakra", "json", text, "-o", again) == (0, "", "")
    assert again.read_bytes() == et_file.read_bytes()
    assert run("chakra", "json", text, "-o", again).returncode == 1, "a file that is there is kept"


@pytest.mark.full
def test_standard_input_and_output_are_taken(et_file: Path) -> None:
    content = et_file.read_bytes()
    text = subprocess.run([*MODULE, "-"], input=content, capture_output=True, check=True).stdout
    assert [node["id"] for node in json.loads(text)["nodes"]] == ["7", "3", str(2**40)]
    assert subprocess.run([*MODULE, "-"], input=text, capture_output=True, check=True).stdout == content


def test_a_cut_file_is_converted_as_far_as_it_goes_and_that_is_said(et_file: Path) -> None:
    et_file.write_bytes(et_file.read_bytes()[:-3])
    done = run("chakra", "json", et_file, "-o", et_file.with_name("job.json"))
    assert done.returncode == 0
    assert "job.0.et, byte " in done.stderr
    assert len(json.loads(et_file.with_name("job.json").read_text())["nodes"]) == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("job.0.et", b""), ("job.json", b"hello"), ("job.json", b'{"a": 1}'), ("job", b"{")),
        ("job.0.et", b"\x7fELF" + b"\0" * 200),
    ],
)
def test_what_is_neither_is_refused_and_nothing_is_written(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    done = run("chakra", "json", tmp_path / name, "-o", tmp_path / "out")
    assert done.returncode == 1
    assert f"{name}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_functions_refuse_the_other_direction_and_files_that_are_there(et_file: Path) -> None:
    text = et_file.with_name("job.json")
    assert tracebraid.chakra.to_json(et_file, text) == []
    with pytest.raises(OutputError):
        tracebraid.chakra.to_json(et_file, text)
    with pytest.raises(WrongTraceError, match=r"chakra\.from_json"):
        tracebraid.chakra.to_json(text, et_file.with_name("x"))
    with pytest.raises(WrongTraceError, match=r"chakra\.to_json"):
        tracebraid.chakra.from_json(et_file, et_file.with_name("x"))


def test_the_jsonizer_of_chakra_is_taken_at_its_word(et_file: Path) -> None:
    from google.protobuf.json_format import MessageToJson

    from tests.unit.chakra.test_files import parsed

    out = et_file.with_name("out.json")
    out.write_text("of an earlier run")
    options = ["--input_filename", et_file, "--output_filename", out]
    assert run("chakra-jsonizer", *options) == (0, "", "")
    assert out.read_text() == "".join(MessageToJson(message) for message in parsed(et_file))
    assert run("chakra-jsonizer", "--input_filename", et_file, "--output_filename", et_file).returncode == 1
    again = et_file.with_name("again.0.et")
    assert run("chakra", "json", out, "-o", again).returncode == 0
    assert again.read_bytes() == et_file.read_bytes()


# --- `tracebraid chakra show`: new files by their ending, and wrong usage that says what to do -------


@pytest.fixture
def et(tmp_path: Path) -> Path:
    path = tmp_path / "made.0.et"
    tracebraid.chakra.write(path, made_rank())
    return path


@pytest.mark.parametrize("name", ["g.svg", "g.dot", "g.gv", "g.graphml", "g.svg.gz"])
def test_the_ending_says_the_form(name: str, et: Path) -> None:
    shown = tracebraid.chakra.show(et, et.with_name(name))
    data = shown.path.read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    assert text.startswith(
        {".svg": "<svg", ".graphml": "<?xml"}.get(Path(name.removesuffix(".gz")).suffix, "digraph")
    )
    assert (shown.nodes, shown.nodes_of_file) == (11, 11)


def test_a_part_is_shown(et: Path) -> None:
    out = et.with_name("part.svg")
    done = run("chakra", "show", et, "--node", 13, "--near", 1, "--step", "0", "-o", out)
    assert done.returncode == 0, done.stderr
    assert "7 of 11 nodes" in done.stderr
    again = et.with_name("again.svg")
    assert run("chakra", "show", et, "--node", 13, "--near", 1, "--step", "0", "-o", again).returncode == 0
    assert out.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ["--node", "1"],
        ["--step", "9"],
        ["--ids", "5"],
        ["--ids", "9-1"],
        ["--type", "KERNEL"],
        ["--near", "-1"],
        ["--top", "0"],
        ["--name", "absent"],
    ],
    ids=" ".join,
)
def test_wrong_usage_writes_nothing(options: list[str], et: Path) -> None:
    out = et.with_name("g.svg")
    done = run("chakra", "show", et, *options, "-o", out)
    assert done.returncode == 2
    assert "Error" in done.stderr
    assert not out.exists()


def test_what_cannot_be_shown_is_refused(et: Path) -> None:
    taken = et.with_name("taken.svg")
    taken.write_text("mine")
    with pytest.raises(OutputError):
        tracebraid.chakra.show(et, taken)
    assert taken.read_text() == "mine"
    with pytest.raises(ArgumentError):
        tracebraid.chakra.show(et, et.with_name("g.png"))
    with pytest.raises(InputError):
        tracebraid.chakra.show(et.with_name("absent.et"), et.with_name("g.svg"))
    with pytest.raises(InputError):
        tracebraid.chakra.show(taken, et.with_name("g.svg"))


def test_too_many_nodes_for_a_picture_are_named(tmp_path: Path) -> None:
    job = transformer(Parallelism(tensor=2), TrainingSteps(sequence=128, micro_batches=16))
    path = tmp_path / "many.0.et"
    tracebraid.chakra.write(path, next(generated_ranks(job)))
    with pytest.raises(ArgumentError, match="500"):
        tracebraid.chakra.show(path, tmp_path / "g.svg")
    part = tracebraid.chakra.PartChoice(top=20, near=1)
    assert tracebraid.chakra.show(path, tmp_path / "g.svg", part).nodes < 100
    assert tracebraid.chakra.show(path, tmp_path / "g.dot").nodes > 500


# --- `tracebraid chakra generate`: whole folders or none, and wrong usage that says what to do -------


DEGREES = ["--data", "2", "--tensor", "2", "--pipeline", "2", "--expert", "2", "--experts", "4"]


@pytest.mark.full
def test_a_chain_is_written(tmp_path: Path) -> None:
    out = tmp_path / "chain"
    done = run_command(
        *(sys.executable, "-m", "tracebraid", "chakra", "generate", "chain"),
        *("--chain", GOLDEN, "--ranks", "4", "-o", out),
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == [
        "comm_groups.json",
        *(f"job.{n}.et" for n in range(4)),
    ]
    assert json.loads((out / "comm_groups.json").read_bytes()) == {}
    rank = tracebraid.chakra.read(out / "job.2.et")
    assert rank.rank == 2
    assert rank.nodes.get_column("duration_micros").to_list() == [100, 0, 50]


@pytest.mark.full(keep=1)
@pytest.mark.parametrize("name", ["all_sharded_16", "tree-all-reduce_5"])
def test_files_hold_what_was_generated(name: str, tmp_path: Path) -> None:
    job = small_jobs()[name]
    done = tracebraid.chakra.generate(job, tmp_path / "job", prefix="t")
    again = tracebraid.chakra.generate(job, tmp_path / "again", prefix="t")
    assert done.ranks == job.ranks
    assert done.size_bytes == sum(path.stat().st_size for path in done.path.iterdir())
    assert json.loads((done.path / "comm_groups.json").read_bytes()) == comm_groups(job)
    for rank in generated_ranks(job):
        path = done.path / f"t.{rank.rank}.et"
        assert path.read_bytes() == (again.path / path.name).read_bytes()
        found = tracebraid.chakra.read(path)
        assert found.findings == ()
        assert found.attributes == rank.attributes
        assert found.nodes.rows() == rank.nodes.rows()
        assert list(deps_of(found)) == list(deps_of(rank))


def test_a_transformer_s_options_are_used(tmp_path: Path) -> None:
    small = ["--layers", "4", "--hidden", "64", "--heads", "4", "--vocab", "128", "--sequence", "32"]
    done = run(
        "chakra", "generate", "transformer", *small, *DEGREES, "--steps", "2", "-o", str(tmp_path / "out")
    )
    assert done.returncode == 0, done.stderr
    assert "16 ranks" in done.stderr
    workload = dict(tracebraid.chakra.read(tmp_path / "out" / "job.15.et").attributes)["workload"]
    assert "hidden=64" in str(workload)
    assert "steps=2" in str(workload)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing", "--ranks", "4"],
        ["chain", "--ranks", "4"],
        ["chain", "--chain", "RUN", "--ranks", "4"],
        ["chain", "--chain", GOLDEN],
        ["chain", "--chain", GOLDEN, "--ranks", "1"],
        ["chain", "--chain", GOLDEN, "--ranks", "4", "--layers", "2"],
        ["ring-all-reduce", "--ranks", "4", "--chain", GOLDEN],
        ["ring-all-reduce", "--ranks", "4", "--size", "3"],
        ["ring-all-reduce", "--ranks", "4", "--size", "-1"],
        ["transformer"],
        ["transformer", "--ranks", "4"],
        ["transformer", "--tensor", "3"],
        ["transformer", "--tensor", "0"],
        ["transformer", "--data", "2", "--device", "abacus"],
        ["transformer", "--data", "2", "--device", "V100 SXM2 32GB", "--precision", "fp8"],
        ["transformer", "--data", "2", "--efficiency", "2"],
        ["transformer", "--data", "2", "--prefix", "../x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_of_generate_writes_nothing(arguments: list[str], tmp_path: Path) -> None:
    done = run("chakra", "generate", *arguments, "-o", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "Error" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_kept(tmp_path: Path) -> None:
    with pytest.raises(OutputError):
        tracebraid.chakra.generate(small_jobs()["golden"], tmp_path)
    with pytest.raises(ArgumentError):
        tracebraid.chakra.generate(small_jobs()["golden"], tmp_path / "out", prefix="a/b")
    assert list(tmp_path.iterdir()) == []


# --- `chakra-generator` and `chakra-visualizer`: what Chakra's own commands write --------------------


THEIRS = "30c5b1806e28bdb4a45b5ebf6e8ec1fdbc25c97034f06509ee9ff873ca807e95"
"""SHA-256 over names and bytes of the files that Chakra's generator writes with `--num_npus 2` (commit 21585d8)."""


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def test_the_generator_writes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # what is there is replaced
        done = run("chakra-generator", "--num_npus", "2")
        assert done.returncode == 0, done.stderr
        assert digest(tmp_path) == THEIRS


def test_the_generator_takes_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--default_runtime", "6", "--default_tensor_size", "8", "--default_comm_size", "9")
    assert run("chakra-generator", "--num_npus", "2", *options).returncode == 0
    assert len(list(tmp_path.iterdir())) == 28
    assert digest(tmp_path) != THEIRS
    assert run("chakra-generator", "--num_npus", "0").returncode == 2


def visualize(et: Path, name: str) -> Path:
    out = et.with_name(name)
    done = run("chakra-visualizer", "--input_filename", str(et), "--output_filename", str(out))
    assert done.returncode == 0, done.stderr
    return out


def test_the_visualizer_s_graphml_has_its_attributes(et: Path) -> None:
    root = ET.fromstring(visualize(et, "g.graphml").read_bytes())
    prefix = "{http://graphml.graphdrawing.org/xmlns}"
    assert [key.get("attr.name") for key in root.iter(f"{prefix}key")] == ["label", "dependency"]
    labels = {node.get("id"): [data.text for data in node] for node in root.iter(f"{prefix}node")}
    assert labels["10"] == [NAMES[0]]
    assert labels[str(MISSING)] == []
    edges = {(e.get("source"), e.get("target")): e[0].text for e in root.iter(f"{prefix}edge")}
    assert edges["10", "12"] == edges[str(MISSING), "12"] == "control"
    assert sum(kind == "data" for kind in edges.values()) == 15


def test_the_visualizer_s_dot_has_its_arrows(et: Path) -> None:
    lines = visualize(et, "g.dot").read_text().splitlines()
    assert lines[0] == "digraph {"
    assert "\t999 -> 12 [arrowhead=tee]" in lines
    assert "\t14 -> 10 [arrowhead=normal]" in lines
    assert sum("label=" in line for line in lines) == 11
    visualize(et, "g.dot")


def test_the_visualizer_says_what_to_do_for_a_pdf(et: Path) -> None:
    out = et.with_name("g.pdf")
    done = run("chakra-visualizer", "--input_filename", str(et), "--output_filename", str(out))
    assert done.returncode == 2
    assert ".svg" in done.stderr
    assert not out.exists()
    assert visualize(et, "g.svg").read_bytes().startswith(b"<svg")
